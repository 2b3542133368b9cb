"""What a reader of scores should know of their labels and rankings: every note is made here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.gains import NDCG
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings
from llama_index_rag_metrics.rankings.run import slope
from llama_index_rag_metrics.report.numbers import counted, score
from llama_index_rag_metrics.runtime.arrays import BoolArray, IntArray
from llama_index_rag_metrics.runtime.masking import shorten

from .label_fit import Asked

GRADED = "Graded by "  # what a sentence begins with where an LLM graded, not people
_OF_LABELS = "{model}, not by people; only retrieved passages were graded, so recall is too high"
_OF_METRIC = "{model}, not by people: {metric} is from {low:g} to {high:g}"
_FEW_QUESTIONS, _FEW_PASSAGES = 10, 100  # one in this many is next to nothing
_USUAL_GRADE = 1  # the min_grade that nobody chose
_APART = (
    "{common:,} of {judged:,} judged questions have a ranking, beside {others} of others: a judged "
    "question is {ours}, a ranked one {theirs}. Question ids compare exactly: write them alike on "
    "both sides"
)
_LITTLE = (
    "{hits:,} of {labels:,} labels were retrieved for their questions: a label is {label}, an id "
    "retrieved for its question {passage}. Ids compare exactly: if both sides name the same "
    "passages, read the rankings by the ids of the labels, or match by text with match_run()"
)
_BELOW = (
    "{n:,} of {labels} with a positive grade {have} one below {grade:g}, and metrics with "
    "min_grade={grade:g} don't count {them} as relevant"
)
_NEGATIVE = (
    "{n:,} labels have a negative grade: pooled but not judged, without gain and not relevant"
)
_SHALLOW = (
    "no question got more than {most}, so metrics at {beyond} see no more; a similarity_top_k may "
    "be too small"
)
_SHORT = (
    "{short} of {scored} questions got fewer passages than are relevant, and {name} measures them "
    "against the best ranking of that length; {other} has the mean {mean}"
)
_RISING = (
    "in {n:,} of {rankings} scores rise with the rank, as distances do: the order given counts, "
    "not the scores"
)
_EQUAL = "in {n:,} of {rankings} all scores are equal, and say nothing about the order"


class Presence(NamedTuple):
    """Where queries are: arrays with a value for each."""

    is_judged: BoolArray  # whether it has labels
    is_listed: BoolArray  # whether the labels have it, perhaps as one without labels
    is_ranked: BoolArray  # whether the rankings have it, perhaps as an empty one
    is_failed: BoolArray  # whether the retriever failed


class Facts(NamedTuple):
    """What notes on labels are made of: arrays with a value for every query."""

    is_judged: BoolArray
    is_listed: BoolArray
    is_ranked: BoolArray
    is_scored: BoolArray  # whether it counts in the means
    n_retrieved: IntArray  # how many distinct items were retrieved
    n_found: IntArray  # how many of its labels were retrieved
    n_gaining: IntArray  # how many labels have a positive grade
    grades: tuple[float, ...]  # every min_grade of the metrics,
    n_below: IntArray  # (queries, grades) and how many positive grades are below it

    @classmethod
    def of(
        cls,
        judged: JudgedRankings,
        metrics: Sequence[RankingMetric],
        presence: Presence,
        is_scored: BoolArray,
    ) -> Facts:
        grades = sorted({getattr(metric, "min_grade", 0.0) for metric in metrics} - {0.0})
        n_below = np.zeros((len(judged), len(grades)), np.int64)
        for column, grade in enumerate(grades):
            n_below[:, column] = judged.n_gaining - judged.count_judgements(grade)
        return cls(
            presence.is_judged,
            presence.is_listed,
            presence.is_ranked,
            is_scored,
            judged.depth,
            np.bincount(judged.item_query, minlength=len(judged)),
            judged.n_gaining,
            tuple(grades),
            n_below,
        )

    @classmethod
    def joined(cls, parts: Sequence[Facts]) -> Facts:
        """The facts of all parts of a table."""
        columns: dict[str, Any] = {"grades": parts[0].grades}
        for name in cls._fields:
            if name != "grades":
                columns[name] = np.concatenate([getattr(part, name) for part in parts])
        return cls(**columns)

    @property
    def missed(self) -> list[int]:
        """Positions of the questions that miss a label."""
        rows: list[int] = np.flatnonzero(self.n_found < self.n_gaining).tolist()
        return rows


def label_notes(
    facts: Facts, asked_at: Callable[[int], Asked], fit: Sequence[str], *, by_id: bool
) -> list[str]:
    """Return the notes on labels that don't fit, which first lines repeat.

    Args:
        facts: what there is to say.
        asked_at: what the question at a position wants and got, for examples.
        fit: what is known to be wrong with the ids of labels.
        by_id: whether ids of passages are compared.
    """
    mismatch = questions_apart(facts, asked_at)
    notes = [mismatch] if mismatch else [*fit]
    if by_id and not notes:
        notes.append(_little_in_common(facts, asked_at))
    notes += [_below(facts, grade) for grade in facts.grades if grade <= _USUAL_GRADE]
    return [note for note in notes if note]


def questions_apart(facts: Facts, asked_at: Callable[[int], Asked]) -> str:
    """Return a sentence where either side has a tenth or more of questions that the other lacks."""
    judged_alone = facts.is_judged & ~facts.is_ranked
    ranked_alone = facts.is_ranked & ~facts.is_listed
    n_judged, n_ranked = int(facts.is_judged.sum()), int(facts.is_ranked.sum())
    n_alone = int(judged_alone.sum()), int(ranked_alone.sum())
    is_little = n_alone[0] * _FEW_QUESTIONS < n_judged or n_alone[1] * _FEW_QUESTIONS < n_ranked
    if 0 in n_alone or is_little:
        return ""
    return _APART.format(
        common=n_judged - n_alone[0],
        judged=n_judged,
        others=counted(n_alone[1], "ranking", "rankings"),
        ours=shorten(asked_at(int(judged_alone.argmax())).query_id),
        theirs=shorten(asked_at(int(ranked_alone.argmax())).query_id),
    )


def _little_in_common(facts: Facts, asked_at: Callable[[int], Asked]) -> str:
    """Return a sentence where next to no label was retrieved."""
    n_possible = np.minimum(facts.n_retrieved, facts.n_gaining)
    n_labels, n_hits = int(n_possible.sum()), int(facts.n_found.sum())
    if not n_labels or n_hits * _FEW_PASSAGES > n_labels:
        return ""
    rows = np.flatnonzero((n_possible > 0) & (facts.n_found == 0)).tolist()
    _, row = min((shorten(asked_at(row).query_id), row) for row in rows)
    question = asked_at(row)
    label, passage = shorten(next(iter(question.labels))), shorten(next(iter(question.ids)))
    return _LITTLE.format(hits=n_hits, labels=n_labels, label=label, passage=passage)


def _below(facts: Facts, grade: float) -> str:
    """Return a sentence on labels with a positive grade that don't count as relevant."""
    n = int(facts.n_below[facts.is_scored, facts.grades.index(grade)].sum())
    if not n:
        return ""
    n_gaining = int(facts.n_gaining[facts.is_scored].sum())
    have, them = ("has", "it") if n == 1 else ("have", "them")
    labels = counted(n_gaining, "label", "labels")
    return _BELOW.format(n=n, labels=labels, have=have, grade=grade, them=them)


def other_notes(
    facts: Facts,
    judged: JudgedRankings,
    metrics: Sequence[RankingMetric],
    deepest: int | None = None,
) -> list[str]:
    """Return the notes on grades and depths; `deepest` where rankings don't say it."""
    notes = [_below(facts, grade) for grade in facts.grades if grade > _USUAL_GRADE]
    n_negative = int((judged.judged_grade < 0).sum())
    if n_negative:
        notes.append(_NEGATIVE.format(n=n_negative))
    notes += _short_rankings(facts, judged, metrics)
    greatest_depth = int(judged.depth.max(initial=0)) if deepest is None else deepest
    cutoffs = {getattr(metric, "k", None) or 0 for metric in metrics}
    beyond = sorted(cutoff for cutoff in cutoffs if cutoff > greatest_depth)
    if greatest_depth and beyond:
        passages = counted(greatest_depth, "passage", "passages")
        notes.append(_SHALLOW.format(most=passages, beyond=", ".join(map(str, beyond))))
    return [note for note in notes if note]


def _short_rankings(
    facts: Facts, judged: JudgedRankings, metrics: Sequence[RankingMetric]
) -> list[str]:
    """Return what ndcg would be against all that is relevant, where rankings are shorter."""
    is_short = facts.is_scored & (judged.depth > 0) & (judged.depth < facts.n_gaining)
    n_short, n_scored = int(is_short.sum()), int(facts.is_scored.sum())
    notes = []
    for metric in metrics if n_short else ():
        if not isinstance(metric, NDCG) or metric.k is not None or metric.ideal != "retrieved":
            continue
        name = metric.metric_name
        scores = metric.model_copy(update={"ideal": "all"}).score_queries(judged)
        mean = float(np.sum(scores[facts.is_scored])) / n_scored
        name_of_all = f"{name[:-1]}, ideal=all)" if name.endswith(")") else f"{name}(ideal=all)"
        fields = {"short": n_short, "scored": n_scored, "name": name, "other": name_of_all}
        notes.append(_SHORT.format(mean=score(mean), **fields))
    return notes


def graders_of_labels(labels: Iterable[object]) -> list[str]:
    """Return a sentence on each LLM that graded labels."""
    models = {getattr(relevance, "graded_by", "") for relevance in labels} - {""}
    return [GRADED + _OF_LABELS.format(model=model) for model in sorted(models)]


def graders_of_metrics(metrics: Iterable[object]) -> list[str]:
    """Return a sentence on each metric whose scores are an LLM's grades."""
    sentences = []
    for metric in metrics:
        if isinstance(metric, TextMetric) and metric.graded_by:
            low, high = metric.bounds
            fields = {"model": metric.graded_by, "metric": metric.metric_name}
            sentences.append(GRADED + _OF_METRIC.format(low=low, high=high, **fields))
    return sentences


def order_notes(rankings: Iterable[object]) -> list[str]:
    """Return what is strange about the scores of most rankings: they rise, or are all equal."""
    n_scored = n_rising = n_equal = 0
    for ranking in rankings:
        scores = getattr(ranking, "scores", None)
        if scores is None or len(scores) < 2 or None in (scores[0], scores[-1]):
            continue
        n_scored += 1
        n_rising += slope(scores) > 0
        n_equal += scores[0] == scores[-1] and len(set(scores)) == 1
    rankings_scored = counted(n_scored, "ranking", "rankings")
    notes = []
    if 2 * n_rising > n_scored:
        notes.append(_RISING.format(n=n_rising, rankings=rankings_scored))
    if 2 * n_equal > n_scored:
        notes.append(_EQUAL.format(n=n_equal, rankings=rankings_scored))
    return notes
