"""The Cohere metric against a real server on loopback: faults, and answers of an enemy."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cohere_fixtures import no_key_in_the_environment, quick_retries, serving  # noqa: F401 - fixtures
from support.cohere_metric import KEY, QUERY, SCORES, TEXTS, nodes, of
from support.cohere_server import REQUEST_ID, CohereServer, Fault, cohere_server
from support.retrievers import Scripted

from llama_index_rag_metrics import CohereRerankRelevancy, RetrievalDataset, evaluate
from llama_index_rag_metrics.runtime.errors import InvalidInput, ScorerFailed

pytestmark = pytest.mark.cohere

pytest.importorskip("cohere", reason="needs the cohere extra")

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
