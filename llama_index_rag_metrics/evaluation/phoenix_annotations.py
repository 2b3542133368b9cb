"""Scores of the retrievals in traces, as annotations of their spans for Phoenix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.files.lines import OnError
from llama_index_rag_metrics.files.runs.read_runs import read_qrels
from llama_index_rag_metrics.files.traces.trace_reading import Questions, read_sessions
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.runtime.errors import MissingExtra
from llama_index_rag_metrics.scores.scoring import Metrics, score_rankings

if TYPE_CHECKING:
    import pandas as pd


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
    calls, the score of its session belongs to the root span, under the metric's name followed by "
    of the session". Upload it with `Client().spans.log_span_annotations_dataframe(dataframe=...)`.

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
        >>> frame = pd.DataFrame(
        ...     {
        ...         "context.trace_id": ["t1"],
        ...         "context.span_id": ["s1"],
        ...         "span_kind": ["RETRIEVER"],
        ...         "attributes.retrieval.documents": [
        ...             [{"document.id": "d2"}, {"document.id": "d1"}],
        ...         ],
        ...     }
        ... )
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
    for query_id, session in read.sessions.items():
        for span_id, call in zip(session.spans, session.calls, strict=True):
            spans[span_id] = query_id, call.ranking
    rows = _rows(spans, judged, metrics, "")
    roots = {
        session.root: (query_id, read.rankings[query_id])
        for query_id, session in read.sessions.items()
        if session.root is not None and len(session.calls) > 1
    }
    rows += _rows(roots, judged, metrics, " of the session")
    columns = ["span_id", "name", "annotator_kind", "score", "metadata"]
    return pd.DataFrame(rows, columns=columns)


def _rows(
    spans: Mapping[str, tuple[str, Ranking]],
    judged: Mapping[str, Relevance],
    metrics: Metrics,
    what: str,
) -> list[dict[str, Any]]:
    """A row a span and metric, in the order of the spans."""
    queries = {span_id: query_id for span_id, (query_id, _) in spans.items() if query_id in judged}
    expected = {span_id: judged[query_id] for span_id, query_id in queries.items()}
    run = Run({span_id: spans[span_id][1] for span_id in queries})
    scores = score_rankings(expected, run, metrics)
    by_metric = {name: scores.by_query(name) for name in scores}
    return [
        {
            "span_id": span_id,
            "name": f"{name}{what}",
            "annotator_kind": "CODE",
            "score": by_metric[name][span_id],
            "metadata": {"query_id": queries[span_id]},
        }
        for span_id in scores.query_ids
        for name in scores
        if span_id in by_metric[name]
    ]
