"""The Cohere metric against a real server on loopback: answers, secret keys, faults."""

import asyncio
import copy
import gc
import json
import logging
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.evaluation import RetrieverEvaluator as CoreEvaluator
from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY
from llama_index.core.schema import NodeWithScore, TextNode
from support.cohere_fixtures import no_key_in_the_environment, quick_retries, serving  # noqa: F401 - fixtures
from support.cohere_metric import KEY, QUERY, SCORES, TEXTS, nodes, of
from support.cohere_server import REQUEST_ID, CohereServer, Fault, cohere_server, relevance
from support.retrievers import Scripted

from llama_index_rag_metrics import (
    CohereRerankRelevancy,
    CohereRerankRelevancyMetric,
    RetrievalDataset,
    evaluate,
    metric,
    register,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingKey, ScorerFailed

pytestmark = pytest.mark.cohere

pytest.importorskip("cohere", reason="needs the cohere extra")


class TestOneQuery:
    @pytest.mark.parametrize(
        # 0.8, 1, 0: the mean is 1.8 / 3
        ("agg", "score"),
        [("max", 1.0), ("mean", 0.6), ("median", 0.8)],
    )
    def test_scores_are_in_the_order_of_texts(
        self, server: CohereServer, agg: Any, score: float
    ) -> None:
        result = of(server, agg=agg).compute(QUERY, retrieved_texts=TEXTS)
        assert result.score == pytest.approx(score)
        assert result.metadata == {"agg": agg, "scores": pytest.approx(SCORES)}
        assert server.requests == [{"model": "rerank-v3.5", "query": QUERY, "documents": TEXTS}]
        assert server.keys == [f"Bearer {KEY}"]

    def test_agg_of_one_call(self, server: CohereServer) -> None:
        # as core's: CohereRerankRelevancyMetric(model, api_key).compute(agg=...)
        scorer = CohereRerankRelevancyMetric("rerank-v4.0-fast", KEY, base_url=server.base_url)
        result = scorer.compute(QUERY, ["ignored"], [], [], TEXTS, agg="mean")
        assert result.score == pytest.approx(0.6)
        assert result.metadata["agg"] == "mean"
        assert server.requests[0]["model"] == "rerank-v4.0-fast"

    @pytest.mark.parametrize("texts", [[], ["", "  "]])
    def test_request_of_nothing_needs_no_key(self, server: CohereServer, texts: list[str]) -> None:
        result = of(server, api_key=None).compute(QUERY, retrieved_texts=texts)
        assert result.score == 0
        assert "empty" not in result.metadata
        assert server.requests == []

    def test_documents_beyond_a_thousand_are_split(self, server: CohereServer) -> None:
        words = QUERY.split()
        texts = [f"{' '.join(words[: number % 6])} {number}" for number in range(2_300)]
        result = of(server).compute(QUERY, retrieved_texts=texts)
        assert [len(body["documents"]) for body in server.requests] == [1000, 1000, 300]
        assert result.metadata["scores"] == [relevance(QUERY, text) for text in texts]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"agg": "best"}, "agg: expected 'max', 'mean' or 'median', got 'best'"),
            ({"top_n": 3}, "has no argument 'top_n'"),
            ({"query": " "}, "query: expected a text that isn't blank"),
            ({"retrieved_texts": [None]}, "retrieved_texts: expected texts, got None"),
            ({"retrieved_texts": "one"}, "retrieved_texts: expected a list of texts"),
        ],
    )
    def test_bad_arguments_are_refused_before_the_call(
        self, server: CohereServer, arguments: dict[str, Any], message: str
    ) -> None:
        call = {"query": QUERY, "retrieved_texts": TEXTS, **arguments}
        with pytest.raises(InvalidInput, match=message):
            of(server).compute(**call)
        with pytest.raises(InvalidInput):
            of(server).compute(QUERY)
        assert server.requests == []

    def test_bad_parameters_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="agg"):
            metric("cohere_rerank_relevancy(agg=best)")
        with pytest.raises(ValueError, match="agg"):
            CohereRerankRelevancy(agg="best")


class TestKeys:
    def test_key_that_is_missing_is_an_error_at_once(self, server: CohereServer) -> None:
        scorer = of(server, api_key=None)
        message = "needs an API key: set CO_API_KEY or COHERE_API_KEY, or pass api_key"
        with pytest.raises(MissingKey, match=message):
            scorer.compute(QUERY, retrieved_texts=TEXTS)
        retriever = Scripted({QUERY: nodes(*TEXTS)})
        with pytest.raises(MissingKey):
            evaluate(retriever, RetrievalDataset({"q": QUERY}), [scorer])
        assert retriever.asked == server.requests == []  # type: ignore[comparison-overlap]

    def test_order_of_keys(self, server: CohereServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COHERE_API_KEY", "cohere-api-key")
        of(server, api_key=None).compute(QUERY, retrieved_texts=TEXTS)
        monkeypatch.setenv("CO_API_KEY", "co-api-key")
        of(server, api_key=None).compute(QUERY, retrieved_texts=TEXTS)
        of(server).compute(QUERY, retrieved_texts=TEXTS)
        assert server.keys == ["Bearer cohere-api-key", "Bearer co-api-key", f"Bearer {KEY}"]

    @pytest.mark.parametrize("place", ["argument", "environment"])
    def test_key_of_a_file_with_its_line_break(
        self, server: CohereServer, monkeypatch: pytest.MonkeyPatch, place: str
    ) -> None:
        monkeypatch.setenv("CO_API_KEY", f"{KEY}\n" if place == "environment" else "")
        api_key = f" {KEY}\r\n" if place == "argument" else None
        of(server, api_key=api_key).compute(QUERY, retrieved_texts=TEXTS)
        assert server.keys == [f"Bearer {KEY}"]

    @pytest.mark.parametrize(
        "key", ["hunter2\n\nhunter2", "hunter2\t2", "h\u00fcnter2", b"hunter2", 5]
    )
    def test_key_that_is_none_is_refused_without_showing_it(self, key: Any) -> None:
        with pytest.raises(InvalidInput, match="api_key: expected a text of ASCII") as caught:
            CohereRerankRelevancy(api_key=key)
        assert "nter2" not in str(caught.value)

    def test_text_that_is_no_unicode_is_reported(self, server: CohereServer) -> None:
        with pytest.raises(ScorerFailed, match=r"UnicodeEncodeError: .*surrogates"):
            of(server).compute(QUERY, retrieved_texts=["half \ud800"])

    def test_name_with_an_environment(
        self, server: CohereServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CO_API_KEY", KEY)
        monkeypatch.setenv("CO_API_URL", server.base_url)
        scorer = metric("cohere_rerank_relevancy(agg=mean, model=rerank-v4.0-pro)@2")
        assert scorer.metric_name == "cohere_rerank_relevancy(agg=mean, model=rerank-v4.0-pro)@2"
        assert scorer.compute(QUERY, retrieved_texts=TEXTS).score == pytest.approx(0.9)

    def test_key_is_nowhere(
        self, server: CohereServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        echo = json.dumps({"id": "x", "message": f"invalid api token: {KEY}"})
        server.fault_of["rejected?"] = Fault(401, echo)
        server.fault_of["garbled?"] = Fault(200, f"<html>{KEY}</html>")
        queries = {"q1": QUERY, "q2": "rejected?", "q3": "garbled?"}
        scorer = of(server)
        results = evaluate(
            Scripted({query: nodes(*TEXTS) for query in queries.values()}),
            RetrievalDataset(queries),
            [scorer],
            cache=tmp_path / "cache.sqlite",
            journal=tmp_path / "journal.jsonl",
        )
        with pytest.raises(ScorerFailed) as caught:
            scorer.compute("rejected?", retrieved_texts=TEXTS)
        shown = [
            *map(repr, (scorer, scorer.model_dump(), scorer.model_copy(), caught.value)),
            *map(str, (scorer, caught.value, results)),
            *(scorer.model_dump_json(), results._repr_html_(), results.scores.to_json()),
            *(result.model_dump_json() for result in results),
            caplog.text,
        ]
        for text in shown:
            assert KEY not in text
        for raw in (
            pickle.dumps(scorer),
            pickle.dumps(caught.value),
            *(path.read_bytes() for path in tmp_path.iterdir()),
        ):
            assert KEY.encode() not in raw
        assert "***" in str(caught.value)

    def test_pickle_reads_the_key_of_its_own_environment(
        self, server: CohereServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scorer = of(server, agg="mean")
        scorer.compute("another query", retrieved_texts=TEXTS)  # with an open client
        sent = pickle.loads(pickle.dumps(scorer))
        assert sent.metric_name == scorer.metric_name
        with pytest.raises(MissingKey):
            sent.compute(QUERY, retrieved_texts=TEXTS)
        monkeypatch.setenv("CO_API_KEY", "of the worker")
        assert sent.compute(QUERY, retrieved_texts=TEXTS).score == pytest.approx(0.6)
        assert server.keys[-1] == "Bearer of the worker"
        assert copy.deepcopy(scorer).compute(QUERY, retrieved_texts=TEXTS).score


AT_ONCE = {"retry-after": "0"}

PASSING = {
    "429 with retry-after": Fault(429, headers=AT_ONCE),
    "429 without": Fault(429),
    "429 with a date": Fault(429, headers={"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
    "408": Fault(408),
    "500": Fault(500),
    "503": Fault(503),
    "503, not JSON": Fault(503, "<html>busy</html>"),
    "closed mid-answer": Fault(cut=True),
}
"""Faults that are gone when one asks again."""

NO_SCORES = "expected a score from 0 to 1 of each of 3 texts, got "

LASTING = {
    "402": (Fault(402), "status 402: Please add or update your payment method"),
    "404": (Fault(404), "status 404: model 'xyz' not found"),
    "429": (Fault(429), "status 429: You are using a Trial key"),
    "500": (Fault(500), "status 500: internal server error"),
    "503": (Fault(503), "status 503: service unavailable"),
    "slow": (Fault(seconds=2.5), "no answer within 2 s"),
    "closed mid-answer": (Fault(cut=True), "RemoteProtocolError: "),
    "non-JSON 200": (Fault(200, "<html>proxy</html>"), "<html>proxy"),
    "too few": (Fault(change=lambda good: {**good, "results": good["results"][:2]}), NO_SCORES),
    "too many": (Fault(change=lambda good: {**good, "results": good["results"] * 2}), NO_SCORES),
    "no results": (Fault(change=lambda good: {"id": good["id"]}), NO_SCORES),
    "not an object": (Fault(change=lambda good: []), "TypeError: "),
    "unknown index": (Fault(change=lambda good: _first(good, index=3)), NO_SCORES),
    "index twice": (
        Fault(change=lambda good: _first(good, index=good["results"][1]["index"])),
        NO_SCORES,
    ),
    "NaN": (Fault(change=lambda good: _first(good, relevance_score=float("nan"))), NO_SCORES),
    "string": (Fault(change=lambda good: _first(good, relevance_score="0.9")), NO_SCORES),
    "null": (Fault(change=lambda good: _first(good, relevance_score=None)), NO_SCORES),
    "over 1": (Fault(change=lambda good: _first(good, relevance_score=1.5)), NO_SCORES),
}
"""Faults that stay, and what is said of them."""

RETRIED = ("429", "500", "503", "closed mid-answer")


def _first(good: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {**good, "results": [{**good["results"][0], **changed}, *good["results"][1:]]}


@pytest.mark.usefixtures("quick_retries")
class TestFaults:
    @pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
    def test_faults_that_pass_are_tried_again(self, server: CohereServer, fault: Fault) -> None:
        server.faults = [fault, fault]
        result = of(server).compute(QUERY, retrieved_texts=TEXTS)
        assert result.metadata["scores"] == pytest.approx(SCORES)
        assert len(server.requests) == 3

    @pytest.mark.parametrize("name", LASTING)
    def test_faults_that_stay_fail_their_query_and_no_other(
        self, server: CohereServer, tmp_path: Path, name: str
    ) -> None:
        fault, message = LASTING[name]
        queries = {f"q{number}": f"question number {number}" for number in range(6)}
        server.fault_of[queries["q2"]] = fault
        retriever = Scripted(
            {question: nodes("number", "question", "x") for question in queries.values()}
        )
        dataset = RetrievalDataset(queries)
        cache = tmp_path / "cache.sqlite"
        scorer = of(server, timeout=2)
        results = evaluate(retriever, dataset, [scorer], workers=3, cache=cache)
        scores = results.scores
        # one of three words, of the best text
        assert scores.by_query(scorer.metric_name) == pytest.approx(
            {query_id: 1 / 3 for query_id in queries if query_id != "q2"}
        )
        assert scores.n(scorer.metric_name) == 5
        assert results[2].metric_dict == {}
        note = next(note for note in scores.notes if "'q2'" in note)
        assert message in note
        if (fault.status != 200 and fault.body is None) or (
            fault.change and name != "not an object"
        ):
            assert REQUEST_ID in note
        asked = [body["query"] for body in server.requests]
        assert asked.count(queries["q2"]) == (3 if name in RETRIED else 1)
        assert len(asked) == 5 + asked.count(queries["q2"])
        # what was paid isn't asked again, and the query that failed is
        server.fault_of.clear()
        before = len(server.requests)
        again = evaluate(retriever, dataset, [of(server)], workers=3, cache=cache).scores
        assert again.n(scorer.metric_name) == 6
        assert [body["query"] for body in server.requests[before:]] == [queries["q2"]]

    def test_scores_of_earlier_batches_are_kept(self, server: CohereServer) -> None:
        texts = [f"text {number}" for number in range(1_500)]
        scorer = of(server)
        server.faults = [Fault(), Fault(400)]
        with pytest.raises(ScorerFailed, match=f"status 400: invalid request.*{REQUEST_ID}"):
            scorer.compute(QUERY, retrieved_texts=texts)
        scorer.compute(QUERY, retrieved_texts=texts)
        assert [len(body["documents"]) for body in server.requests] == [1000, 500, 500]

    def test_units_billed_before_a_query_failed_are_summed(self, server: CohereServer) -> None:
        texts = [f"text {number}" for number in range(1_500)]
        server.faults = [Fault(), Fault(400), Fault()]
        retriever = Scripted({"q1?": texts, "q2?": ["a text"]})
        dataset = RetrievalDataset({"q1": "q1?", "q2": "q2?"})
        scores = evaluate(retriever, dataset, [of(server)], workers=1).scores
        assert list(scores.by_query("cohere_rerank_relevancy")) == ["q2"]

    def test_nobody_listens(self) -> None:
        scorer = CohereRerankRelevancy(api_key=KEY, base_url="http://127.0.0.1:9", max_retries=1)
        with pytest.raises(ScorerFailed, match=r"ConnectError: .*\(http://127\.0\.0\.1:9\)"):
            scorer.compute(QUERY, retrieved_texts=TEXTS)


ECHOES = {
    "id": lambda answer: answer | {"id": f"request of {KEY}", "results": []},
    "index": lambda answer: answer | {"results": [{"index": KEY, "relevance_score": 0.5}] * 3},
    "score": lambda answer: answer | {"results": [{"index": 0, "relevance_score": KEY}] * 3},
    "the end of a long score": lambda answer: (
        answer | {"results": [{"index": 0, "relevance_score": "x" * 285 + KEY}] * 3}
    ),
    "the end of a long id": lambda answer: answer | {"id": "x" * 290 + KEY, "results": None},
}


class TestEnemies:
    @pytest.mark.parametrize("change", ECHOES.values(), ids=ECHOES)
    def test_key_that_is_echoed_is_masked(
        self, server: CohereServer, change: Callable[[dict[str, Any]], Any]
    ) -> None:
        server.fault_of[QUERY] = Fault(change=change)
        scorer = of(server)
        with pytest.raises(ScorerFailed) as caught:
            scorer.compute(QUERY, retrieved_texts=TEXTS)
        dataset = RetrievalDataset({"q": QUERY})
        results = evaluate(Scripted({QUERY: nodes(*TEXTS)}), dataset, [scorer])
        shown = [
            repr(caught.value),
            str(caught.value),
            str(caught.value.request_id),
            pickle.dumps(caught.value).decode("latin-1"),
            results.scores.to_json(),
            results._repr_html_(),
        ]
        for text in shown:
            assert KEY[:8] not in text  # nor the part of it that a cut would leave

    def test_long_message_is_masked_before_it_is_cut(self, server: CohereServer) -> None:
        server.faults = [Fault(400, json.dumps({"message": "x" * 280 + KEY}))]
        with pytest.raises(ScorerFailed) as caught:
            of(server).compute(QUERY, retrieved_texts=TEXTS)
        assert KEY[:8] not in str(caught.value)

    @pytest.mark.parametrize("body", ["null", "[]", '"text"', "{}", "3"])
    def test_body_that_is_no_answer(self, server: CohereServer, body: str) -> None:
        server.faults = [Fault(200, body)]
        with pytest.raises(ScorerFailed):
            of(server).compute(QUERY, retrieved_texts=TEXTS)

    def test_redirect_is_not_followed(self, server: CohereServer) -> None:
        with cohere_server() as other:
            server.faults = [Fault(307, "", {"location": f"{other.base_url}/v2/rerank"})]
            with pytest.raises(ScorerFailed, match="status 307"):
                of(server).compute(QUERY, retrieved_texts=TEXTS)
            assert other.requests == []
        assert len(server.requests) == 1

    @pytest.mark.parametrize(
        "base_url", ["http://me:hunter2pass@127.0.0.1:9", "http://[::1", "cohere.com", "ftp://x"]
    )
    def test_address_that_cant_be_asked(self, base_url: str) -> None:
        scorer = CohereRerankRelevancy(api_key=KEY, base_url=base_url)
        with pytest.raises(InvalidInput, match="base_url: expected an address such as") as caught:
            scorer.compute(QUERY, retrieved_texts=TEXTS)
        assert "hunter2pass" not in str(caught.value)


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
