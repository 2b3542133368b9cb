"""Questions asked several times: each anew, none more often than wanted, whatever is in between."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.tools import FunctionTool
from support.retrievers import node
from support.scripted import ScriptedFunctions

from llama_index_rag_metrics import (
    RetrievalDataset,
    evaluate,
    match_run,
    record_retrieval,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults

N, R = 200, 5
DATASET = RetrievalDataset(
    {f"q{n}": f"question {n}" for n in range(N)},
    {f"q{n}": [f"d{n}"] for n in range(N)},
    {f"d{n}": f"text of d{n}" for n in range(N)},
)
FEW = DATASET.select([f"q{n}" for n in range(20)])
METRICS = ["mrr", "hit_rate@2"]


def searches(n: int, time: int) -> list[list[str]]:
    """What an agent finds for question n when it is asked for this time: one search or two."""
    generator = random.Random(f"{n} {time}")
    ids = ["x", "y", "z"]
    if generator.random() < (n % 10) / 10:
        ids.insert(generator.randrange(4), f"d{n}")
    return [ids[:2], ids[2:]] if generator.random() < 0.5 else [ids]


class Agent:
    """Searches otherwise each time; remembers how often it was asked, and how many at once."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.under_way, self.most = 0, 0

    async def __call__(self, question: str) -> str:
        n = int(question.split()[1])
        self.asked[n] += 1
        time = self.asked[n]
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        for ids in searches(n, time):
            record_retrieval(question, [node(name) for name in ids])
        self.under_way -= 1
        return "an answer"


def asked_by(agent: Agent) -> Any:
    """An asynchronous function, which captures calls."""

    async def asking(question: str) -> str:
        return await agent(question)

    return asking


def check_figures(results: EvaluationResults, n: int = N) -> None:
    """Every figure as a slow count has it."""
    for number in range(n):
        found = [searches(number, time) for time in range(1, R + 1)]
        ids = [[name for call in calls for name in call] for calls in found]
        ranks = [each.index(f"d{number}") + 1 if f"d{number}" in each else 0 for each in ids]
        hits = [0 < rank <= 2 for rank in ranks]
        assert results.scores.per_query[f"q{number}"] == pytest.approx(
            {
                "mrr": sum(1 / rank if rank else 0 for rank in ranks) / R,
                "hit_rate@2": sum(hits) / R,
            },
            abs=1e-14,
        )
        retrieved = [list(run[f"q{number}"].ids) for run in results.run.repeats]
        assert sorted(retrieved) == sorted(ids)


def test_200_questions_5_times_at_once() -> None:
    agent = Agent()
    results = evaluate(asked_by(agent), DATASET, METRICS, repeats=R, workers=64)
    assert dict(agent.asked) == dict.fromkeys(range(N), R)
    assert 1 < agent.most <= 64
    check_figures(results)
    assert len(results.repeats) == R
    assert results.repeats == results.scores.repeats
    for scores, run in zip(results.repeats, results.run.repeats, strict=True):
        again = score_rankings(DATASET.relevance, run, ["mrr", "hit_rate@2"])
        assert again.means == scores.means
    assert [result.metric_dict["mrr"].score for result in results] == results.scores["mrr"].tolist()
    assert results.run.latency is not None
    assert results.run.latency.n == N * R
    assert results.about["repeats"] == "5 runs of each question"


def test_journal_keeps_each_time(tmp_path: Path) -> None:
    agent, path = Agent(), tmp_path / "run.jsonl"
    options: dict[str, Any] = {"journal": path, "run": "agent"}
    once = evaluate(asked_by(agent), FEW, ["mrr"], **options)
    assert set(agent.asked.values()) == {1}
    results = evaluate(asked_by(agent), FEW, METRICS, repeats=R, **options)
    assert set(agent.asked.values()) == {R}  # the first time isn't asked again
    check_figures(results, 20)
    assert results.repeats[0].by_query("mrr") == once.scores.by_query("mrr")
    again = evaluate(asked_by(agent), FEW, METRICS, repeats=R, **options)
    assert set(agent.asked.values()) == {R}
    assert again.run == results.run
    assert again.scores.means == results.scores.means
    fewer = evaluate(asked_by(agent), FEW, ["mrr"], repeats=2, **options)
    assert fewer.run.repeats == results.run.repeats[:2]
    assert set(agent.asked.values()) == {R}


def test_agents_begin_anew_every_time() -> None:
    seen: list[int] = []

    class Watching(ScriptedFunctions):
        """Notes how long the conversation is that it gets."""

        def chat(self, messages: Any, **kwargs: Any) -> Any:
            seen.append(sum(message.role == "user" for message in messages))
            return super().chat(messages, **kwargs)

    agents = pytest.importorskip("llama_index.core.agent.workflow")
    n_found = Counter[str]()

    async def search(input: str) -> str:  # noqa: A002 - what the model calls it
        """Finds the passage every other time."""
        n_found[input] += 1
        names = [input] if n_found[input] % 2 else ["x"]
        record_retrieval(input, [node(name) for name in names])
        return str(names)

    script = {query: [[("search", f"d{query.split()[1]}")]] for query in FEW.queries.values()}
    tool = FunctionTool.from_defaults(async_fn=search)
    agent = agents.FunctionAgent(tools=[tool], llm=Watching(script=script))
    results = evaluate(agent, FEW, ["mrr"], repeats=4)
    assert set(seen) == {1}
    assert dict(n_found) == {f"d{n}": 4 for n in range(20)}
    assert dict(results.scores.means) == {"mrr": 0.5}  # found 2 of 4 times


def test_note_of_some_runs_says_of_which() -> None:
    asked = Counter[str]()

    def down_the_second_time(query: str) -> list[str]:
        asked[query] += 1
        if asked[query] == 2:
            raise ConnectionError("refused")
        return [f"d{query.split()[1]}"]

    results = evaluate(down_the_second_time, FEW, "mrr", repeats=3, workers=1)
    n = len(FEW.queries)
    assert f"{n} of {3 * n} answers failed, of {n} questions" in results.scores.notes
    failed = f"retrieval failed on every question, {n} times with: ConnectionError: refused"
    assert f"in 1 of 3 runs: {failed}" in results.scores.notes
    assert results.scores.means["mrr"] == pytest.approx(2 / 3)


def test_matchers_match_every_time() -> None:
    agent = Agent()
    results = evaluate(asked_by(agent), FEW, METRICS, repeats=R, matcher="text")
    check_figures(results, 20)
    matched = match_run(results.run, FEW, "text")
    scores = score_rankings(matched.relevance, matched.run, ["mrr"])
    assert scores.by_query("mrr") == results.scores.by_query("mrr")
