"""On a real Ray cluster: the numbers of one process, whatever is killed."""

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.llms import MockLLM
from support.cohere_server import cohere_server
from support.paths import TESTS
from support.ray_retrievers import Factory, NotingEmbedding, notes, tenants_index, told

from llama_index_rag_metrics import (
    BM25Similarity,
    CohereRerankRelevancy,
    EmbeddingSimilarity,
    EvaluationResults,
    RetrievalDataset,
    evaluate,
    score_table,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError, RetrievalFailed

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
NODE: dict[str, Any] = {
    "node_ip_address": "127.0.0.1",
    "object_store_memory": 80 * 2**20,
    "include_dashboard": False,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The head, which the driver is connected to."""
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
            (scores.query_ids, scores.counts, scores.excluded, scores.failed),
            [note for note in scores.notes if "come from" not in note],
            [
                (query_id, ranking.ids, ranking.scores, ranking.texts, ranking.spans, ranking.error)
                for query_id, ranking in results.run.items()
            ],
            [(result.query, result.expected_ids, result.retrieved_ids) for result in results],
        )

    return bool(essence(ours) == essence(theirs))


def test_stored_rankings_are_scored_in_batches_of_arrow(cluster: Cluster) -> None:
    chance = random.Random(5)
    ids = [f"d{number}" for number in range(30)]
    table = pa.table(
        {
            "query_id": [f"q{number}" for number in range(500)],
            "retrieved_ids": [chance.sample(ids, chance.randint(0, 12)) for _ in range(500)],
            "expected_ids": [chance.sample(ids, chance.randint(0, 6)) for _ in range(500)],
        }
    )
    rows = ray.data.from_arrow(table).repartition(3)
    metrics: Any = {"metrics": ["mrr", "ndcg@20"]}
    scored = rows.map_batches(score_table, fn_kwargs=metrics, batch_format="pyarrow")
    by_query = sorted(scored.take_all(), key=lambda row: int(row["query_id"][1:]))
    assert by_query == score_table(table, **metrics).to_pylist()


def test_results_are_those_of_one_process(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, tmp_path: Path
) -> None:
    factory = Factory(log, fails=frozenset({3, 31}))
    metrics = [
        *NAMES,
        EmbeddingSimilarity(embed_model=NotingEmbedding(log=tmp_path / "embedded")),
        BM25Similarity(k=2),
    ]
    ours = distributed.evaluate(factory, dataset, metrics, workers=2, concurrency=3, name="one")  # type: ignore[arg-type]
    assert Counter(factory.asked) == Counter(range(N))
    assert 1 <= len(notes(log.with_suffix(".built"))) <= 2
    theirs = evaluate(factory(), dataset, metrics, name="one")  # type: ignore[arg-type]
    assert same(ours, theirs)
    assert set(ours.scores.failed) == {"q3", "q31"}


def test_askers_with_a_question(cluster: Cluster, tmp_path: Path) -> None:
    def asked_by(*tenants: str) -> RetrievalDataset:
        ids = [f"q{number}" for number in range(len(tenants))]
        return RetrievalDataset(
            dict.fromkeys(ids, "pay?"),
            {key: ["acme 0"] for key in ids},
            metadata={key: {"tenant": of} for key, of in zip(ids, tenants, strict=True)},
        )

    journal: Any = {"journal": tmp_path / "run.jsonl", "run": "ours"}
    ours = evaluate_there(told, asked_by("acme", "blue"), NAMES, **journal)
    assert same(ours, evaluate(told(), asked_by("acme", "blue"), NAMES))
    assert [ours.run[key].ids[0] for key in ("q0", "q1")] == ["acme 0", "blue 0"]
    # what a question is told is part of it
    again = evaluate_there(told, asked_by("acme", "acme"), NAMES, **journal)
    assert [again.run[key].ids[0] for key in ("q0", "q1")] == ["acme 0", "acme 0"]


def test_worker_that_is_killed_at_work(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, tmp_path: Path
) -> None:
    factory = Factory(log, kills_once=frozenset({20, 40}))
    journal = tmp_path / "journal.jsonl"
    ours = distributed.evaluate(factory, dataset, NAMES, workers=2, concurrency=4, journal=journal)
    asked = Counter(factory.asked)
    assert set(asked) == set(range(N))
    assert asked[20] == asked[40] == 2
    assert len(journal.read_text().splitlines()[1:]) == N
    assert same(ours, evaluate(factory(), dataset, NAMES))


def test_deadly_query_fails_alone(cluster: Cluster, dataset: RetrievalDataset, log: Path) -> None:
    factory = Factory(log, kills_always=frozenset({17}))
    ours = distributed.evaluate(factory, dataset, NAMES, workers=2, concurrency=4)
    assert set(ours.scores.failed) == {"q17"}
    assert ours.scores.failed["q17"].startswith("the worker was lost each of 3 times: Actor")
    assert Counter(factory.asked)[17] == 3
    rest = [query_id for query_id in dataset.queries if query_id != "q17"]
    theirs = evaluate(Factory(log)(), dataset.select(rest), NAMES)
    assert {
        query_id: ours.scores.by_query("ap")[query_id] for query_id in theirs.scores.query_ids
    } == (theirs.scores.by_query("ap"))


def test_unpicklable_object_is_a_clear_error(cluster: Cluster, dataset: RetrievalDataset) -> None:
    lock = threading.Lock()
    with pytest.raises(InvalidInput, match="build: expected a function that can be pickled"):
        evaluate_there(lambda: lock, dataset, NAMES)


def test_raise_on_error_ends_at_once(
    cluster: Cluster, dataset: RetrievalDataset, log: Path
) -> None:
    with pytest.raises(RetrievalFailed, match=r"'q5'.*ConnectionError: no answer to 5"):
        evaluate_there(Factory(log, fails=frozenset({5})), dataset, NAMES, raise_on_error=True)


def test_failing_factory_is_clear(cluster: Cluster, dataset: RetrievalDataset, log: Path) -> None:
    with pytest.raises(RagMetricsError, match="FileNotFoundError: the index isn't here"):
        distributed.evaluate(Factory(log, broken=True), dataset, NAMES, workers=2)
    with pytest.raises(InvalidInput, match="build: expected a function"):
        evaluate_there("bm25", dataset, NAMES)  # type: ignore[arg-type]


def test_last_worker_is_lost_and_cannot_be_built_again(cluster: Cluster, log: Path) -> None:
    def build() -> Any:
        again = bool(notes(log.with_suffix(".built")))
        return Factory(log, kills_always=frozenset({1}), broken=again)()

    dataset = questions(4)
    ours = evaluate_there(build, dataset, "mrr", concurrency=1)
    assert "FileNotFoundError: the index isn't here" in ours.scores.failed["q1"]
    assert "none of 1 workers is left" in ours.scores.failed["q3"]


def test_journal_goes_on_here_and_there(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    bad = Factory(log, fails=frozenset(range(0, N, 2)))
    evaluate(bad(), dataset, NAMES, journal=first)
    distributed.evaluate(bad, dataset, NAMES, workers=2, journal=second)
    log.unlink()
    good = Factory(log)
    ours = distributed.evaluate(good, dataset, NAMES, workers=2, journal=first)
    assert sorted(good.asked) == list(range(0, N, 2))
    theirs = evaluate(good(), dataset, NAMES, journal=second)
    assert sorted(good.asked) == sorted([*range(0, N, 2)] * 2)
    assert same(ours, theirs)


# What workers share


@pytest.mark.cohere
def test_metric_that_is_paid_is_asked_by_the_driver(
    cluster: Cluster, dataset: RetrievalDataset, log: Path, tmp_path: Path
) -> None:
    pytest.importorskip("cohere", reason="needs the cohere extra")
    cache = tmp_path / "cache.sqlite"
    with cohere_server() as server:
        scorer = CohereRerankRelevancy(api_key="only-here-0123", base_url=server.base_url)
        ours = evaluate_there(Factory(log), dataset, [scorer], cache=cache)
        assert {*server.keys} == {"Bearer only-here-0123"}
        n_requests = len(server.requests)
        theirs = evaluate(Factory(log)(), dataset, [scorer], cache=cache)
        assert len(server.requests) == n_requests  # one cache, here and there
    assert ours.scores.means == theirs.scores.means


@pytest.mark.parametrize(
    "build", [tenants_index, lambda: tenants_index().as_query_engine(llm=MockLLM())]
)
def test_index_and_a_query_engine(cluster: Cluster, build: Callable[[], Any]) -> None:
    dataset = RetrievalDataset({"q": "pay?"}, {"q": ["acme 0"]})
    ours = evaluate_there(build, dataset, ["recall@6"])
    theirs = evaluate(build(), dataset, ["recall@6"])
    assert ours.run["q"].ids == theirs.run["q"].ids


def test_asynchronous_function(cluster: Cluster) -> None:
    async def search(query: str) -> list[str]:
        return [query]

    dataset = RetrievalDataset({"q": "d1"}, {"q": ["d1"]})
    assert evaluate_there(lambda: search, dataset, "mrr").scores.means == {"mrr": 1.0}
