"""The Cohere metric in evaluators: many questions at once, limiters, event loops, core's names."""

import asyncio
import gc
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.evaluation import RetrieverEvaluator as CoreEvaluator
from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY
from llama_index.core.schema import NodeWithScore, TextNode
from support.cohere_fixtures import no_key_in_the_environment, quick_retries, serving  # noqa: F401 - fixtures
from support.cohere_metric import KEY, QUERY, TEXTS, nodes, of
from support.cohere_server import CohereServer, Fault
from support.retrievers import Scripted

from llama_index_rag_metrics import CohereRerankRelevancy, RetrievalDataset, evaluate, register

pytestmark = pytest.mark.cohere

pytest.importorskip("cohere", reason="needs the cohere extra")


class Limiter:
    """LlamaIndex's protocol; lets one request through at a time it is told."""

    def __init__(self) -> None:
        self.admitted = 0

    async def async_acquire(self, num_tokens: int = 0) -> None:
        await asyncio.sleep(0)
        self.admitted += 1


class TestEvaluator:
    @pytest.fixture
    def dataset(self) -> RetrievalDataset:
        return RetrievalDataset({f"q{number}": f"question {number}" for number in range(24)})

    @pytest.fixture
    def retriever(self, dataset: RetrievalDataset) -> Scripted:
        return Scripted(
            {query: nodes(query, f"no {query}", "x") for query in dataset.queries.values()}
        )

    def test_workers_ask_at_once_and_keep_their_connections(
        self, server: CohereServer, dataset: RetrievalDataset, retriever: Scripted
    ) -> None:
        server.together = threading.Barrier(8, timeout=60)  # 24 questions: three times eight
        results = evaluate(retriever, dataset, [of(server, agg="mean")], workers=8)
        # 1, 1 and 0 of the query's words
        means = results.scores.means
        assert means["cohere_rerank_relevancy(agg=mean)"] == pytest.approx(2 / 3)
        assert server.most_at_once == 8
        assert server.connections <= 8

    @pytest.mark.usefixtures("quick_retries")
    def test_requests_all_ask_the_limiter(
        self, server: CohereServer, dataset: RetrievalDataset, retriever: Scripted
    ) -> None:
        limiter = Limiter()
        server.faults = [Fault(503), Fault(503)]
        results = evaluate(retriever, dataset, [of(server, rate_limiter=limiter)], workers=4)
        assert results.scores.n("cohere_rerank_relevancy") == 24
        assert limiter.admitted == len(server.requests) == 26

    def test_empty_and_failed_retrievals_score_0_without_a_call(self, server: CohereServer) -> None:
        retriever = Scripted({"a b": nodes("a"), "none": [], "bad": RuntimeError("gone")})
        dataset = RetrievalDataset({"q1": "a b", "q2": "none", "q3": "bad"})
        scores = evaluate(retriever, dataset, [of(server)]).scores
        assert scores.by_query("cohere_rerank_relevancy") == {"q1": 0.5, "q2": 0, "q3": 0}
        left_out = evaluate(retriever, dataset, [of(server)], failed="exclude").scores
        assert left_out.by_query("cohere_rerank_relevancy") == {"q1": 0.5, "q2": 0}

    def test_equal_requests_under_way_become_one(self, server: CohereServer) -> None:
        server.seconds = 0.1
        dataset = RetrievalDataset({f"q{number}": QUERY for number in range(8)})
        retriever = Scripted({QUERY: nodes(*TEXTS)})
        results = evaluate(retriever, dataset, [of(server)], workers=8)
        assert len(server.requests) == 1
        assert results.scores.n("cohere_rerank_relevancy") == 8

    def test_labels_other_metrics_and_variants_stand_beside_it(self, server: CohereServer) -> None:
        dataset = RetrievalDataset({"q1": QUERY}, {"q1": ["d1"]})
        node = NodeWithScore(node=TextNode(id_="d1", text=TEXTS[0]), score=1.0)
        metrics = [of(server), "mrr", of(server, k=1, agg="mean")]
        results = evaluate(Scripted({QUERY: [node]}), dataset, metrics)  # type: ignore[arg-type]
        assert results.scores.means == pytest.approx(
            {"cohere_rerank_relevancy": 0.8, "mrr": 1, "cohere_rerank_relevancy(agg=mean)@1": 0.8}
        )
        assert len(server.requests) == 1  # the second variant finds the first one's score

    def test_synchronous_calls_keep_their_connection(self, server: CohereServer) -> None:
        scorer = of(server)
        for number in range(3):
            scorer.compute(f"query {number}", retrieved_texts=TEXTS)
        assert server.connections == 1

    def test_connections_close_with_their_loop_or_metric(self, server: CohereServer) -> None:
        async def notebook() -> float:
            return of(server).compute(QUERY, retrieved_texts=TEXTS).score

        async def own_loop() -> float:
            return (await of(server).acompute(QUERY, retrieved_texts=TEXTS)).score

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            of(server).compute(QUERY, retrieved_texts=TEXTS)
            assert asyncio.run(notebook()) == 1
            assert asyncio.run(own_loop()) == 1
            gc.collect()  # a connection that was left open would warn here
            while server.open_connections:
                time.sleep(0.01)
        # what other tests left warns here, too, whenever it ends
        peer = f"raddr=('127.0.0.1', {server.base_url.rpartition(':')[2]})"
        assert [str(warning.message) for warning in caught if peer in str(warning.message)] == []


class TestStockEvaluator:
    @pytest.fixture(autouse=True)
    def environment(self, server: CohereServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("CO_API_KEY", KEY)
        monkeypatch.setenv("CO_API_URL", server.base_url)
        registry = dict(METRIC_REGISTRY)
        yield
        METRIC_REGISTRY.clear()
        METRIC_REGISTRY.update(registry)

    def test_names_with_a_cutoff_are_ours(self) -> None:
        evaluator = CoreEvaluator.from_metric_names(
            ["cohere_rerank_relevancy@3"], retriever=Scripted({QUERY: nodes(*TEXTS[::-1])})
        )
        result = asyncio.run(evaluator.aevaluate(QUERY, expected_ids=["x"]))
        assert result.metric_vals_dict == {"cohere_rerank_relevancy@3": 1.0}

    def test_bare_name_stays_core_own_until_it_is_replaced(self) -> None:
        assert METRIC_REGISTRY["cohere_rerank_relevancy"].__module__.startswith("llama_index.core")
        register(replace=True)
        made: Any = METRIC_REGISTRY["cohere_rerank_relevancy"]()
        assert isinstance(made, CohereRerankRelevancy)
