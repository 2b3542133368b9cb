"""Metrics as scorers of `mlflow.genai.evaluate`, over the retrieval spans of its traces."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.files.traces import read_traces
from llama_index_rag_metrics.metrics.metric_names import metric as named_metric
from llama_index_rag_metrics.rankings.judging import columns_for
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.scores.tracking import tracked_name

EXPECTED = "expected_ids"


def as_mlflow_scorer(
    metric: str | BaseRetrievalMetric,
    *,
    expectation: str = EXPECTED,
    match_on: str = "node_id",
) -> Any:
    """Make a metric a scorer of MLflow 3: `mlflow.genai.evaluate(data=…, scorers=[…])`.

    It scores what the trace of a row retrieved: the documents of its RETRIEVER spans, one span
    after another, copies dropped. A trace without any retrieval scores 0, and so does one whose
    retrieval failed; the rationale says so. A row that can't be scored, since the expectation is
    missing or nothing is relevant, has an error instead of a value and doesn't count.

    Args:
        metric: its name, such as "ndcg@10", or the metric.
        expectation: which of a row's expectations holds what is relevant: ids, {id: grade}, or
            groups of ids. Metrics of texts don't need it.
        match_on: which id of a document counts: "node_id", or a key of its metadata such as
            "doc_uri".

    Returns:
        The scorer, an `mlflow.genai.scorers.Scorer`. Its name is the metric's, in letters that
        MLflow accepts: "ndcg_at_10".

    Raises:
        MissingExtra: MLflow 3 isn't installed.
        UnknownMetric: there is no such metric.
    """
    chosen = named_metric(metric) if isinstance(metric, str) else metric
    try:
        scorers, entities = import_module("mlflow.genai.scorers"), import_module("mlflow.entities")
    except ImportError as error:
        raise MissingExtra("as_mlflow_scorer()", "mlflow") from error
    needs_relevance = getattr(chosen, "needs_relevance", True)

    def score(trace: Any, expectations: dict[str, Any] | None = None) -> Any:
        run = read_traces([trace], match_on=match_on)
        if not run and any("without documents" in note for note in run.notes):
            raise InvalidInput("trace", "; ".join(run.notes), "retrievals with documents")
        ranking = next(iter(run.values()), Ranking(calls=()))
        beside = {
            column.argument: getattr(ranking, column.name) for column in columns_for([chosen])
        }
        result = chosen.compute(
            query=next(iter(run.queries.values()), None),
            expected_ids=_expected(expectations, expectation) if needs_relevance else None,
            retrieved_ids=list(ranking.ids),
            retrieved_texts=None if ranking.texts is None else list(ranking.texts),
            **beside,
        )
        return entities.Feedback(
            name=tracked_name(chosen.metric_name),
            value=result.score,
            rationale=_rationale(ranking, has_retrieval=bool(run)),
            source=entities.AssessmentSource(
                source_type="CODE", source_id=f"llama-index-rag-metrics {chosen.metric_name}"
            ),
        )

    return scorers.scorer(score, name=tracked_name(chosen.metric_name))


def _expected(expectations: Mapping[str, Any] | None, name: str) -> Relevance:
    labels = (expectations or {}).get(name)
    if labels is None:
        has = sorted(expectations or {}) or None
        raise InvalidInput("expectations", has, f"{name!r} among the expectations of the row")
    return Relevance.of(labels)


def _rationale(ranking: Ranking, *, has_retrieval: bool) -> str:
    if not has_retrieval:
        return "Nothing was retrieved in this trace."
    if ranking.error is not None:
        return f"The retrieval failed: {ranking.error}"
    shown = ", ".join(ranking.ids[:10])
    more = f" and {len(ranking.ids) - 10} more" if len(ranking.ids) > 10 else ""
    calls = f" in {len(ranking.calls)} calls" if ranking.calls is not None else ""
    return f"Retrieved{calls}: {shown or 'nothing'}{more}."
