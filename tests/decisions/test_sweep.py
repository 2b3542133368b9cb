"""sweep(): every configuration built, evaluated and compared, with what it costs."""

import asyncio
import json
import math
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_index.core.base.llms.types import CompletionResponse
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import SecretStr

from llama_index_rag_metrics import (
    EvaluationResults,
    LLMRelevancy,
    RetrievalDataset,
    Run,
    Scores,
    evaluate,
    sweep,
)
from llama_index_rag_metrics.decisions.sweeps.grid import Configuration, configurations_of
from llama_index_rag_metrics.decisions.sweeps.sweep_result import Sweep
from llama_index_rag_metrics.decisions.sweeps.sweeping import asweep
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report.model import Row
from llama_index_rag_metrics.report.numbers import rounded_up
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.retrieval import Retrieval


def made_sweep(
    configurations: Mapping[str, tuple[Sequence[float], int, float]], **options: Any
) -> Sweep:
    """A sweep on ndcg: name to scores, and the tokens and the seconds of every question."""
    made = [_made(name, *columns) for name, columns in configurations.items()]
    return Sweep(made, ["ndcg"], **options)


def _made(name: str, scores: Sequence[float], tokens: int, seconds: float) -> Configuration:
    keys = [f"{number:03}" for number in range(len(scores))]
    ranking = Ranking(["d"], latency=seconds, tokens=[tokens])
    retrieval = Retrieval(Run(dict.fromkeys(keys, ranking)))
    made = Scores(keys, {"ndcg": list(scores)}).replace(retrieval=retrieval)
    results = EvaluationResults(made)
    return Configuration({"name": name}, {"name": name}, results, tokens=tokens)


N = 60
TEXTS = {f"d{number}": f"text {number} " * 5 for number in range(N)}
DATASET = RetrievalDataset(
    {f"q{number}": f"{number}" for number in range(N)},
    {f"q{number}": [f"d{number}"] for number in range(N)},
    TEXTS,
)


class Builder:
    """Builds retrievers that find the right document for a share of the questions."""

    def __init__(self) -> None:
        self.built: list[tuple[int, int]] = []

    def __call__(self, share: int, top_k: int) -> Any:
        if share == 0:
            raise ValueError("nothing to index")
        self.built.append((share, top_k))

        def retrieve(query: str) -> list[NodeWithScore]:
            number = int(query)
            is_hit = number % 10 < share
            ids = [f"d{(number + rank + (not is_hit)) % N}" for rank in range(top_k)]
            return [NodeWithScore(node=TextNode(id_=item, text=TEXTS[item])) for item in ids]

        return retrieve


GRID = {"share": [2, 9], "top_k": [1, 3]}
TOO_FEW = "Not enough questions to choose one of 2 configurations on ndcg"


def test_quality_and_cost_of_every_configuration() -> None:
    swept = sweep(Builder(), GRID, DATASET, ["recall@3", "mrr"], tokenizer=str.split)
    names = ["share=2, top_k=1", "share=2, top_k=3", "share=9, top_k=1", "share=9, top_k=3"]
    assert [configuration.name for configuration in swept] == names
    alone = evaluate(Builder()(9, 3), DATASET, ["recall@3", "mrr"])
    assert swept["share=9, top_k=3"].mean("mrr") == alone.scores.means["mrr"]
    # 10 words a document: 3 documents, 30 tokens
    assert [configuration.tokens for configuration in swept] == [10, 30, 10, 30]
    assert all(configuration.p95 is not None for configuration in swept)
    assert swept.configurations[0].params == {"share": 2, "top_k": 1}


def test_cheapest_of_those_within_the_tolerance() -> None:
    # both with share 9 score the same on each of the 60 questions; those with share 2 lose 0.7
    swept = sweep(Builder(), GRID, DATASET, ["recall@3"], tokenizer=str.split, tolerance=0.1)
    assert swept.winner is None
    assert [configuration.params["share"] for configuration in swept.within] == [9, 9]
    taken = swept.recommended
    assert taken is not None
    assert taken is swept["share=9, top_k=1"]
    bound = swept.at_most_worse(taken)
    assert 0 < bound <= 0.1
    assert swept.decision == (
        f"Take share=9, top_k=1: it is at most {rounded_up(bound, 2)} worse than the best of 4 on "
        "recall@3 (95 % confidence, 60 questions)."
    )


def test_configuration_that_may_be_much_worse_isnt_recommended() -> None:
    # equal on all 60 questions is not yet equal within 0.02 on all others
    swept = sweep(Builder(), GRID, DATASET, ["recall@3"], tokenizer=str.split)
    assert swept.tolerance == 0.02
    assert swept.recommended is None
    assert swept.within == []
    assert swept.decision == (
        "Take share=9, top_k=1: none of 4 is better on recall@3 (95 % confidence, 60 questions). "
        "It scores the same as top_k=3 on all 60 questions."
    )
    others = made_sweep({"a": ([1.0, 0.0] * 30, 9, 0.1), "b": ([1.0] * 31 + [0.0] * 29, 9, 0.1)})
    assert others.decision.startswith(f"{TOO_FEW}: until you have about ")
    # means that are equal but for rounding: no number of questions would do
    shuffled = made_sweep(
        {"a": ([0.1, 0.2, 0.3] * 4, 9, 0.1), "b": ([0.3, 0.2, 0.1] * 4, 9, 0.1)}, tolerance=0
    )
    assert shuffled.decision == f"{TOO_FEW}: take name=a, which has the best mean."
    verdicts = [found.report().decision[0] for found in (swept, shuffled)]
    badges = [(verdict.tone, verdict.label) for verdict in verdicts]
    assert badges == [("best", "best"), ("open", "can't tell")]
    # tokens that are the same are no trade-off
    assert [found.report().figures["tradeoff"]() for found in (others, shuffled)] == [None, None]
    assert "best" not in {cell.tone for row in _rows(swept) for cell in row.cells}


@pytest.mark.parametrize(
    ("tokens", "p95", "taken", "words"),
    [
        # 2 % fewer tokens are no saving, so p95 decides; nor is a p95 that isn't half as long
        (980, 0.6, "best", "Take name=best: it is at most 0.0"),
        (1000, 0.06, "best", "Take name=best: it is at most 0.0"),
        (700, 0.6, "other", "Take name=other: it costs less than name=best, which "),
        (1000, 0.04, "other", "Take name=other: it costs less than name=best, which "),
    ],
)
def test_cheapest_is_taken_and_the_reason_said(
    tokens: int, p95: float, taken: str, words: str
) -> None:
    # 2 of 400 questions are missed more: a mean lower by 0.005, shown to be within 0.02 of the best
    best = [1.0] * 320 + [0.0] * 80
    other = [1.0] * 318 + [0.0] * 82
    swept = made_sweep({"best": (best, 1000, 0.1), "other": (other, tokens, p95)})
    assert [each.name for each in swept.within] == ["name=best", "name=other"]
    assert swept.recommended is swept[f"name={taken}"]
    assert swept.decision.startswith(words)


def test_winner_and_a_cheaper_one() -> None:
    best = [0.81] * 400
    other = [0.8 + 0.001 * (number % 2) for number in range(400)]
    swept = made_sweep({"best": (best, 1000, 0.1), "other": (other, 500, 0.1)})
    assert swept.winner is swept["name=best"]
    taken = swept.recommended
    assert taken is swept["name=other"]
    bound = rounded_up(swept.at_most_worse(taken), 3)
    assert swept.decision == (
        "Take name=other: it costs less than name=best, which has the best mean, and is at most "
        f"{bound} worse than the best of 2 on ndcg (95 % confidence, 400 questions)."
    )
    assert [row.cells[0].tone for row in _rows(swept)] == ["normal", "best"]


def test_question_alone_tells_nothing() -> None:
    swept = made_sweep({"a": ([1.0], 0, 0.0), "b": ([0.5], 0, 0.0)})
    assert swept.recommended is None
    assert swept.decision == f"{TOO_FEW}: take name=a, which has the best mean."
    assert json.loads(swept.to_json())[0]["at_most_worse"] is None


def test_means_over_easier_questions_are_no_better() -> None:
    # a has no value for the hard half, so that its own mean is higher, though b beats it elsewhere
    easy, hard = [0.8, 0.9] * 10, [0.1, 0.2] * 10
    better = [score + 0.05 for score in easy]
    swept = made_sweep({"a": (easy + [float("nan")] * 20, 10, 0.1), "b": (better + hard, 10, 0.1)})
    assert swept["name=a"].mean("ndcg") == pytest.approx(0.85)
    assert swept["name=b"].mean("ndcg") == pytest.approx(0.525)
    assert swept.winner is swept["name=b"]
    assert swept.ranked == [swept["name=b"], swept["name=a"]]
    assert swept.report().lead == "2 configurations, 20 questions"
    assert "left out of ranks and bounds: 20 questions" in " ".join(swept.report().notes)


def test_configurations_without_a_question_in_common() -> None:
    none = float("nan")
    swept = made_sweep({"a": ([1.0, none], 10, 0.1), "b": ([none, 1.0], 10, 0.1)})
    assert swept.recommended is None
    assert swept.decision == (
        "Nothing can be compared: no question has a value for all 2 configurations."
    )
    assert swept.decision in " ".join(str(swept).split())


def test_metric_without_a_scale_recommends_only_the_best() -> None:
    # dcg has no upper limit, so that nothing says how much of it is little
    swept = sweep(Builder(), GRID, DATASET, ["dcg@3"], tokenizer=str.split)
    assert swept.tolerance == 0
    assert swept.decision.startswith("Take share=9, top_k=1: none of 4 is better on dcg@3 (")
    wide = sweep(Builder(), GRID, DATASET, ["dcg@3"], tokenizer=str.split, tolerance=0.5)
    assert wide.recommended is wide["share=9, top_k=1"]


def test_trade_off_names_what_is_recommended() -> None:
    swept = sweep(Builder(), GRID, DATASET, ["recall@3"], tokenizer=str.split, tolerance=0.1)
    figure = swept.report().figures["tradeoff"]()
    assert figure is not None
    marks = [mark for series in figure.series for mark in series.marks]
    assert [mark.x for mark in marks] == [10, 30, 10, 30]
    assert [mark.y for mark in marks] == [point.mean("recall@3") for point in swept.ranked]
    assert [mark.label for mark in marks] == ["1 ✓", "2", "3", "4"]
    # or else the best
    unsure = sweep(Builder(), GRID, DATASET, ["recall@3"]).report().figures["tradeoff"]()
    assert unsure is not None
    assert unsure.series[0].marks[0].label == "1 ✓"


def test_tokens_are_counted_as_deep_as_the_metric_reads() -> None:
    # 10 words a document: 3 are retrieved, and 1, 2 or all of them are read
    read = {"recall@1": 10, "recall@20tokens": 20, "recall@19tokens": 10, "mrr": 30}
    grid = {"share": [9], "top_k": [3]}
    for name, tokens in read.items():
        (configuration,) = sweep(Builder(), grid, DATASET, [name], tokenizer=str.split)
        assert configuration.tokens == tokens, name
    # by text, the first two chunks are one item, and the third is the second one
    texts = ["a b c d e", "a b c d e f", "x y z", "u v"]
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in texts]
    labels = RetrievalDataset({"q": "?"}, expected_texts={"q": [texts[0], texts[2]]})
    for name, tokens in {"recall@1": 5, "recall@2": 14, "recall@13tokens": 11}.items():
        options: dict[str, Any] = {"matcher": "text", "tokenizer": str.split}
        (configuration,) = sweep(lambda: lambda _: nodes, {}, labels, [name], **options)
        assert configuration.tokens == tokens, name


class Grader(MockLLM):
    """An LLM that takes one text in ten for an answer."""

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text="3" if re.search(r"text \d?7\b", prompt) else "0")


def test_report_without_labels_says_how_the_metric_is_graded() -> None:
    unlabelled = RetrievalDataset(DATASET.queries, {}, TEXTS)
    judge = LLMRelevancy(llm=Grader(max_tokens=None), label="mock", k=1)
    swept = sweep(Builder(), {"share": [9, 2], "top_k": [1]}, unlabelled, [judge])
    report = swept.report()
    assert report.lead == "2 configurations, 60 questions, without labels"
    assert not [note for note in report.notes if "left out" in note]
    assert report.decision[0].text == (
        "Graded by mock, not by people, from 0 to 3 (llm_relevancy(label=mock)@1)."
    )


def _rows(swept: Sweep) -> Sequence[Row]:
    return swept.report().tables[0].rows


def test_winner_where_there_is_one() -> None:
    swept = sweep(Builder(), {"share": [2, 5, 9], "top_k": [1]}, DATASET, ["recall@3"])
    assert swept.winner is swept["share=9, top_k=1"]
    assert swept.decision == (
        "share=9, top_k=1 is the best of 3 on recall@3 (95 % confidence, 60 questions)."
    )
    assert swept.recommended is swept.winner
    assert swept.at_most_worse(swept.ranked[0]) == 0
    assert swept.report().decision[0].tone == "best"


def test_metric_of_which_less_is_better() -> None:
    swept = sweep(Builder(), GRID, DATASET, ["tokens", "recall"], tokenizer=str.split)
    assert swept.ranked[0].params["top_k"] == 1


def test_failing_configuration_ends_nothing() -> None:
    swept = sweep(Builder(), {"share": [0, 9], "top_k": [1]}, DATASET, ["mrr"])
    assert [configuration.error for configuration in swept] == ["ValueError: nothing to index", ""]
    assert swept.decision == (
        "No decision: 1 configuration failed and may be better (ValueError: nothing to index). Of "
        "the others: Only share=9, top_k=1 was evaluated: there is nothing to compare it with."
    )
    nothing = sweep(Builder(), {"share": [0], "top_k": [1]}, DATASET, ["mrr"])
    assert nothing.decision == (
        "Nothing was measured: 1 configuration failed (ValueError: nothing to index)."
    )
    line = "share=0, top_k=1 failed: ValueError: nothing to index"
    assert line in " ".join(str(nothing).split())


async def _abuild(share: int, top_k: int) -> Any:
    await asyncio.sleep(0)
    return Builder()(share, top_k)


def test_builds_may_be_asynchronous() -> None:
    swept = asyncio.run(asweep(_abuild, GRID, DATASET, ["mrr"], tokenizer=str.split))
    alone = sweep(Builder(), GRID, DATASET, ["mrr"])
    assert [point.mean("mrr") for point in swept] == [point.mean("mrr") for point in alone]


def test_sweep_is_reported_everywhere(tmp_path: Path) -> None:
    swept = sweep(Builder(), GRID, DATASET, ["recall@3", "mrr"], tokenizer=str.split)
    frame = swept.to_pandas()
    assert frame["tokens"].tolist() == [10, 30, 10, 30]
    assert frame["recommended"].tolist() == [False] * 4
    assert (frame["at_most_worse"] > 0).all()
    rows = json.loads(swept.to_json())
    assert [row["share"] for row in rows] == [2, 2, 9, 9]
    assert "share" in swept.to_markdown()
    assert "share" in swept._repr_html_()
    page = swept.to_html(tmp_path / "sweep.html").read_text("utf-8")
    assert "at most worse by" in page


def test_head_says_what_all_configurations_share() -> None:
    swept = sweep(Builder(), GRID, DATASET, ["recall@3"], confidence=0.9, tokenizer=str.split)
    report = swept.report()
    about = dict(report.about)
    assert about["tokens by"] == "str.split"
    # what differs is said once, in the table, and not again for each configuration
    assert not any("share=" in text for text in about.values())
    assert "90 % confidence" in report.tables[0].text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"build": 3}, "a function of the parameters"),
        ({"grid": {"share": []}}, "at least one value"),
        ({"confidence": 95}, "between 0 and 1"),
        ({"tolerance": -0.1}, "a difference too small to matter"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"build": Builder(), "grid": GRID, "dataset": DATASET, **arguments}
    with pytest.raises(InvalidInput, match=message):
        sweep(metrics=["mrr"], **options)


def test_configuration_that_fails_on_every_question_shows_no_mean() -> None:
    def build(top_k: int) -> Any:
        return lambda query: [1 / 0]

    (configuration,) = sweep(build, {"top_k": [1]}, DATASET, ["mrr"])
    assert configuration.mean("mrr") is None
    assert "Nothing was measured" in str(configuration)


def test_what_is_no_option() -> None:
    with pytest.raises(TypeError, match=r"sweep\(\) gives each configuration its own name"):
        sweep(Builder(), GRID, DATASET, ["mrr"], name="x")
    with pytest.raises(TypeError, match=r"sweep\(\) got an unexpected keyword argument 'wrokers'"):
        sweep(Builder(), GRID, DATASET, ["mrr"], wrokers=2)


def test_unknown_configuration() -> None:
    swept = sweep(Builder(), {"share": [9], "top_k": [1]}, DATASET, ["mrr"])
    assert isinstance(swept, Sweep)
    with pytest.raises(InvalidInput, match="share=9, top_k=1"):
        swept["share=3"]


def test_cheapest_is_kept_of_configurations_that_score_the_same() -> None:
    scores = [1.0] * 20
    swept = made_sweep({"a": (scores, 30, 0.1), "b": (scores, 10, 0.1)})
    assert swept.ranked[0] is swept["name=b"]
    assert swept.decision == (
        "Take name=b: none of 2 is better on ndcg. It scores the same as name=a on all 20 "
        "questions."
    )
    other = made_sweep({"a": (scores, 30, 0.1), "b": (scores, 10, 0.1), "c": ([0.9] * 20, 1, 0.1)})
    assert other.decision == (
        "Take name=b: none of 3 is better on ndcg (95 % confidence, 20 questions). It scores the "
        "same as name=a on all 20 questions."
    )
    close = [1.0] * 19 + [0.9]
    near = made_sweep({"a": (scores, 30, 0.1), "b": (scores, 10, 0.1), "c": (close, 1, 0.1)})
    hasty = made_sweep({"a": (scores, 10, 0.1), "b": (scores, 10, 0.09)})
    assert hasty.decision.startswith("Take name=a: ")  # a p95 is never twice the same
    assert "until you have about 650, take name=b, which has the best mean. It" in near.decision


def test_sweep_without_labels_says_what_to_do() -> None:
    dataset = {"queries": {"q1": "a"}, "corpus": {}, "relevant_docs": {}}
    swept = sweep(lambda top_k: lambda query: ["d"], {"top_k": [1, 2]}, dataset, ["mrr"])
    assert swept.decision.startswith("None of 1 question has labels. Label some")
    assert "failed" not in str(swept)


def test_ids_without_texts_have_no_tokens() -> None:
    found = sweep(lambda n: lambda query: ["d1"][:n], {"n": [0, 1]}, DATASET, ["mrr"])
    no_corpus = RetrievalDataset(DATASET.queries, DATASET.relevance)
    bare = sweep(lambda n: lambda query: ["d1"][:n], {"n": [1, 2]}, no_corpus, ["mrr"])
    assert found["n=1"].tokens is not None
    assert [configuration.tokens for configuration in bare] == [None, None]
    assert "tokens a question" not in str(bare)
    with pytest.raises(InvalidInput, match="a text, whose tokens can be counted"):
        evaluate(lambda query: ["d1"], no_corpus, ["recall@50tokens"])


def test_combinations_come_once_in_order() -> None:
    locks = {"one": threading.Lock(), "other": threading.Lock()}
    points = configurations_of({"a": [1, 2], "lock": locks})
    names = ["a=1, lock=one", "a=1, lock=other", "a=2, lock=one", "a=2, lock=other"]
    assert list(points) == names
    assert points[names[1]].params == {"a": 1, "lock": locks["other"]}
    assert points[names[0]].run == "a=1, lock='one'"


def test_objects_need_names() -> None:
    small, large = MockEmbedding(embed_dim=3), MockEmbedding(embed_dim=4)
    with pytest.raises(InvalidInput, match=r"MockEmbedding.*Name them: \{\"a\": \{\"a name\""):
        configurations_of({"a": [small, large]})
    assert [*configurations_of({"a": {"small": small, "large": large}})] == ["a=small", "a=large"]
    assert [*configurations_of({"a": [np.int64(3)]})] == ["a=3"]
    assert list(configurations_of({})) == ["as it is"]


@pytest.mark.parametrize("value", [threading.Lock(), {"k": 1}, [1, 2], sorted])
def test_value_that_is_no_text_needs_a_name(value: Any) -> None:
    with pytest.raises(
        InvalidInput, match=r"grid\['value'\].*Name them: \{\"value\": \{\"a name\""
    ):
        configurations_of({"value": [value]})


def test_run_has_the_types_that_a_name_has_not() -> None:
    """ "k=1" is the name of a number and of a text, and "a=1, b=2" of one parameter and of two."""

    def run(grid: Any) -> str:
        (point,) = configurations_of(grid).values()
        return point.run

    assert run({"k": [1]}) != run({"k": ["1"]}) != run({"k": [1.0]})
    assert run({"a": ["1, b=2"]}) != run({"a": ["1"], "b": ["2"]})


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("api_key", "zq7-Xy-plain"),
        ("token", SecretStr("zq7-Xy-other")),
        ("url", "https://me:zq7-Xy@localhost/v1"),
        ("url", "https://localhost/v1?api_key=zq7-Xy"),
    ],
)
def test_secrets_are_refused_and_not_shown(parameter: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="looks like a secret") as caught:
        configurations_of({parameter: [value]})
    assert "zq7" not in str(caught.value)
    assert "zq7" not in repr(vars(caught.value))
    named = configurations_of({parameter: {"mine": value}})
    assert [*named] == [f"{parameter}=mine"]
    unset: dict[str, Any] = {"max_token": [100], "api_key": [None]}
    numbers = configurations_of(unset)
    assert [*numbers] == ["max_token=100, api_key=None"]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"a": []}, "at least one value"),
        ({"a": "text"}, r"grid\['a'\]: expected a list of values"),
        ({"a": 3}, r"grid\['a'\]: expected a list of values"),
        ([{"a": 1}], "parameter to its values"),
        ({"a": [1, 1]}, "a=1 twice"),
        ({"a": [1, "1"]}, "a=1 twice"),
    ],
)
def test_mapping_that_is_no_grid(grid: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        configurations_of(grid)


HALF_ANSWERED = RetrievalDataset(
    {f"q{n}": str(n) for n in range(6)}, {f"q{n}": ["a"] if n % 2 else [] for n in range(6)}
)
METRICS = ["recall@1", "abstained", "returned@5"]
THRESHOLDS: dict[str, Any] = {"boost": [0.0, 0.2], "min_score": [None, 0.4, 0.55]}


class CountingBuilder:
    """Builds retrievers, and counts what is built and asked."""

    def __init__(self) -> None:
        self.built: Counter[float] = Counter()
        self.asked: Counter[tuple[float, str]] = Counter()

    def __call__(self, boost: float) -> Any:
        self.built[boost] += 1

        def retrieve(query: str) -> list[NodeWithScore]:
            self.asked[boost, query] += 1
            return retrieved(query, boost)

        return retrieve


def retrieved(query: str, boost: float) -> list[NodeWithScore]:
    score = 0.5 if int(query) % 2 else 0.3
    return [NodeWithScore(node=TextNode(id_="a", text="Ants."), score=score + boost)]


@pytest.mark.parametrize("is_kept", [False, True])
def test_thresholds_are_what_evaluate_says(tmp_path: Path, is_kept: bool) -> None:
    journal = tmp_path / "journals" if is_kept else None
    found = sweep(CountingBuilder(), THRESHOLDS, HALF_ANSWERED, METRICS, journal=journal)
    assert len(found.configurations) == 6
    for each in found:
        boost, min_score = each.params["boost"], each.params["min_score"]
        wanted = evaluate(
            lambda query, boost=boost: retrieved(query, boost),
            HALF_ANSWERED,
            METRICS,
            min_score=min_score,
        )
        assert each.results is not None, each.error
        assert each.results.scores.per_query == wanted.scores.per_query
    if journal is not None:
        assert len(list(journal.glob("*.jsonl"))) == 6


def test_min_score_is_checked_before_anything_is_built() -> None:
    build = CountingBuilder()
    with pytest.raises(InvalidInput, match="min_score: expected a finite number"):
        sweep(build, {"boost": [0.0], "min_score": [0.1, math.nan]}, HALF_ANSWERED, METRICS)
    assert not build.built


def test_questions_that_only_some_configurations_score_are_left_out() -> None:
    # q0, q2, q4 and q5 have nothing relevant: of these every configuration has `abstained`
    dataset = RetrievalDataset(HALF_ANSWERED.queries, HALF_ANSWERED.relevance | {"q5": []})
    found = sweep(CountingBuilder(), {"boost": [0.0, 0.2]}, dataset, ["abstained", "recall@1"])
    assert not _left_out(found)
    assert found.report().lead.startswith("2 configurations, 4 questions")

    def build(failing: str) -> Any:
        def retrieve(query: str) -> list[NodeWithScore]:
            if query == failing:
                raise ConnectionError("busy")
            return retrieved(query, 0.0)

        return retrieve

    # of q1, q3 and q5 each configuration lacks another one
    found = sweep(build, {"failing": ["1", "3"]}, HALF_ANSWERED, ["recall@1"], failed="exclude")
    assert ", 1 question;" in found.report().lead
    assert _left_out(found)[0].startswith("left out of ranks and bounds: 2 questions")


def _left_out(found: Sweep) -> list[str]:
    return [note for note in found.report().notes if note.startswith("left out")]
