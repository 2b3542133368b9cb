"""Metrics over the retrieval spans of traces: as MLflow's scorers, as Phoenix's annotations."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.files.lines import OnError
from llama_index_rag_metrics.files.runs.read_runs import read_qrels
from llama_index_rag_metrics.files.traces.trace_reading import Questions, read_sessions, read_traces
from llama_index_rag_metrics.metrics.metric_names import metric as named_metric
from llama_index_rag_metrics.rankings.judging.columns import compute_arguments
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.scores.scoring.batches import Metrics
from llama_index_rag_metrics.scores.scoring.score_rankings import score_rankings
from llama_index_rag_metrics.scores.tracking import tracked_name

if TYPE_CHECKING:
    import pandas as pd


EXPECTED = "expected_ids"


def as_mlflow_scorer(
    metric: str | BaseRetrievalMetric, *, expectation: str = EXPECTED, match_on: str = "node_id"
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
    name = tracked_name(chosen.metric_name)

    def score(trace: Any, expectations: dict[str, Any] | None = None) -> Any:
        run = read_traces([trace], match_on=match_on)
        if not run and any("without documents" in note for note in run.notes):
            raise InvalidInput("trace", "; ".join(run.notes), "retrievals with documents")
        ranking = next(iter(run.values()), Ranking(calls=()))
        result = chosen.compute(
            query=next(iter(run.queries.values()), None),
            expected_ids=_expected(expectations, expectation) if needs_relevance else None,
            retrieved_ids=list(ranking.ids),
            retrieved_texts=None if ranking.texts is None else list(ranking.texts),
            **compute_arguments(chosen, ranking),
        )
        code = f"llama-index-rag-metrics {chosen.metric_name}"
        return entities.Feedback(
            name=name,
            value=result.score,
            rationale=_rationale(ranking) if run else "Nothing was retrieved in this trace.",
            source=entities.AssessmentSource(source_type="CODE", source_id=code),
        )

    return scorers.scorer(score, name=name)


def _expected(expectations: Mapping[str, Any] | None, name: str) -> Relevance:
    labels = (expectations or {}).get(name)
    if labels is None:
        has = sorted(expectations or {}) or None
        raise InvalidInput("expectations", has, f"{name!r} among the expectations of the row")
    return Relevance.of(labels)


def _rationale(ranking: Ranking) -> str:
    if ranking.error is not None:
        return f"The retrieval failed: {ranking.error}"
    shown = ", ".join(ranking.ids[:10])
    more = f" and {len(ranking.ids) - 10} more" if len(ranking.ids) > 10 else ""
    calls = f" in {len(ranking.calls)} calls" if ranking.calls is not None else ""
    return f"Retrieved{calls}: {shown or 'nothing'}{more}."


def span_annotations(
    source: Any,
    qrels: Any,
    metrics: Metrics,
    *,
    question_id: str | None = None,
    questions: Questions | None = None,
    match_on: str = "node_id",
    on_error: OnError = "raise",
) -> pd.DataFrame:
    """Scores of the retrieval spans of traces, to upload to Phoenix.

    Each retrieval is scored by itself, and its score belongs to its span. If a question has several
    calls, the score of its session belongs to the root span, as "mrr of the session". Upload it
    with `Client().spans.log_span_annotations_dataframe(dataframe=...)`.

    Args:
        source: what `read_traces` reads, such as Phoenix's own data frame of spans.
        qrels: what is relevant: what `read_qrels` reads.
        metrics: names, or metrics.
        question_id, questions, match_on, on_error: as of `read_traces`.

    Returns:
        One row per span and metric that has a value: `span_id`, `name`, `annotator_kind` ("CODE"),
        `score` and `metadata` with the query id.

    Raises:
        FileFormatError: a line or a span can't be read.
        InvalidInput: an argument can't be used.
        MissingExtra: pandas isn't installed.

    Examples:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({
        ...     "context.trace_id": ["t1"], "context.span_id": ["s1"], "span_kind": ["RETRIEVER"],
        ...     "attributes.retrieval.documents": [[{"document.id": "d2"}, {"document.id": "d1"}]],
        ... })
        >>> scored = span_annotations(frame, {"t1": {"d1": 1}}, ["mrr"])
        >>> scored[["span_id", "name", "score"]].to_dict("records")
        [{'span_id': 's1', 'name': 'mrr', 'score': 0.5}]
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtra("span_annotations()", "pandas") from error
    read = read_sessions(
        source, question_id=question_id, questions=questions, match_on=match_on, on_error=on_error
    )
    judged = read_qrels(qrels)
    spans: dict[str, tuple[str, Ranking]] = {}
    roots: dict[str, tuple[str, Ranking]] = {}
    for query_id, session in read.times[0].items():
        for span_id, call in zip(session.spans, session.calls, strict=True):
            spans[span_id] = query_id, call.ranking
        if session.root is not None and len(session.calls) > 1:
            roots[session.root] = query_id, read.run[query_id]
    rows = _rows(spans, judged, metrics)
    rows += _rows(roots, judged, metrics, " of the session")
    return pd.DataFrame(rows, columns=["span_id", "name", "annotator_kind", "score", "metadata"])


def _rows(
    spans: Mapping[str, tuple[str, Ranking]],
    judged: Mapping[str, Relevance],
    metrics: Metrics,
    what: str = "",
) -> list[tuple[Any, ...]]:
    """A row a span and metric, in the order of the spans; `what` follows the metric's name."""
    known = {span_id: pair for span_id, pair in spans.items() if pair[0] in judged}
    expected = {span_id: judged[query_id] for span_id, (query_id, _) in known.items()}
    run = Run({span_id: ranking for span_id, (_, ranking) in known.items()})
    scores = score_rankings(expected, run, metrics)
    by_metric = {name: scores.by_query(name) for name in scores}
    return [
        (span_id, f"{name}{what}", "CODE", values[span_id], {"query_id": known[span_id][0]})
        for span_id in scores.query_ids
        for name, values in by_metric.items()
        if span_id in values
    ]
