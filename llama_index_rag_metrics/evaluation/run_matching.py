"""Matching an evaluation: the places of nodes, the scores of a matched run, and what was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.rankings.judging.beside import SPANS, needs_of
from llama_index_rag_metrics.rankings.matching.id_matcher import Came
from llama_index_rag_metrics.rankings.matching.matched import (
    BY_SPAN,
    BY_TEXT,
    Expected,
    Matched,
    MatcherLike,
    match_run,
)
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.rankings.span import Span, node_span
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.scoring.batches import ScoringOptions
from llama_index_rag_metrics.scores.scoring.score_rankings import score_with

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
    from llama_index.core.schema import BaseNode

_MOST_QUERIES = 500
"""Comparing texts takes about a millisecond a query; this many are enough for a note."""


class Places:
    """Finds the place of a node in its document: by its own offsets, or else by its text."""

    def __init__(self, corpus: Mapping[str, str]) -> None:
        self._corpus = corpus

    def of_node(self, node: BaseNode) -> Span | None:
        span = node_span(node)
        document = node.ref_doc_id
        text = node.get_content()
        if document is None:
            is_own = span is None or span.source == node.node_id
            return self._of_document(node.node_id, text) if is_own else self._within(span)
        if span is not None and span.source == document:
            whole = self._corpus.get(document)
            if whole is None or whole[span.start : span.end] == text:
                return span
        return self.search(text, document) or self._within(span)

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
    metrics: Sequence[BaseRetrievalMetric], dataset: RetrievalDataset, matcher: MatcherLike | None
) -> Places | None:
    """What finds the places of nodes, where a metric or the matcher needs them."""
    needs_places = matcher == BY_SPAN or SPANS in needs_of(metrics)
    return Places(dataset.corpus) if needs_places else None


def unplaced_note(run: Run) -> list[str]:
    """A note that counts retrieved items without a place, which span metrics don't see."""
    placed = [span is not None for ranking in run.values() for span in ranking.spans or ()]
    lost = len(placed) - sum(placed)
    if not lost:
        return []
    what = f"{lost:,} of {len(placed):,} retrieved passages have no place in a document"
    return [f"{what}, so span metrics leave them out"]


def count_by_text(dataset: RetrievalDataset, run: Run) -> Came:
    """Counts relevant passages by the ids that they came under, of the first questions of a run."""
    with_texts = (
        query_id
        for query_id in dataset.queries
        if run[query_id].texts and knows_texts(dataset, query_id)
    )
    query_ids = list(islice(with_texts, _MOST_QUERIES))
    if not query_ids:
        return Came()
    matched = match_run(run.select(query_ids), dataset.select(query_ids), BY_TEXT)
    n_relevant = n_by_id = n_under_others = 0
    texts: set[str] = set()
    for query_id in query_ids:
        relevant = {*matched.relevance.get(query_id, ())}
        by_id = relevant.intersection(run[query_id].ids)
        under_others = relevant.intersection(matched.run[query_id].ids) - by_id
        n_relevant += len(relevant)
        n_by_id += len(by_id)
        n_under_others += len(under_others)
        texts |= under_others
    return Came(n_relevant, n_by_id, n_under_others, len(texts))


def knows_texts(dataset: RetrievalDataset, query_id: str) -> bool:
    try:
        return bool(Expected.by_text(dataset, query_id).ids)
    except InvalidInput:  # the texts don't go with the ids
        return False


def score_matched(
    metrics: Sequence[BaseRetrievalMetric],
    dataset: RetrievalDataset,
    run: Run,
    matched: Matched | None,
    scoring: ScoringOptions,
) -> Scores:
    """Score all metrics of rankings: by ids, or those that recognise passages by a matcher."""
    members = [metric for metric in metrics if isinstance(metric, RankingMetric)]
    score = partial(_score, dataset, run, scoring)
    if matched is None:
        scores = score(members, dataset.relevance, run)
    else:
        recognising = [metric for metric in members if metric.recognises]
        by_id = [metric for metric in members if not metric.recognises]
        # one that stands for several makes it longer, repetitions make it shorter
        deepest = max((len(ranking.ids) for ranking in run.values()), default=0)
        scores = score(recognising, matched.relevance, _without_errors(matched), deepest)
        columns = {metric: dict(scores.by_query(metric)) for metric in scores}
        for column in columns.values():
            for query_id in matched.errors:
                column.pop(query_id, None)
        details = dict(scores.details)
        if by_id:
            # what knows no items counts the queries that the others count
            relevance = {**matched.relevance, **dataset.relevance}
            others = score(by_id, relevance, run)
            columns.update({metric: dict(others.by_query(metric)) for metric in others})
            details.update(others.details)
        scores = scores.join(columns, order=list(columns)).replace(details=details)
    notes = [*scores.notes]
    if SPANS in needs_of(members):
        notes += unplaced_note(run)
    if matched is not None:
        notes += matched.notes
    # a matcher that failed leaves no ranking, but something was retrieved
    empty = [query_id for query_id in scores.empty if not run[query_id].ids]
    return scores.replace(empty=empty, notes=dict.fromkeys(notes))


def _score(
    dataset: RetrievalDataset,
    run: Run,
    scoring: ScoringOptions,
    metrics: Sequence[RankingMetric],
    relevance: Mapping[str, Relevance],
    judged_run: Run,
    deepest: int | None = None,
) -> Scores:
    return score_with(
        metrics,
        {query_id: relevance.get(query_id) for query_id in dataset.queries},
        judged_run,
        scoring,
        queries=dataset.queries,
        metadata=dataset.metadata,
        name=run.name,
        deepest=deepest,
    )


def _without_errors(matched: Matched) -> Run:
    """The run in which a matcher that failed isn't a retriever that failed."""
    rankings = {
        query_id: replace(ranking, error=None) if query_id in matched.errors else ranking
        for query_id, ranking in matched.run.items()
    }
    run = matched.run.replaced(rankings)
    run.notes = ()
    return run
