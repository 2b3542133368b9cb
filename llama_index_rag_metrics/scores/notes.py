"""What a reader of scores should know of their labels and rankings: every note is made here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.gains import NDCG
from llama_index_rag_metrics.rankings.judging.beside import SPANS, needs_of
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings, TokenBudget
from llama_index_rag_metrics.rankings.relevance import as_relevance
from llama_index_rag_metrics.rankings.run import Ranking, slope
from llama_index_rag_metrics.report.numbers import counted, score
from llama_index_rag_metrics.runtime.containers import IntArray, present
from llama_index_rag_metrics.runtime.masking import shorten

from .batches import ScoredBatch, compares_ids
from .label_fit import NO_STOCK, Asked, Stock, fit_notes

GRADED = "Graded by "  # what a sentence begins with where an LLM graded, not people
_OF_LABELS = "{model}, not by people; only retrieved passages were graded, so recall is too high"
_UNGRADED = "{n:,} of {passages:,} passages, ungraded, count as not relevant: use llm_relevancy"
_FEW_QUESTIONS, _FEW_PASSAGES = 10, 100  # one in this many is next to nothing
_APART = (
    "{common:,} of {judged:,} judged questions have a ranking, beside those of "
    "{others}: a judged question is {ours}, a ranked one {theirs}. Question ids compare exactly: "
    "write them alike on both sides, or give read_traces() the questions of the dataset"
)
_LITTLE = (
    "{hits:,} of {labels:,} labels were retrieved for their questions: a label is {label}, an id "
    "retrieved for its question {passage}. Ids compare exactly: if both sides name the same "
    "passages, read the rankings by the ids of the labels, or match by text with match_run()"
)
_BELOW = (
    "Below min_grade={grade:g}: {n:,} of {labels:,} labels with a positive grade, which metrics of "
    "that min_grade don't count as relevant"
)
_SHALLOW = "metrics at {beyond} got at most {most}: is similarity_top_k too small?"
_ROOM = "{name} has room left in {n:,} of {rankings:,} rankings: is similarity_top_k too small?"
_COPIES = "{n:,} of {rankings:,} rankings have under {k} ids, which passages share: retrieve more"
_SHORT = (
    "{short} of {scored} questions got fewer passages than are relevant, and {name} measures them "
    "against the best ranking of that length; {other} has the mean {mean}"
)
_UNPLACED = "{n:,} of {labels:,} relevant passages have no place: span metrics leave them out"
_RISING = (
    "scores rise with the rank in {n:,} of {rankings:,} rankings, as distances do: the order given "
    "counts, not the scores"
)
_EQUAL = "all scores are equal in {n:,} of {rankings:,} rankings, and say nothing about the order"
_CHUNKS = (
    "{n:,} of {rankings:,} rankings have several passages under one id, as chunks have that of "
    "their document: the first alone counts, also its {needs}"
)


def label_notes(
    batch: ScoredBatch,
    metrics: Sequence[RankingMetric],
    asked_at: Callable[[int], Asked],
    mismatch: str,
    stock: Stock | None = NO_STOCK,
) -> list[str]:
    """Return what first lines say of labels, `mismatch` too; without a stock, nothing of ids."""
    if not any(metric.needs_relevance for metric in metrics):
        return []
    notes = [mismatch]
    if stock is not None and compares_ids(metrics) and not mismatch:
        missed = np.flatnonzero(batch.n_found < batch.n_relevant)
        notes = fit_notes(asked_at, len(batch.depth), stock, missed)
        notes = notes or [little_in_common(asked_at, batch.depth, batch.n_relevant, batch.n_found)]
    if SPANS in needs_of(metrics):
        notes.append(_unplaced(map(asked_at, range(len(batch.depth)))))
    return [*filter(None, notes), *_below(batch, is_usual=True)]


def _unplaced(rows: Iterable[Asked]) -> str:
    n_labels = n_unplaced = 0
    for question in rows:
        labels = as_relevance(question.relevance or ())
        n_labels += len(labels)
        n_unplaced += len(set(labels).difference(labels.spans or ()))
    return _UNPLACED.format(n=n_unplaced, labels=n_labels) if n_unplaced else ""


def questions_apart(labels: object, rankings: object) -> str:
    """Return a sentence where either side has a tenth or more of questions that the other lacks."""
    if not isinstance(labels, Mapping) or not isinstance(rankings, Mapping):
        return ""
    if labels.keys() == rankings.keys():
        return ""
    judged = present(labels).keys()
    judged_alone, ranked_alone = judged - rankings.keys(), rankings.keys() - labels.keys()
    is_little = len(judged_alone) * _FEW_QUESTIONS < len(judged)
    is_little |= len(ranked_alone) * _FEW_QUESTIONS < len(rankings)
    if not judged_alone or not ranked_alone or is_little:
        return ""
    return _APART.format(
        common=len(judged) - len(judged_alone),
        judged=len(judged),
        others=counted(len(ranked_alone), "other", "others"),
        ours=shorten(min(judged_alone, key=str)),
        theirs=shorten(min(ranked_alone, key=str)),
    )


def little_in_common(
    asked_at: Callable[[int], Asked], depth: IntArray, n_relevant: IntArray, n_found: IntArray
) -> str:
    """Return a sentence where next to no label was retrieved, though something was."""
    n_possible = np.minimum(depth, n_relevant)
    n_labels, n_hits = int(n_relevant[depth > 0].sum()), int(n_found.sum())
    if not n_labels or n_hits * _FEW_PASSAGES > n_possible.sum():
        return ""
    question = asked_at(int(((n_possible > 0) & (n_found == 0)).argmax()))
    label, passage = shorten(question.labels[0]), shorten(question.ids[0])
    return _LITTLE.format(hits=n_hits, labels=n_labels, label=label, passage=passage)


def _below(batch: ScoredBatch, *, is_usual: bool) -> Iterator[str]:
    n_labels = int(batch.n_relevant[batch.is_scored].sum())
    for grade, n_below in batch.n_below.items():
        n = int(n_below[batch.is_scored].sum())
        if n and is_usual == (grade <= 1):
            yield _BELOW.format(n=n, labels=n_labels, grade=grade)


def other_notes(
    batch: ScoredBatch,
    judged: JudgedRankings,
    metrics: Sequence[RankingMetric],
    asked_at: Callable[[int], Asked],
    deepest: int | None = None,
) -> Iterator[str]:
    yield from _below(batch, is_usual=False)
    yield from _short_rankings(batch, judged, metrics)
    if deepest is None:
        deepest = int(judged.depth.max(initial=0))
        for k in sorted({getattr(metric, "k", None) or 0 for metric in metrics}):
            short = np.flatnonzero(judged.depth < k).tolist()
            n_short = sum(len(asked_at(row).ids) >= k for row in short)
            if n_short * _FEW_QUESTIONS > len(judged):
                yield _COPIES.format(n=n_short, rankings=len(judged), k=k)
    yield from depth_notes(metrics, deepest)
    for metric in metrics:
        if isinstance(metric.cutoff, TokenBudget) and judged.tokens is not None and deepest:
            n = np.count_nonzero(judged.n_fitting(metric.cutoff) == judged.depth)
            if n > len(judged) / 2:
                yield _ROOM.format(name=metric.metric_name, n=n, rankings=len(judged))


def depth_notes(metrics: Iterable[object], deepest: int) -> Iterator[str]:
    cutoffs = {getattr(metric, "k", None) or 0 for metric in metrics}
    beyond = sorted(cutoffs.difference(range(deepest + 1)))
    if deepest and beyond:
        passages = counted(deepest, "passage", "passages")
        yield _SHALLOW.format(most=passages, beyond=", ".join(map(str, beyond)))


def _short_rankings(
    batch: ScoredBatch, judged: JudgedRankings, metrics: Sequence[RankingMetric]
) -> Iterator[str]:
    is_short = batch.is_scored & (judged.depth > 0) & (judged.depth < judged.n_gaining)
    counts = {"short": int(is_short.sum()), "scored": int(batch.is_scored.sum())}
    for metric in metrics:
        is_bare = isinstance(metric, NDCG) and metric.k is None and metric.ideal is None
        if is_bare and counts["short"]:
            of_all = metric.model_copy(update={"ideal": "all"})
            mean = float(np.mean(of_all.score_queries(judged)[batch.is_scored]))
            names = {"name": metric.metric_name, "other": of_all.metric_name}
            yield _SHORT.format(mean=score(mean), **names, **counts)


def grader_notes(
    labels: Iterable[object], judged: JudgedRankings, metrics: Iterable[object]
) -> Iterator[str]:
    """Yield which LLM graded the labels, and how much of what metrics read it didn't see."""
    models = {getattr(relevance, "graded_by", "") for relevance in labels} - {""}
    for model in sorted(models):
        yield GRADED + _OF_LABELS.format(model=model)
    deepest = max((getattr(metric, "k", None) or np.inf for metric in metrics), default=0)
    depth = np.minimum(judged.depth, deepest)[judged.n_judged > 0]
    n = int(depth.sum()) - np.count_nonzero(judged.item_rank <= deepest)
    if models and n:
        yield _UNGRADED.format(n=n, passages=int(depth.sum()))


def order_notes(rankings: Iterable[object], *, are_stored: bool) -> Iterator[str]:
    """Yield what is strange about most rankings: scores rise, or, of stored ones, are all equal."""
    n_scored = n_rising = n_equal = 0
    for ranking in rankings:
        scores = getattr(ranking, "scores", None)
        if scores is None or len(scores) < 2 or None in (scores[0], scores[-1]):
            continue
        n_scored += 1
        n_rising += slope(scores) > 0
        n_equal += scores[0] == scores[-1] and len(set(scores)) == 1
    if 2 * n_rising > n_scored:
        yield _RISING.format(n=n_rising, rankings=n_scored)
    if are_stored and 2 * n_equal > n_scored:
        yield _EQUAL.format(n=n_equal, rankings=n_scored)


def chunk_notes(rankings: Collection[object], needs: Collection[str]) -> Iterator[str]:
    """Yield how often passages share an id, where metrics read their tokens or places."""
    n = 0
    for ranking in rankings:
        if isinstance(ranking, Ranking):
            names = ranking.ids
            passages = zip(names, ranking.texts or names, ranking.spans or names, strict=True)
            n += len(set(map(str, passages))) > len(set(names))
    if n:
        yield _CHUNKS.format(n=n, rankings=len(rankings), needs=" and ".join(sorted(needs)))
