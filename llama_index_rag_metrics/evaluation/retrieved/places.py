"""Where retrieved nodes and expected items are in their documents, for the metrics of spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.rankings.judging.columns import JudgedSpans, columns_for
from llama_index_rag_metrics.rankings.matching.matcher import Matcher
from llama_index_rag_metrics.rankings.matching.span_matcher import SpanMatcher, node_span
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
    from llama_index.core.schema import BaseNode

    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset


class Places:
    """Finds the place of a node in its document.

    The node's own offsets count where the document has its text there. Those of a node that was cut
    from another node are brought up to the document where a SpanMatcher knows the other one. Where
    there are none, or they end at an unknown parent, the node's text is searched in the document
    that it comes from.
    """

    def __init__(self, corpus: Mapping[str, str], matcher: Matcher[Any] | None = None) -> None:
        self._corpus = corpus
        self._nodes = matcher if isinstance(matcher, SpanMatcher) else None

    def of_node(self, node: BaseNode) -> Span | None:
        span = node_span(node)
        if span is not None and self._nodes is not None:
            span = self._nodes.resolve(span)
        document = node.ref_doc_id
        text = node.get_content()
        if document is None:
            is_own = span is None or span.source == node.node_id
            return self._of_document(node.node_id, text) if is_own else self._within(span)
        if span is not None and span.source == document and self._holds(span, text):
            return span
        return self.search(text, document) or self._within(span)

    def of_relevance(self, relevance: Relevance) -> Relevance:
        """Add to relevance the places of ids that are known nodes."""
        if self._nodes is None:
            return relevance
        known = dict(relevance.spans or {})
        for item in relevance.grades:
            span = known.get(item) or self._nodes.span_of(item)
            if span is not None:
                known[item] = self._nodes.resolve(span)
        return relevance.with_spans(known) if known else relevance

    def _holds(self, span: Span, text: str) -> bool:
        """Whether a text is where it says it is, as far as the document is known."""
        document = self._corpus.get(span.source)
        return document is None or document[span.start : span.end] == text

    def _within(self, span: Span | None) -> Span | None:
        """Cut a span off at its document's end, which a node with a title exceeds by a line."""
        if span is None or span.source not in self._corpus:
            return span
        end = min(span.end, len(self._corpus[span.source]))
        return span._replace(end=end) if span.start < end else None

    def _of_document(self, item: str, text: str) -> Span | None:
        """The retrieved part of a document: all of it for a bare id, or with an added title."""
        document = self._corpus.get(item, text)
        if document.strip() in text or not text:
            return Span(item, 0, len(document)) if document else None
        return self.search(text, item)

    def search(self, text: str, document: str, begin: int = 0) -> Span | None:
        """The first place of a text in a document, blanks around it ignored."""
        text = text.strip()
        start = self._corpus.get(document, "").find(text, begin) if text else -1
        return None if start < 0 else Span(document, start, start + len(text))


def places_for(
    metrics: Sequence[BaseRetrievalMetric], dataset: RetrievalDataset, matcher: Matcher[Any] | None
) -> Places | None:
    for metric in metrics:
        if "documents" in getattr(metric, "needs", ()) and not dataset.corpus:
            remedy = "Give the dataset a corpus, or count characters."
            raise InvalidInput(metric.metric_name, "no corpus", "the documents' texts", remedy)
    return Places(dataset.corpus, matcher) if JudgedSpans in columns_for(metrics) else None


def unplaced_note(run: Run) -> list[str]:
    """A note that counts retrieved items without a place, which span metrics don't see."""
    placed = [span is not None for ranking in run.values() for span in ranking.spans or ()]
    lost = len(placed) - sum(placed)
    if not lost:
        return []
    what = f"{lost:,} of {len(placed):,} retrieved passages have no place in a document"
    return [f"{what}, so span metrics leave them out"]
