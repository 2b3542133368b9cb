"""The Cohere metric against a real server on loopback: answers, and keys kept secret."""

import copy
import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.cohere_fixtures import no_key_in_the_environment, serving  # noqa: F401 - fixtures
from support.cohere_metric import KEY, QUERY, SCORES, TEXTS, nodes, of
from support.cohere_server import CohereServer, Fault, relevance
from support.retrievers import Scripted

from llama_index_rag_metrics import (
    CohereRerankRelevancy,
    CohereRerankRelevancyMetric,
    RetrievalDataset,
    evaluate,
    metric,
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
