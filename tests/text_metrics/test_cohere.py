"""The Cohere metric against a real server on loopback: answers, faults, concurrency, secrecy."""

from __future__ import annotations

import asyncio
import copy
import gc
import gzip
import json
import logging
import os
import pickle
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.evaluation import RetrieverEvaluator as CoreEvaluator
from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY
from llama_index.core.schema import NodeWithScore, TextNode
from support.cohere_server import REQUEST_ID, CohereServer, Fault, cohere_server, relevance
from support.retrievers import Scripted

from llama_index_rag_metrics import (
    CohereRerankRelevancy,
    CohereRerankRelevancyMetric,
    RetrievalDataset,
    aevaluate,
    evaluate,
    metric,
    register,
    unregister,
)
from llama_index_rag_metrics.errors import (
    BadAnswer,
    InvalidInput,
    MissingKey,
    NoRetrieval,
    RagMetricsError,
    ScorerFailed,
)
from llama_index_rag_metrics.text_metrics.http import MOST_BYTES, OpenConnection

pytest.importorskip("cohere", reason="needs the cohere extra")

KEY = "not-a-real-key-0123456789"
QUERY = "how hot is the kiln"
TEXTS = ["the kiln is hot", "how hot is the kiln today", "nothing of it"]
SCORES = [0.8, 1.0, 0.0]  # 4, 5, 0 of the query's 5 words


@pytest.fixture
def server() -> Iterator[CohereServer]:
    with cohere_server() as running:
        yield running


@pytest.fixture(autouse=True)
def no_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CO_API_KEY", "COHERE_API_KEY", "CO_API_URL"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[CohereRerankRelevancy.__module__], "_FIRST_PAUSE", 0.01)


def of(server: CohereServer, **parameters: Any) -> CohereRerankRelevancy:
    return CohereRerankRelevancy(**{"api_key": KEY, "base_url": server.base_url, **parameters})


def nodes(*texts: str) -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(text=text), score=1.0) for text in texts]


class TestOneQuery:
    @pytest.mark.parametrize(
        # 0.8, 1, 0: the mean is 1.8 / 3
        ("agg", "score"),
        [("max", 1.0), ("mean", 0.6), ("median", 0.8)],
    )
    def test_scores_come_back_in_the_order_of_the_texts(
        self, server: CohereServer, agg: Any, score: float
    ) -> None:
        result = of(server, agg=agg).compute(QUERY, retrieved_texts=TEXTS)
        assert result.score == pytest.approx(score)
        assert result.metadata == {
            "agg": agg,
            "scores": pytest.approx(SCORES),
            "model": "rerank-v3.5",
            "requests": 1,
            "fresh": 3,
            "cached": 0,
            "units": 1.0,
        }
        assert server.requests == [{"model": "rerank-v3.5", "query": QUERY, "documents": TEXTS}]
        assert server.keys == [f"Bearer {KEY}"]

    def test_agg_of_one_call(self, server: CohereServer) -> None:
        # as core's: CohereRerankRelevancyMetric(model, api_key).compute(agg=...)
        scorer = CohereRerankRelevancyMetric("rerank-v4.0-fast", KEY, base_url=server.base_url)
        result = scorer.compute(QUERY, ["ignored"], [], [], TEXTS, agg="mean")
        assert result.score == pytest.approx(0.6)
        assert result.metadata["agg"] == "mean"
        assert server.requests[0]["model"] == "rerank-v4.0-fast"

    def test_only_the_first_k_texts(self, server: CohereServer) -> None:
        assert of(server, k=1).compute(QUERY, retrieved_texts=TEXTS).score == pytest.approx(0.8)
        assert server.documents == TEXTS[:1]

    def test_max_tokens_per_doc_is_sent(self, server: CohereServer) -> None:
        of(server, max_tokens_per_doc=99).compute(QUERY, retrieved_texts=TEXTS)
        assert server.requests[0]["max_tokens_per_doc"] == 99

    def test_blank_and_repeated_texts(self, server: CohereServer) -> None:
        texts = ["", TEXTS[0], " \n", TEXTS[0], TEXTS[1]]
        result = of(server, agg="mean").compute(QUERY, retrieved_texts=texts)
        assert result.metadata["scores"] == pytest.approx([0, 0.8, 0, 0.8, 1])
        assert server.documents == TEXTS[:2]

    @pytest.mark.parametrize("texts", [[], ["", "  "]])
    def test_nothing_to_send_is_0_without_a_call_or_a_key(
        self, server: CohereServer, texts: list[str]
    ) -> None:
        result = of(server, api_key=None).compute(QUERY, retrieved_texts=texts)
        assert result.score == 0
        assert "empty" not in result.metadata
        assert server.requests == []

    def test_more_than_a_thousand_documents_are_split(self, server: CohereServer) -> None:
        words = QUERY.split()
        texts = [f"{' '.join(words[: number % 6])} {number}" for number in range(2_300)]
        result = of(server).compute(QUERY, retrieved_texts=texts)
        assert [len(body["documents"]) for body in server.requests] == [1000, 1000, 300]
        assert result.metadata["scores"] == [relevance(QUERY, text) for text in texts]
        assert result.metadata["units"] == 10 + 10 + 3
        assert result.metadata["requests"] == 3

    def test_the_same_is_not_asked_twice(self, server: CohereServer) -> None:
        scorer = of(server)
        scorer.compute(QUERY, retrieved_texts=TEXTS)
        again = scorer.compute(QUERY, retrieved_texts=[*TEXTS, "a hot day"])
        assert server.documents == [*TEXTS, "a hot day"]
        assert (again.metadata["fresh"], again.metadata["cached"]) == (1, 3)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"agg": "best"}, "agg: expected 'max', 'mean' or 'median', got 'best'"),
            ({"top_n": 3}, "top_n: expected no further arguments"),
            ({"query": " "}, "query: expected a text that isn't blank"),
            ({"retrieved_texts": [None]}, "retrieved_texts: expected texts, got None"),
            ({"retrieved_texts": "one"}, "retrieved_texts: expected a list of texts, got 'one'"),
        ],
    )
    def test_bad_arguments_are_refused_before_the_call(
        self, server: CohereServer, arguments: dict[str, Any], message: str
    ) -> None:
        call = {"query": QUERY, "retrieved_texts": TEXTS, **arguments}
        with pytest.raises(InvalidInput, match=message):
            of(server).compute(**call)
        with pytest.raises(NoRetrieval):
            of(server).compute(QUERY)
        assert server.requests == []

    def test_bad_parameters_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="agg"):
            metric("cohere_rerank_relevancy(agg=best)")
        with pytest.raises(ValueError, match="agg"):
            CohereRerankRelevancy(agg="best")
        with pytest.raises(ValueError, match="rate_limiter: expected an object with async_acquire"):
            CohereRerankRelevancy(rate_limiter=10)


class TestKeys:
    def test_no_key_is_an_error_before_anything_is_sent(self, server: CohereServer) -> None:
        scorer = of(server, api_key=None)
        message = "needs an API key: pass api_key=..., or set CO_API_KEY or COHERE_API_KEY"
        with pytest.raises(MissingKey, match=message):
            scorer.compute(QUERY, retrieved_texts=TEXTS)
        retriever = Scripted({QUERY: nodes(*TEXTS)})
        with pytest.raises(MissingKey):
            evaluate(retriever, RetrievalDataset({"q": QUERY}), [scorer])
        assert retriever.asked == server.requests == []  # type: ignore[comparison-overlap]

    def test_the_argument_wins_then_co_api_key(
        self, server: CohereServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COHERE_API_KEY", "cohere-api-key")
        of(server, api_key=None).compute(QUERY, retrieved_texts=TEXTS)
        monkeypatch.setenv("CO_API_KEY", "co-api-key")
        of(server, api_key=None).compute(QUERY, retrieved_texts=TEXTS)
        of(server).compute(QUERY, retrieved_texts=TEXTS)
        assert server.keys == ["Bearer cohere-api-key", "Bearer co-api-key", f"Bearer {KEY}"]

    @pytest.mark.parametrize("place", ["argument", "environment"])
    def test_a_key_of_a_file_with_its_line_break(
        self, server: CohereServer, monkeypatch: pytest.MonkeyPatch, place: str
    ) -> None:
        monkeypatch.setenv("CO_API_KEY", f"{KEY}\n" if place == "environment" else "")
        api_key = f" {KEY}\r\n" if place == "argument" else None
        of(server, api_key=api_key).compute(QUERY, retrieved_texts=TEXTS)
        assert server.keys == [f"Bearer {KEY}"]

    @pytest.mark.parametrize(
        "key", ["hunter2\n\nhunter2", "hunter2\t2", "h\u00fcnter2", b"hunter2", 5]
    )
    def test_what_is_no_key_is_refused_without_showing_it(self, key: Any) -> None:
        with pytest.raises(InvalidInput, match="api_key: expected a text of ASCII") as caught:
            CohereRerankRelevancy(api_key=key)
        assert "nter2" not in str(caught.value)

    def test_a_text_that_is_no_unicode_is_reported(self, server: CohereServer) -> None:
        with pytest.raises(ScorerFailed, match=r"the request can't be sent: .*surrogates"):
            of(server).compute(QUERY, retrieved_texts=["half \ud800"])

    def test_by_name_with_all_from_the_environment(
        self, server: CohereServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CO_API_KEY", KEY)
        monkeypatch.setenv("CO_API_URL", server.base_url)
        scorer = metric("cohere_rerank_relevancy(agg=mean, model=rerank-v4.0-pro)@2")
        assert scorer.metric_name == "cohere_rerank_relevancy(agg=mean, model=rerank-v4.0-pro)@2"
        assert scorer.compute(QUERY, retrieved_texts=TEXTS).score == pytest.approx(0.9)

    def test_the_key_is_nowhere(
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
            repr(scorer),
            str(scorer),
            repr(scorer.model_dump()),
            scorer.model_dump_json(),
            repr(scorer.model_copy()),
            repr(caught.value),
            str(caught.value),
            str(results),
            results._repr_html_(),
            results.scores.to_json(),
            repr([result.model_dump_json() for result in results]),
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

    def test_a_pickle_reads_the_key_of_its_own_environment(
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

    def test_importing_and_making_one_does_not_import_cohere(self) -> None:
        program = (
            "import sys, llama_index.core.evaluation; before = set(sys.modules);"
            "import llama_index_rag_metrics as rag; rag.metric('cohere_rerank_relevancy@5');"
            "print({'cohere', 'httpcore', 'sklearn', 'rapidfuzz'} & {*sys.modules} - before or '')"
        )
        ran = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert not ran.stdout.strip()


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

LASTING = {
    "402": (Fault(402), "status 402: Please add or update your payment method"),
    "404": (Fault(404), "status 404: model 'xyz' not found"),
    "429": (Fault(429), "status 429: You are using a Trial key"),
    "500": (Fault(500), "status 500: internal server error"),
    "503": (Fault(503), "status 503: service unavailable"),
    "slow": (Fault(seconds=0.6), "no answer within 0.4 s"),
    "closed mid-answer": (Fault(cut=True), "the connection failed: RemoteProtocolError"),
    "non-JSON 200": (Fault(200, "<html>proxy</html>"), "the answer isn't JSON; status 200: <html>"),
    "too few": (
        Fault(change=lambda good: {**good, "results": good["results"][:2]}),
        "2 scores for 3 texts",
    ),
    "too many": (
        Fault(change=lambda good: {**good, "results": good["results"] * 2}),
        "6 scores for 3 texts",
    ),
    "no results": (Fault(change=lambda good: {"id": good["id"]}), "the answer has no results"),
    "not an object": (Fault(change=lambda good: []), "the answer"),
    "unknown index": (
        Fault(change=lambda good: _first(good, index=3)),
        "index 3 instead of each index from 0 to 2 once",
    ),
    "index twice": (
        Fault(change=lambda good: _first(good, index=good["results"][1]["index"])),
        "instead of each index from 0 to 2 once",
    ),
    "NaN": (
        Fault(change=lambda good: _first(good, relevance_score=float("nan"))),
        "score nan instead of a number from 0 to 1",
    ),
    "string": (
        Fault(change=lambda good: _first(good, relevance_score="0.9")),
        "score '0.9' instead of a number from 0 to 1",
    ),
    "null": (
        Fault(change=lambda good: _first(good, relevance_score=None)),
        "score None instead of a number from 0 to 1",
    ),
    "over 1": (
        Fault(change=lambda good: _first(good, relevance_score=1.5)),
        "score 1.5 instead of a number from 0 to 1",
    ),
}
"""Faults that stay, and what is said of them."""

RETRIED = ("429", "500", "503", "closed mid-answer")


def _first(good: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {**good, "results": [{**good["results"][0], **changed}, *good["results"][1:]]}


@pytest.mark.usefixtures("quick_retries")
class TestFaults:
    @pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
    def test_what_passes_is_tried_again(self, server: CohereServer, fault: Fault) -> None:
        server.faults = [fault, fault]
        result = of(server).compute(QUERY, retrieved_texts=TEXTS)
        assert result.metadata["scores"] == pytest.approx(SCORES)
        assert result.metadata["requests"] == len(server.requests) == 3

    @pytest.mark.parametrize("name", LASTING)
    def test_what_stays_fails_its_query_and_no_other(
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
        scorer = of(server, timeout=0.4)
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
        usage = again.usage[scorer.metric_name]
        assert (usage.requests, usage.fresh, usage.cached, usage.units) == (1, 3, 15, 1)

    def test_what_earlier_batches_gave_is_kept(self, server: CohereServer) -> None:
        texts = [f"text {number}" for number in range(1_500)]
        scorer = of(server)
        server.faults = [Fault(), Fault(400)]
        with pytest.raises(ScorerFailed, match=f"status 400: invalid request.*{REQUEST_ID}"):
            scorer.compute(QUERY, retrieved_texts=texts)
        scorer.compute(QUERY, retrieved_texts=texts)
        assert [len(body["documents"]) for body in server.requests] == [1000, 500, 500]

    def test_what_was_billed_before_a_query_failed_is_summed(self, server: CohereServer) -> None:
        texts = [f"text {number}" for number in range(1_500)]
        server.faults = [Fault(), Fault(400), Fault()]
        retriever = Scripted({"q1?": texts, "q2?": ["a text"]})
        dataset = RetrievalDataset({"q1": "q1?", "q2": "q2?"})
        scores = evaluate(retriever, dataset, [of(server)], workers=1).scores
        assert list(scores.by_query("cohere_rerank_relevancy")) == ["q2"]
        # 1,000 texts of q1 are 10 units, 500 were refused; q2 is 1 unit
        usage = scores.usage["cohere_rerank_relevancy"]
        assert (usage.requests, usage.fresh, usage.units) == (3, 1_501, 11)

    def test_an_answer_that_cannot_be_used_is_billed_all_the_same(
        self, server: CohereServer
    ) -> None:
        server.faults = [Fault(change=lambda answer: answer | {"results": []})]
        scorer = of(server)
        with pytest.raises(BadAnswer):
            scorer.compute(QUERY, retrieved_texts=TEXTS)
        assert scorer.usage is not None
        assert (scorer.usage.requests, scorer.usage.units) == (1, 1)

    def test_retry_after_is_obeyed(self, server: CohereServer) -> None:
        server.faults = [Fault(429, headers={"retry-after": "1"})]
        of(server).compute(QUERY, retrieved_texts=TEXTS)
        first, second = server.times
        assert 0.95 <= second - first < 3

    def test_a_wait_of_minutes_is_reported_instead(self, server: CohereServer) -> None:
        server.faults = [Fault(429, headers={"retry-after": "600"})]
        with pytest.raises(ScorerFailed, match="status 429"):
            of(server).compute(QUERY, retrieved_texts=TEXTS)
        assert len(server.requests) == 1

    def test_no_retries(self, server: CohereServer) -> None:
        server.faults = [Fault(503)]
        with pytest.raises(ScorerFailed, match="status 503"):
            of(server, max_retries=0).compute(QUERY, retrieved_texts=TEXTS)

    def test_nobody_listens(self) -> None:
        scorer = CohereRerankRelevancy(api_key=KEY, base_url="http://127.0.0.1:9", max_retries=1)
        with pytest.raises(ScorerFailed, match="the connection failed: ConnectError"):
            scorer.compute(QUERY, retrieved_texts=TEXTS)

    def test_a_bad_answer_has_its_own_class_and_the_request_id(self, server: CohereServer) -> None:
        server.faults = [LASTING["NaN"][0]]
        with pytest.raises(BadAnswer) as caught:
            of(server).compute(QUERY, retrieved_texts=TEXTS)
        assert caught.value.request_id == REQUEST_ID
        assert isinstance(caught.value, RagMetricsError)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


class Limiter:
    """LlamaIndex's protocol; lets one request through at a time it is told."""

    def __init__(self) -> None:
        self.admitted = 0

    async def async_acquire(self, num_tokens: int = 0) -> None:
        await asyncio.sleep(0)
        self.admitted += 1


class BlockingLimiter:
    """Only the synchronous half of it."""

    def __init__(self) -> None:
        self.admitted = 0

    def acquire(self, num_tokens: int = 0) -> None:
        time.sleep(0.01)
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
        server.seconds = 0.05
        results = evaluate(retriever, dataset, [of(server, agg="mean")], workers=8)
        # 1, 1 and 0 of the query's words
        means = results.scores.means
        assert means["cohere_rerank_relevancy(agg=mean)"] == pytest.approx(2 / 3)
        assert server.most_at_once == 8
        assert server.connections <= 8

    def test_usage_is_summed_and_shown(
        self, server: CohereServer, dataset: RetrievalDataset, retriever: Scripted
    ) -> None:
        results = evaluate(retriever, dataset, [of(server)], workers=4)
        line = "24 requests to rerank-v3.5, 72 texts fresh, 0 cached, 24 units billed"
        assert str(results.scores.usage["cohere_rerank_relevancy"]) == line
        shown = " ".join(str(results).split())
        assert "requests sent 24 texts asked 72 texts cached 0 units billed 24" in shown
        assert type(results.scores).from_json(results.scores.to_json()) == results.scores
        assert results.scores.select(["q1"]).usage == results.scores.usage

    @pytest.mark.parametrize("limiter_class", [Limiter, BlockingLimiter])
    @pytest.mark.usefixtures("quick_retries")
    def test_every_request_asks_the_limiter(
        self,
        server: CohereServer,
        dataset: RetrievalDataset,
        retriever: Scripted,
        limiter_class: type[Limiter] | type[BlockingLimiter],
    ) -> None:
        limiter = limiter_class()
        server.faults = [Fault(503), Fault(503)]
        results = evaluate(retriever, dataset, [of(server, rate_limiter=limiter)], workers=4)
        assert results.scores.n("cohere_rerank_relevancy") == 24
        assert limiter.admitted == len(server.requests) == 26

    def test_llama_index_own_limiter(self, server: CohereServer) -> None:
        core = pytest.importorskip("llama_index.core.rate_limiter", reason="core before 0.14.16")
        scorer = of(server, rate_limiter=core.TokenBucketRateLimiter(requests_per_minute=600))
        assert scorer.compute(QUERY, retrieved_texts=TEXTS).score == 1

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

    def test_with_labels_beside_other_metrics_and_variants(self, server: CohereServer) -> None:
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

    def test_loops_one_after_the_other_each_have_their_own_client(
        self, server: CohereServer
    ) -> None:
        scorer = of(server)
        for number in range(3):
            asyncio.run(scorer.acompute(f"query {number}", retrieved_texts=TEXTS))
        assert server.connections == 3

    @pytest.mark.filterwarnings("error")
    def test_connections_are_closed_with_their_loop_or_their_metric(
        self, server: CohereServer
    ) -> None:
        async def notebook() -> float:
            return of(server).compute(QUERY, retrieved_texts=TEXTS).score

        async def own_loop() -> float:
            return (await of(server).acompute(QUERY, retrieved_texts=TEXTS)).score

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()  # what other tests left
        of(server).compute(QUERY, retrieved_texts=TEXTS)
        assert asyncio.run(notebook()) == 1
        assert asyncio.run(own_loop()) == 1
        gc.collect()  # a connection that was left open would warn here
        while server.open_connections:
            time.sleep(0.01)

    def test_the_loop_goes_on(
        self, server: CohereServer, dataset: RetrievalDataset, retriever: Scripted
    ) -> None:
        server.seconds = 0.05

        async def main() -> float:
            evaluation = asyncio.create_task(
                aevaluate(retriever, dataset, [of(server)], workers=12)
            )
            longest, last = 0.0, time.perf_counter()
            while not evaluation.done():
                await asyncio.sleep(0.001)
                now = time.perf_counter()
                longest, last = max(longest, now - last), now
            return longest

        # a blocking call would take at least the 50 ms of one answer, twelve of them 600 ms
        assert asyncio.run(main()) < 0.3


class TestStockEvaluator:
    @pytest.fixture(autouse=True)
    def environment(self, server: CohereServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("CO_API_KEY", KEY)
        monkeypatch.setenv("CO_API_URL", server.base_url)
        yield
        unregister()
        register()

    def test_names_with_a_cutoff_are_ours(self) -> None:
        evaluator = CoreEvaluator.from_metric_names(
            ["cohere_rerank_relevancy@3"], retriever=Scripted({QUERY: nodes(*TEXTS[::-1])})
        )
        result = asyncio.run(evaluator.aevaluate(QUERY, expected_ids=["x"]))
        assert result.metric_vals_dict == {"cohere_rerank_relevancy@3": 1.0}

    def test_the_bare_name_stays_core_own_until_it_is_replaced(self) -> None:
        assert METRIC_REGISTRY["cohere_rerank_relevancy"].__module__.startswith("llama_index.core")
        register(replace=True)
        made: Any = METRIC_REGISTRY["cohere_rerank_relevancy"]()
        assert isinstance(made, CohereRerankRelevancy)


def test_forked_workers_score(server: CohereServer) -> None:
    """A pickle goes to a fresh process, which has the key in its environment."""
    program = (
        "import pickle, sys; scorer = pickle.loads(sys.stdin.buffer.read());"
        f"print(scorer.compute({QUERY!r}, retrieved_texts={TEXTS!r}).score)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(of(server, agg="median")),
        capture_output=True,
        check=True,
        env={**os.environ, "CO_API_KEY": KEY},
    )
    assert float(ran.stdout) == pytest.approx(0.8)


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
    def test_a_key_that_is_echoed_is_masked(
        self, server: CohereServer, change: Callable[[dict[str, Any]], Any]
    ) -> None:
        server.fault_of[QUERY] = Fault(change=change)
        scorer = of(server)
        with pytest.raises(BadAnswer) as caught:
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

    def test_a_long_message_is_masked_before_it_is_cut(self, server: CohereServer) -> None:
        server.faults = [Fault(400, json.dumps({"message": "x" * 280 + KEY}))]
        with pytest.raises(ScorerFailed) as caught:
            of(server).compute(QUERY, retrieved_texts=TEXTS)
        assert KEY[:8] not in str(caught.value)

    @pytest.mark.parametrize("body", ["null", "[]", '"text"', "{}", "3"])
    def test_a_body_that_is_no_answer(self, server: CohereServer, body: str) -> None:
        server.faults = [Fault(200, body)]
        with pytest.raises(BadAnswer):
            of(server).compute(QUERY, retrieved_texts=TEXTS)

    def test_a_redirect_to_another_host_is_refused(self, server: CohereServer) -> None:
        with cohere_server() as other:
            server.faults = [Fault(307, "", {"location": f"{other.base_url}/v2/rerank"})]
            with pytest.raises(ScorerFailed, match=r"a redirect to http://127\.0\.0\.1"):
                of(server).compute(QUERY, retrieved_texts=TEXTS)
            assert other.requests == []
        assert len(server.requests) == 1

    def test_a_redirect_within_the_host_is_followed(self, server: CohereServer) -> None:
        server.faults = [Fault(307, "", {"location": f"{server.base_url}/v2/rerank"})]
        assert of(server).compute(QUERY, retrieved_texts=TEXTS).score > 0
        assert len(server.requests) == 2

    def test_a_huge_answer_is_refused(self, server: CohereServer) -> None:
        server.faults = [Fault(200, " " * (MOST_BYTES + 1))]
        with pytest.raises(BadAnswer, match="refused: an answer of more than 16 MB"):
            of(server).compute(QUERY, retrieved_texts=TEXTS)
        assert len(server.requests) == 1

    def test_a_zipped_bomb_is_refused(self, server: CohereServer) -> None:
        bomb = gzip.compress(b" " * (8 * MOST_BYTES)).decode("latin-1")
        server.faults = [Fault(200, bomb, {"content-encoding": "gzip"})]
        with pytest.raises(BadAnswer, match="refused: an answer of more than 16 MB"):
            of(server).compute(QUERY, retrieved_texts=TEXTS)

    def test_a_zipped_answer_is_read(self, server: CohereServer) -> None:
        answer = {"results": [{"index": n, "relevance_score": 0.5} for n in range(len(TEXTS))]}
        zipped = gzip.compress(json.dumps(answer).encode()).decode("latin-1")
        server.faults = [Fault(200, zipped, {"content-encoding": "gzip"})]
        assert of(server).compute(QUERY, retrieved_texts=TEXTS).score == 0.5

    @pytest.mark.parametrize(
        "broken",
        ["not zipped", gzip.compress(b"{}", mtime=0)[:9].decode("latin-1")],
        ids=["not zipped", "cut short"],
    )
    def test_an_answer_that_cant_be_unzipped(self, server: CohereServer, broken: str) -> None:
        server.faults = [Fault(200, broken, {"content-encoding": "gzip"})]
        with pytest.raises(BadAnswer):
            of(server).compute(QUERY, retrieved_texts=TEXTS)

    def test_a_key_over_plain_http_is_warned_of(self) -> None:
        scorer = CohereRerankRelevancy(api_key=KEY, base_url="http://cohere.invalid", max_retries=0)
        with (
            pytest.warns(OpenConnection, match="cohere.invalid over plain http"),
            pytest.raises(ScorerFailed),
        ):
            scorer.compute(QUERY, retrieved_texts=TEXTS)

    def test_a_password_in_the_url_is_sent_and_never_shown(
        self, server: CohereServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        url = server.base_url.replace("://", "://somebody:hunter2pass@")
        scorer = CohereRerankRelevancy(api_key=KEY, base_url=url)
        scorer.compute(QUERY, retrieved_texts=TEXTS)
        # base64 of somebody:hunter2pass, as RFC 7617 has it
        assert server.keys == ["Basic c29tZWJvZHk6aHVudGVyMnBhc3M="]
        assert "hunter2pass" not in caplog.text + repr(scorer) + str(scorer.model_dump())
        assert "127.0.0.1" in caplog.text
