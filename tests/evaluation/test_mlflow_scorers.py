"""Our metrics in `mlflow.genai.evaluate`, on a real tracking store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

mlflow = pytest.importorskip("mlflow", reason="the tool that is tested")
pytest.importorskip("mlflow.genai.scorers", reason="MLflow 3")

from llama_index.core.retrievers import BaseRetriever  # noqa: E402
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode  # noqa: E402
from mlflow.entities import Document  # noqa: E402
from support.telemetry import mlflow_store  # noqa: E402

from llama_index_rag_metrics import RetrievalDataset, as_mlflow_scorer, evaluate, read_traces  # noqa: E402
from llama_index_rag_metrics.runtime.errors import UnknownMetric  # noqa: E402

FOUND = {"Which?": ["d2", "d1", "d3"], "Who?": ["d3"], "When?": [], "Where?": ["d1"]}
RELEVANT = {"Which?": {"d1": 2, "d3": 1}, "Who?": ["d1"], "When?": ["d1"], "Where?": ["d1"]}
METRICS = ["ndcg@10", "mrr", "ndcg(mode=exponential)@2"]


class Known(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        ids = FOUND[query_bundle.query_str]
        nodes = [TextNode(text=f"text of {item}", id_=item) for item in ids]
        return [NodeWithScore(node=node, score=1.0) for node in nodes]


@pytest.fixture(autouse=True)
def store(tmp_path: Path) -> Iterator[None]:
    mlflow_store(tmp_path)
    mlflow.llama_index.autolog()
    yield
    mlflow.llama_index.autolog(disable=True)


def rows() -> list[dict[str, object]]:
    return [
        {"inputs": {"question": question}, "expectations": {"expected_ids": RELEVANT[question]}}
        for question in FOUND
    ]


def test_the_numbers_are_those_of_evaluate() -> None:
    result = mlflow.genai.evaluate(
        data=rows(),
        predict_fn=lambda question: [hit.node.node_id for hit in Known().retrieve(question)],
        scorers=[as_mlflow_scorer(name) for name in METRICS],
    )
    direct = evaluate(
        Known(),
        RetrievalDataset(queries={question: question for question in FOUND}, relevance=RELEVANT),
        METRICS,
    )
    names = ["ndcg_at_10", "mrr", "ndcg.mode-exponential_at_2"]
    for name, metric in zip(names, METRICS, strict=True):
        assert result.metrics[f"{name}/mean"] == pytest.approx(direct.scores.means[metric])
        by_question = direct.scores.by_query(metric)
        for _, row in result.result_df.iterrows():
            (question,) = row["request"].values()
            assert row[f"{name}/value"] == by_question[question]
    # what MLflow stored is read back as the same run
    run = read_traces(
        mlflow.search_traces(return_type="list"),
        questions={question: question for question in FOUND},
    )
    assert {query_id: list(ranking.ids) for query_id, ranking in run.items()} == FOUND


def test_calls_are_those_of_the_trace() -> None:
    searches = {"Which?": ["Which?", "Who?", "Who?"], "Who?": ["Who?"], "When?": []}
    metrics = ["calls", "new_relevant", "wasted_calls", "repeated_calls"]

    @mlflow.trace  # type: ignore[untyped-decorator]
    def ask(question: str) -> str:
        for search in searches[question]:
            Known().retrieve(search)
        return "an answer"

    async def agent(question: str) -> str:
        return str(ask(question))

    result = mlflow.genai.evaluate(
        data=[
            {"inputs": {"question": question}, "expectations": {"expected_ids": RELEVANT[question]}}
            for question in searches
        ],
        predict_fn=ask,
        scorers=[as_mlflow_scorer(metric) for metric in metrics],
    )
    questions = {question: question for question in searches}
    relevance = {question: RELEVANT[question] for question in searches}
    direct = evaluate(agent, RetrievalDataset(questions, relevance), metrics).scores.means
    assert direct["calls"] == pytest.approx(4 / 3)
    assert [result.metrics[f"{metric}/mean"] for metric in metrics] == [*direct.values()]


def test_documents_by_a_key_of_their_metadata() -> None:
    @mlflow.trace(span_type="RETRIEVER")  # type: ignore[untyped-decorator]
    def search(question: str) -> list[Document]:
        return [Document("a text", {"doc_uri": uri}) for uri in ("file/2", "file/1")]

    result = mlflow.genai.evaluate(
        data=[{"inputs": {"question": "?"}, "expectations": {"wanted": ["file/1"]}}],
        predict_fn=search,
        scorers=[as_mlflow_scorer("mrr", expectation="wanted", match_on="doc_uri")],
    )
    assert result.metrics["mrr/mean"] == 0.5


def test_what_cannot_be_scored_has_an_error_and_no_value() -> None:
    scorer = as_mlflow_scorer("mrr")
    Known().retrieve("Which?")
    mlflow.flush_trace_async_logging()
    (trace,) = mlflow.search_traces(return_type="list")
    assert scorer(trace=trace, expectations={"expected_ids": ["d1"]}).value == 0.5
    assert scorer(trace=trace, expectations={"expected_ids": ["d1"]}).rationale == (
        "Retrieved: d2, d1, d3."
    )
    for expectations, message in (
        (None, "'expected_ids' among the expectations"),
        ({"other": 1}, "'expected_ids' among the expectations"),
        ({"expected_ids": []}, "nothing relevant"),
    ):
        with pytest.raises(ValueError, match=message):
            scorer(trace=trace, expectations=expectations)


def test_a_trace_that_retrieved_nothing_scores_0() -> None:
    @mlflow.trace  # type: ignore[untyped-decorator]
    def answer(question: str) -> str:
        return "by heart"

    answer("?")
    mlflow.flush_trace_async_logging()
    (trace,) = mlflow.search_traces(return_type="list")
    feedback = as_mlflow_scorer("mrr")(trace=trace, expectations={"expected_ids": ["d1"]})
    assert feedback.value == 0
    assert feedback.rationale == "Nothing was retrieved in this trace."


def test_an_unknown_metric_is_refused_at_once() -> None:
    with pytest.raises(UnknownMetric):
        as_mlflow_scorer("ngcd@10")
