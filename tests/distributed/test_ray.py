"""On a real Ray cluster of two nodes: the numbers of one process, whatever is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.cohere_server import cohere_server
from support.paths import TESTS
from support.processes import start
from support.ray_retrievers import Factory, NotingEmbedding, node_id, note, notes, told
from support.ray_workflow import LooksTwice

from llama_index_rag_metrics import (
    BM25Similarity,
    Cache,
    CohereRerankRelevancy,
    EmbeddingSimilarity,
    EvaluationResults,
    RetrievalDataset,
    evaluate,
    score_table,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput, RetrievalFailed, WorkersFailed

os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # then all of it listens on 127.0.0.1, as there
    "RAY_worker_niceness": "0",  # Ray's 15 starves them where anything else runs
}
if "RAG_METRICS_RAY" not in os.environ:
    pytest.importorskip("ray", reason="needs Ray")

import pyarrow as pa
import ray
from ray.cluster_utils import Cluster

from llama_index_rag_metrics.distributed import ray as distributed

pytestmark = pytest.mark.ray

evaluate_there = partial(distributed.evaluate, workers=1)
"""By one worker, where a test isn't about several: each is a process that imports LlamaIndex."""

NAMES = ["mrr", "ndcg@3", "recall@2", "ap", "bpref"]
N = 60
PATIENCE = 240
"""Seconds until a worker of the second node is there, though the machine be busy."""

NODE: dict[str, Any] = {
    "node_ip_address": "127.0.0.1",
    "object_store_memory": 80 * 2**20,
    "include_dashboard": False,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The head, which the driver is connected to; tests add the second node."""
    # the workers, which the nodes start, unpickle what comes from these files by name
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
        yield from _cluster()


def _cluster() -> Iterator[Cluster]:
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, **NODE})
    ray.init(address=made.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def second(cluster: Cluster) -> Iterator[Any]:
    """A second node, on which alone workers with {"resources": {"second": 1}} find room."""
    node = cluster.add_node(num_cpus=4, resources={"second": 4}, **NODE)
    cluster.wait_for_nodes()
    yield node
    if node in cluster.worker_nodes:
        cluster.remove_node(node)


@pytest.fixture
def dataset() -> RetrievalDataset:
    return questions(N)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "asked.log"


def questions(n: int) -> RetrievalDataset:
    """Graded relevance; every tenth query is unjudged, every ninth has nothing relevant."""
    relevance: dict[str, Any] = {
        f"q{number}": {f"d{number % 11}": 2, f"d{number * 3 % 7}": 1, "d9": 0}
        for number in range(n)
        if number % 10
    }
    relevance |= {f"q{number}": {"d1": 0} for number in range(9, n, 9)}
    return RetrievalDataset(
        queries={f"q{number}": f"what is {number}" for number in range(n)},
        relevance=relevance,
        corpus={f"d{number}": f"text of document {number}" for number in range(11)},
    )


def same(ours: EvaluationResults, theirs: EvaluationResults) -> bool:
    """Whether two evaluations are equal to the last bit, except for the time that they took."""

    def essence(results: EvaluationResults) -> Any:
        scores = results.scores
        return (
            {name: scores.by_query(name) for name in scores},
            {name: mean.hex() for name, mean in scores.means.items()},
            (scores.query_ids, scores.counts, scores.excluded, scores.failed, scores.notes),
            [
                (query_id, ranking.ids, ranking.scores, ranking.texts, ranking.spans, ranking.error)
                for query_id, ranking in results.run.items()
            ],
            [(result.query, result.expected_ids, result.retrieved_ids) for result in results],
        )

    return bool(essence(ours) == essence(theirs))


def soon(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until something holds; fails if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def journal_ids(path: Path) -> list[str]:
    return [json.loads(line)["query_id"] for line in path.read_text().splitlines()[1:]]


# Stored rankings


def stored(n: int, seed: int = 5) -> pa.Table:
    rng = random.Random(seed)
    ids = [f"d{number}" for number in range(30)]
    expected = [
        rng.sample(ids, rng.randint(0, 6)) if rng.random() < 0.9 else None for _ in range(n)
    ]
    return pa.table(
        {
            "query_id": [f"q{number}" for number in range(n)],
            "retrieved_ids": [rng.sample(ids, rng.randint(0, 12)) for _ in range(n)],
            "expected_ids": pa.array(expected, pa.list_(pa.string())),
            "grades": pa.array(
                [
                    items and [rng.choice([-1.0, 0.0, 0.5, 1.0, 3.0]) for _ in items]  # type: ignore[misc]
                    for items in expected
                ],
                pa.list_(pa.float64()),
            ),
            "error": pa.array([rng.choice([None] * 9 + ["lost"]) for _ in range(n)], pa.string()),
        }
    )


STORED_METRICS = ["mrr", "ndcg@20", "ap(min_grade=2)", "infap", "rbp(p=0.95)"]


@pytest.mark.parametrize(
    ("postprocessors", "words"),
    [
        (3, r"got <class 'int'>\. Write \[postprocessor\]"),
        ([print], "expected a list of LlamaIndex's postprocessors, got <class 'builtin_"),
    ],
)
def test_what_is_no_postprocessor_is_refused_before_there_is_a_cluster(
    dataset: RetrievalDataset, log: Path, postprocessors: Any, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        distributed.evaluate(dataset, Factory(log), NAMES, node_postprocessors=postprocessors)
    assert not ray.is_initialized()


def test_scores_of_each_query_stay_on_the_cluster_until_they_are_wanted(cluster: Cluster) -> None:
    table = stored(500)
    blocks = ray.data.from_arrow(table).repartition(3)
    options: Any = {"no_relevant": "zero", "failed": "exclude"}
    ours = distributed.score_dataset(blocks, STORED_METRICS, **options)
    assert isinstance(ours, ray.data.Dataset)
    rows = sorted(ours.take_all(), key=lambda row: int(row["query_id"][1:]))
    assert rows == score_table(table, STORED_METRICS, **options).to_pylist()


def test_a_threshold_on_the_score_is_that_of_one_machine(cluster: Cluster) -> None:
    table, chance = stored(300), random.Random(8)
    lengths = [len(ids) for ids in table["retrieved_ids"].to_pylist()]
    scores = [sorted((chance.random() for _ in range(n)), reverse=True) for n in lengths]
    scored = table.append_column("scores", pa.array(scores, pa.list_(pa.float64())))
    rows = ray.data.from_arrow(scored).repartition(3)
    metrics = ["mrr", "abstained", "returned@5"]
    ours = distributed.score_dataset(rows, metrics, min_score=0.4).materialize()
    by_query = sorted(ours.take_all(), key=lambda row: int(row["query_id"][1:]))
    assert by_query == score_table(scored, metrics, min_score=0.4).to_pylist()
    uncut = distributed.score_dataset(rows, metrics)
    assert ours.mean("abstained") > uncut.mean("abstained")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("not a dataset", "mrr"), "dataset: expected a ray.data.Dataset"),
        ((None, BM25Similarity(corpus=["a"])), "metrics of rankings"),
    ],
)
def test_arguments_are_checked_before_any_work(arguments: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        distributed.score_dataset(*arguments)


def test_an_error_in_a_row_is_that_of_score_table(cluster: Cluster) -> None:
    table = pa.table({"query_id": ["q1"], "retrieved_ids": [["a"]], "expected_ids": [[""]]})
    rows = ray.data.from_arrow(table.drop_columns(["expected_ids"]))
    with pytest.raises(Exception, match="expected_ids"):
        distributed.score_dataset(rows, "mrr").materialize()


def test_a_node_that_is_lost_while_scoring(cluster: Cluster, second: Any, log: Path) -> None:
    # from the 16th of 40 blocks on, all wait for the loss: at most eight work at once, so that it
    # comes after 16 to 24 of them, however busy the machine is
    n_blocks, n_free, table = 40, 16, stored(2_400)
    lost = log.with_name("lost")

    def slow(block: pa.Table) -> pa.Table:
        note(log, node_id())
        while len(notes(log)) >= n_free and not lost.exists():
            time.sleep(0.02)
        return block

    rows = ray.data.from_arrow(table).repartition(n_blocks).materialize()
    slowed = rows.map_batches(
        slow, batch_format="pyarrow", batch_size=None, scheduling_strategy="SPREAD"
    )
    lost_at: list[int] = []

    def lose() -> None:
        try:
            soon(lambda: [second.node_id] in notes(log)[n_free - 1 :])  # it waits there
            lost_at.append(len(notes(log)))
            cluster.remove_node(second, allow_graceful=False)
        finally:
            lost.touch()

    thread = threading.Thread(target=lose)
    thread.start()
    scores = distributed.score_dataset(slowed, STORED_METRICS).take_all()
    thread.join()
    assert 0.3 * n_blocks <= lost_at[0] <= 0.7 * n_blocks
    scores.sort(key=lambda row: int(row["query_id"][1:]))
    assert scores == score_table(table, STORED_METRICS).to_pylist()


# Live retrieval


def test_the_same_as_in_one_process(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, tmp_path: Path
) -> None:
    factory = Factory(log, fails=frozenset({3, 31}))
    metrics = [
        *NAMES,
        EmbeddingSimilarity(embed_model=NotingEmbedding(log=tmp_path / "embedded")),
        BM25Similarity(k=2),
    ]
    ours = distributed.evaluate(dataset, factory, metrics, workers=2, concurrency=3, name="one")  # type: ignore[arg-type]
    assert Counter(factory.asked) == Counter(range(N))
    assert 1 <= len(notes(log.with_suffix(".built"))) <= 2
    theirs = evaluate(factory(), dataset, metrics, name="one")  # type: ignore[arg-type]
    assert same(ours, theirs)
    assert set(ours.scores.failed) == {"q3", "q31"}
    fresh = "embedding_similarity"
    assert ours.scores.usage[fresh].fresh == theirs.scores.usage[fresh].fresh


def test_the_calls_of_a_workflow_are_kept(cluster: Cluster, log: Path, tmp_path: Path) -> None:
    factory = partial(LooksTwice, Factory(log, fails=frozenset({5})))
    few, metrics = questions(12), ["recall"]
    ours = distributed.evaluate(few, factory, metrics, workers=2, concurrency=3)
    theirs = evaluate(factory(), few, metrics)
    assert same(ours, theirs)
    assert set(ours.scores.failed) == {"q4", "q5"}  # each of which asks for 5
    for query_id, calls in theirs.run.calls.items():
        there = ours.run.calls[query_id]
        assert [(call.query, call.asked_by, call.ids, call.scores) for call in there] == [
            (call.query, call.asked_by, call.ids, call.scores) for call in calls
        ]
        assert all(call.latency is not None for call in there if call.error is None)
    assert [call.query for call in ours.sessions.of("q1")] == ["what is 1", "what is 2"]
    journal = tmp_path / "journal.jsonl"
    there = evaluate_there(few, factory, ["recall"], journal=journal)
    kept = evaluate(factory(), few, ["recall"], journal=journal)
    assert kept.run["q1"] == there.run["q1"]


def test_items_matched_by_text_and_failures_left_out(
    cluster: Cluster, dataset: RetrievalDataset, log: Path
) -> None:
    factory = Factory(log, fails=frozenset({4}))
    options: Any = {"matcher": "text", "failed": "exclude", "no_relevant": "zero"}
    ours = distributed.evaluate(dataset, factory, NAMES, **options)
    assert same(ours, evaluate(factory(), dataset, NAMES, **options))


BY_NUMBER = {"q2": ["d6"], "q3": ["d9", "d4"], "q5": ["d0"]}


def below_six(question: dict[str, Any], node: Any) -> bool:
    return int(node.metadata["doc"]) < 6


def test_a_threshold_on_what_workers_retrieved(
    cluster: Cluster, dataset: RetrievalDataset, log: Path
) -> None:
    ours = evaluate_there(dataset, Factory(log), ["recall@5"], min_score=0.3)
    theirs = evaluate(Factory(log)(), dataset, ["recall@5"], min_score=0.3)
    assert same(ours, theirs)
    assert any(len(ranking.ids) < 5 for ranking in ours.run.values())


@pytest.mark.parametrize(("factory", "options"), [(told, {})])
def test_two_askers_of_one_question(
    cluster: Cluster, tmp_path: Path, factory: Any, options: Any
) -> None:
    def asked_by(*tenants: str) -> RetrievalDataset:
        ids = [f"q{number}" for number in range(len(tenants))]
        return RetrievalDataset(
            dict.fromkeys(ids, "pay?"),
            {key: ["acme 0"] for key in ids},
            metadata={key: {"tenant": of} for key, of in zip(ids, tenants, strict=True)},
        )

    journal: Any = {"journal": tmp_path / "run.jsonl", "run": "ours"}
    ours = evaluate_there(asked_by("acme", "blue"), factory, NAMES, **journal, **options)
    theirs = evaluate(factory(), asked_by("acme", "blue"), NAMES, **options)
    assert same(ours, theirs)
    assert [ours.run[key].ids[0] for key in ("q0", "q1")] == ["acme 0", "blue 0"]
    if not options:  # what a question is told is part of it
        again = evaluate_there(asked_by("acme", "acme"), factory, NAMES, **journal)
        assert [again.run[key].ids[0] for key in ("q0", "q1")] == ["acme 0", "acme 0"]


def test_labels_that_fit_something_else_are_pointed_out(cluster: Cluster, log: Path) -> None:
    dataset = RetrievalDataset({"q": "what is 2"}, {"q": ["6", "3"]})
    with pytest.warns(UserWarning, match="use match_on='doc'"):
        evaluate_there(dataset, Factory(log), "mrr")
    ours = evaluate_there(dataset, Factory(log), "mrr", match_on="doc")
    assert ours.scores.means["mrr"] == 1.0


def test_a_node_that_is_lost_at_work(
    cluster: Cluster, second: Any, dataset: RetrievalDataset, log: Path, tmp_path: Path
) -> None:
    n_free = int(0.4 * N)
    factory, journal = Factory(log, waits_from=n_free), tmp_path / "journal.jsonl"
    at_loss: list[int] = []

    def lose() -> None:
        try:
            soon(lambda: any(entry[2] == second.node_id for entry in notes(log)[n_free - 1 :]))
            at_loss.append(len(notes(log)))
            cluster.remove_node(second, allow_graceful=False)
        finally:
            factory.go_on()

    thread = threading.Thread(target=lose)
    thread.start()
    ours = distributed.evaluate(
        dataset,
        factory,
        NAMES,
        workers=2,
        concurrency=2,
        journal=journal,
        actor_options={"scheduling_strategy": "SPREAD"},
    )
    thread.join()
    assert 0.3 * N <= at_loss[0] <= 0.7 * N
    by_node = Counter(words[2] for words in notes(log))
    assert by_node[second.node_id] > 0
    assert sorted(journal_ids(journal)) == sorted(dataset.queries)
    assert same(ours, evaluate(factory(), dataset, NAMES))


def test_a_worker_that_is_killed_at_work(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, tmp_path: Path
) -> None:
    factory = Factory(log, kills_once=frozenset({20, 40}))
    journal = tmp_path / "journal.jsonl"
    ours = distributed.evaluate(dataset, factory, NAMES, workers=2, concurrency=4, journal=journal)
    asked = Counter(factory.asked)
    assert set(asked) == set(range(N))
    assert asked[20] == asked[40] == 2
    assert len(journal_ids(journal)) == N
    assert same(ours, evaluate(factory(), dataset, NAMES))


def test_a_query_that_kills_every_worker_fails_alone(
    cluster: Cluster, dataset: RetrievalDataset, log: Path
) -> None:
    factory = Factory(log, kills_always=frozenset({17}))
    ours = distributed.evaluate(dataset, factory, NAMES, workers=2, concurrency=4)
    assert set(ours.scores.failed) == {"q17"}
    assert ours.scores.failed["q17"].startswith("WorkerLost: the worker was lost each of 3 times")
    assert Counter(factory.asked)[17] == 3
    rest = RetrievalDataset(
        {query_id: query for query_id, query in dataset.queries.items() if query_id != "q17"},
        {
            query_id: relevance
            for query_id, relevance in dataset.relevance.items()
            if query_id != "q17"
        },
    )
    theirs = evaluate(Factory(log)(), rest, NAMES)
    assert {
        query_id: ours.scores.by_query("ap")[query_id] for query_id in theirs.scores.query_ids
    } == (theirs.scores.by_query("ap"))


def test_what_cannot_be_pickled_is_a_clear_error(
    cluster: Cluster, dataset: RetrievalDataset
) -> None:
    lock = threading.Lock()
    with pytest.raises(InvalidInput, match=r"that can be pickled, got .*lock.*in the factory"):
        evaluate_there(dataset, lambda: lock, NAMES)  # type: ignore[arg-type, return-value]


def test_raise_on_error_ends_at_the_first_failure(
    cluster: Cluster, dataset: RetrievalDataset, log: Path
) -> None:
    with pytest.raises(RetrievalFailed, match=r"'q5'.*ConnectionError: no answer to 5"):
        evaluate_there(dataset, Factory(log, fails=frozenset({5})), NAMES, raise_on_error=True)


def test_a_factory_that_fails_is_a_clear_error(
    cluster: Cluster, dataset: RetrievalDataset, log: Path
) -> None:
    with pytest.raises(WorkersFailed, match="FileNotFoundError: the index isn't here"):
        distributed.evaluate(dataset, Factory(log, broken=True), NAMES, workers=2)
    with pytest.raises(InvalidInput, match="retriever_factory"):
        evaluate_there(dataset, "bm25", NAMES)  # type: ignore[arg-type]


def test_a_factory_that_kills_its_worker_is_tried_three_times(
    cluster: Cluster, dataset: RetrievalDataset, log: Path
) -> None:
    def factory() -> Any:
        note(log, "building")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkersFailed, match="the worker was lost while building"):
        distributed.evaluate(dataset, factory, NAMES, workers=1)
    assert len(notes(log)) == 3


def test_a_journal_goes_on_here_and_there(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    bad = Factory(log, fails=frozenset(range(0, N, 2)))
    evaluate(bad(), dataset, NAMES, journal=first)
    distributed.evaluate(dataset, bad, NAMES, workers=2, journal=second)
    log.unlink()
    good = Factory(log)
    ours = distributed.evaluate(dataset, good, NAMES, workers=2, journal=first)
    assert sorted(good.asked) == list(range(0, N, 2))
    theirs = evaluate(good(), dataset, NAMES, journal=second)
    assert sorted(good.asked) == sorted([*range(0, N, 2)] * 2)
    assert same(ours, theirs)


def test_every_question_is_asked_several_times(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, tmp_path: Path
) -> None:
    factory, names = Factory(log), [*NAMES]
    options: dict[str, Any] = {"repeats": 3, "journal": tmp_path / "run.jsonl"}
    ours = distributed.evaluate(dataset, factory, names, workers=2, **options)
    asked = Counter(int(number) for number, *_ in notes(log))
    assert asked == dict.fromkeys(range(N), 3)
    theirs = evaluate(Factory(tmp_path / "here.log")(), dataset, names, repeats=3)
    assert same(ours, theirs)
    assert [run.means for run in ours.repeats] == [run.means for run in theirs.repeats]
    again = evaluate_there(dataset, factory, names, **options)
    assert len(notes(log)) == 3 * N
    assert same(again, theirs)


def test_ctrl_c_leaves_a_whole_journal(cluster: Cluster, log: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    code = f"""
        import sys
        from pathlib import Path
        sys.path[:0] = [{str(TESTS)!r}, {str(Path(__file__).parent)!r}]
        import ray
        from support.ray_retrievers import Factory
        from test_ray import questions
        from llama_index_rag_metrics.distributed.ray import evaluate
        ray.init(address={cluster.address!r}, log_to_driver=False)
        evaluate(questions({N}), Factory(Path({str(log)!r}), seconds=0.1), "mrr",
                 workers=2, concurrency=2, journal={str(journal)!r}, run="noting")
    """
    process = start([sys.executable, "-c", textwrap.dedent(code)])
    soon(lambda: journal.exists() and len(journal.read_text().splitlines()) > N // 3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors
    finished = journal_ids(journal)
    assert N // 3 <= len(finished) < N
    rest = Factory(tmp_path / "rest.log")
    results = evaluate(rest(), questions(N), "mrr", journal=journal, run="noting")
    assert sorted(rest.asked) == sorted({*range(N)} - {int(query_id[1:]) for query_id in finished})
    assert results.scores.counts.queries == N


# What workers share


def test_a_text_is_embedded_once_on_the_whole_cluster(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, tmp_path: Path
) -> None:
    embedded, path = tmp_path / "embedded", tmp_path / "cache.sqlite"
    metric = EmbeddingSimilarity(embed_model=NotingEmbedding(log=embedded, seconds=0.005))
    options: Any = {"workers": 3, "concurrency": 4}
    factory = Factory(log, together=3)
    ours = evaluate_there(dataset, factory, [metric], cache=path, **options)
    times = Counter(words[0] for words in notes(embedded))
    assert set(times.values()) == {1}
    assert len(times) == 11 + N  # documents, queries
    assert len(notes(log.with_suffix(".built"))) == 3
    again = evaluate_there(dataset, Factory(log), [metric], cache=path, **options)
    here = evaluate(Factory(log)(), dataset, [metric], cache=path)
    assert len(notes(embedded)) == 11 + N
    assert same(ours, again)
    assert same(ours, here)


def test_a_worker_that_dies_leaves_nobody_waiting_for_what_it_asked(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, tmp_path: Path
) -> None:
    embedded = tmp_path / "embedded"

    model = NotingEmbedding(log=embedded, kills_once="text of document 7")
    metric = EmbeddingSimilarity(embed_model=model)
    ours = distributed.evaluate(dataset, Factory(log), [metric], workers=2, concurrency=4)
    assert Counter(Factory(log).asked) == Counter(range(N))  # retrieval isn't paid for again
    assert same(ours, evaluate(Factory(log)(), dataset, [metric]))


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_caches_of_every_kind(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, tmp_path: Path, kind: str
) -> None:
    embedded, path = tmp_path / "embedded", tmp_path / "cache.sqlite"
    cache: Any = Cache() if kind == "memory" else path
    metric = EmbeddingSimilarity(embed_model=NotingEmbedding(log=embedded))
    distributed.evaluate(dataset, Factory(log), [metric], workers=2, cache=cache)
    evaluate(Factory(log)(), dataset, [metric], cache=cache if kind == "memory" else path)
    assert len(notes(embedded)) == 11 + N


class Gate:
    """A rate limiter of the driver that admits so many requests, and more when it is opened."""

    def __init__(self, admits: int) -> None:
        self.admits = admits
        self.admitted = 0
        self.lock = threading.Lock()  # can't be pickled
        self.opened = threading.Event()

    def acquire(self) -> None:
        with self.lock:
            self.admitted += 1
            waits = self.admitted > self.admits
        if waits:
            self.opened.wait()


def test_what_holds_no_limiter_starts_no_actor_for_it() -> None:
    limiters = distributed.sharing.Limiters()
    limiters.pack([str, "mrr"])
    assert limiters.actor is None


def test_a_rate_limit_is_one_for_the_whole_cluster(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, seen = Gate(admits=5), []
    with cohere_server() as server:
        metric = CohereRerankRelevancy(base_url=server.base_url, rate_limiter=gate)

        def watch() -> None:
            try:
                soon(lambda: gate.admitted >= 5 + 4)  # four wait
                soon(lambda: len(server.requests) >= 5)
                time.sleep(0.3)
                seen.append(len(server.requests))
            finally:
                gate.opened.set()

        thread = threading.Thread(target=watch)
        thread.start()
        environment = {"runtime_env": {"env_vars": {"CO_API_KEY": "for the workers"}}}
        results = distributed.evaluate(
            dataset, Factory(log), [metric], workers=2, concurrency=2, actor_options=environment
        )
        thread.join()
        assert seen == [5]
        assert gate.admitted == len(server.requests) == N
        assert {*server.keys} == {"Bearer for the workers"}
        monkeypatch.setenv("CO_API_KEY", "for the driver")
        here = CohereRerankRelevancy(base_url=server.base_url)
        assert same(results, evaluate(Factory(log)(), dataset, [here]))


def test_a_key_does_not_travel(cluster: Cluster, dataset: RetrievalDataset, log: Path) -> None:
    metric = CohereRerankRelevancy(api_key="secret", base_url="http://127.0.0.1:9")
    with pytest.raises(WorkersFailed, match=r"MissingKey.*CO_API_KEY") as caught:
        evaluate_there(dataset, Factory(log), [metric])
    assert "secret" not in str(caught.value)


def test_retrieval_is_rate_limited_too(
    cluster: Cluster, dataset: RetrievalDataset, log: Path
) -> None:
    gate = Gate(admits=N)
    distributed.evaluate(dataset, Factory(log), NAMES, workers=2, rate_limiter=gate)
    assert gate.admitted == N


def test_a_rate_limiter_that_fails_is_an_error_of_the_metric(cluster: Cluster, log: Path) -> None:
    class Broken:
        def acquire(self) -> None:
            raise PermissionError("over budget")

    metric = CohereRerankRelevancy(base_url="http://127.0.0.1:9", rate_limiter=Broken())
    environment = {"runtime_env": {"env_vars": {"CO_API_KEY": "for the workers"}}}
    results = evaluate_there(questions(3), Factory(log), [metric], actor_options=environment)
    assert any("PermissionError: over budget" in note for note in results.scores.notes)


def test_a_worker_uses_the_cpus_that_it_was_given(cluster: Cluster) -> None:
    def threads() -> Any:
        import polars as pl

        return lambda query: [str(pl.thread_pool_size())]

    dataset = RetrievalDataset({"q": "?"}, {"q": ["2"]})
    results = distributed.evaluate(dataset, threads, "mrr", workers=1, num_cpus=2)
    assert list(results.run["q"].ids) == ["2"]

    def count(block: pa.Table) -> pa.Table:
        import polars as pl

        return pa.table({"n": [pl.thread_pool_size()]})

    options = distributed.sharing.worker_options(3, {})
    rows = ray.data.from_arrow(stored(2)).map_batches(count, batch_format="pyarrow", **options)
    assert rows.take_all() == [{"n": 3}]
