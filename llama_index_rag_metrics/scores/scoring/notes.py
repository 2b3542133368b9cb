"""What a reader of scores should know of their labels and rankings: every note is made here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.gains import NDCG
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, slope
from llama_index_rag_metrics.report.numbers import counted, score
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.masking import shorten

_FEW_QUESTIONS, _FEW_PASSAGES = 10, 100  # one in this many is next to nothing
_USUAL_GRADE = 1  # the min_grade that nobody chose


@dataclass(frozen=True)
class Sides:
    """The question at a position, and its labels and retrieved ids, as they were given."""

    question: Callable[[int], object]
    pair: Callable[[int], tuple[Any, Any]]


class Presence(NamedTuple):
    """Where queries are: arrays with a value for each."""

    is_judged: BoolArray  # whether it has labels
    is_listed: BoolArray  # whether the labels have it, perhaps as one without labels
    is_ranked: BoolArray  # whether the rankings have it, perhaps as an empty one
    is_failed: BoolArray  # whether the retriever failed


@dataclass(frozen=True)
class Facts:
    """What notes are made of: an array each, with a value for every query.

    Attributes:
        is_judged: whether it has labels.
        is_listed: whether the labels have it, perhaps as one without labels.
        is_ranked: whether the rankings have it, perhaps as an empty one.
        is_scored: whether it counts in the means.
        n_retrieved: how many distinct items were retrieved.
        n_found: how many of its labels were retrieved.
        depth: how many of the retrieved items count.
        n_gaining: how many labels have a positive grade.
        n_negative: how many labels have a negative grade.
        n_below: min_grade of metrics to how many positive grades are below it.
        whole: name of an ndcg to its scores with ideal=all.
        cutoffs: those of the metrics.
    """

    is_judged: BoolArray
    is_listed: BoolArray
    is_ranked: BoolArray
    is_scored: BoolArray
    n_retrieved: IntArray
    n_found: IntArray
    depth: IntArray
    n_gaining: IntArray
    n_negative: IntArray
    n_below: Mapping[float, IntArray] = field(default_factory=dict)
    whole: Mapping[str, FloatArray] = field(default_factory=dict)
    cutoffs: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        judged: JudgedRankings,
        selected: JudgedRankings,
        metrics: Sequence[RankingMetric],
        presence: Presence,
        is_scored: BoolArray,
    ) -> Facts:
        """The facts of rankings, of which a selection counts."""
        chosen = {getattr(metric, "min_grade", 0.0) for metric in metrics} - {0.0}
        ndcgs = [metric for metric in metrics if isinstance(metric, NDCG)]
        shortened = [each for each in ndcgs if each.k is None and each.ideal == "retrieved"]
        whole = {each.metric_name: each.model_copy(update={"ideal": "all"}) for each in shortened}
        cutoffs = [getattr(metric, "k", None) for metric in metrics]
        n_queries = len(judged)
        negative = judged.judged_query[judged.judged_grade < 0]
        return cls(
            is_judged=presence.is_judged,
            is_listed=presence.is_listed,
            is_ranked=presence.is_ranked,
            is_scored=is_scored,
            n_retrieved=judged.depth,
            n_found=np.bincount(judged.item_query, minlength=n_queries),
            depth=selected.depth,
            n_gaining=judged.n_gaining,
            n_negative=np.bincount(negative, minlength=n_queries),
            n_below={grade: judged.n_gaining - judged.count_judgements(grade) for grade in chosen},
            whole={name: metric.score_queries(selected) for name, metric in whole.items()},
            cutoffs=frozenset(cutoff for cutoff in cutoffs if cutoff),
        )

    @classmethod
    def joined(cls, parts: Sequence[Facts]) -> Facts:
        """The facts of all parts of a table, as far as notes on labels need them."""
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in _OF_LABELS
        }
        grades = parts[0].n_below
        below = {grade: np.concatenate([part.n_below[grade] for part in parts]) for grade in grades}
        nothing = np.zeros(0, np.int64)
        return cls(**columns, depth=nothing, n_negative=nothing, n_below=below)


_OF_LABELS = (
    "is_judged",
    "is_listed",
    "is_ranked",
    "is_scored",
    "n_retrieved",
    "n_found",
    "n_gaining",
)


def label_notes(facts: Facts, sides: Sides, fit: Sequence[str], *, by_id: bool) -> list[str]:
    """Return the notes on labels that don't fit, which first lines repeat.

    Args:
        facts: what there is to say.
        sides: the questions, labels and rankings, for examples.
        fit: what is known to be wrong with the ids of labels.
        by_id: whether ids of passages are compared.
    """
    mismatch = questions_apart(facts, sides)
    notes = [mismatch] if mismatch else [*fit]
    if by_id and not notes:
        notes.append(_little_in_common(facts, sides))
    notes += [_below(facts, grade) for grade in sorted(facts.n_below) if grade <= _USUAL_GRADE]
    return [note for note in notes if note]


def questions_apart(facts: Facts, sides: Sides) -> str:
    """Return a sentence where either side has a tenth or more of questions that the other lacks."""
    judged_alone = facts.is_judged & ~facts.is_ranked
    ranked_alone = facts.is_ranked & ~facts.is_listed
    n_judged, n_ranked = int(facts.is_judged.sum()), int(facts.is_ranked.sum())
    n_alone = int(judged_alone.sum()), int(ranked_alone.sum())
    is_little = n_alone[0] * _FEW_QUESTIONS < n_judged or n_alone[1] * _FEW_QUESTIONS < n_ranked
    if 0 in n_alone or is_little:
        return ""
    others = counted(n_alone[1], "ranking", "rankings")
    return (
        f"{n_judged - n_alone[0]:,} of {n_judged:,} judged questions have a ranking, beside "
        f"{others} of others: a judged question is {_first(sides, judged_alone)}, a ranked one "
        f"{_first(sides, ranked_alone)}. Question ids compare exactly: write them alike on both "
        "sides"
    )


def _first(sides: Sides, wanted: BoolArray) -> str:
    return shorten(sides.question(int(wanted.argmax())))


def _little_in_common(facts: Facts, sides: Sides) -> str:
    """Return a sentence where next to no label was retrieved."""
    n_possible = np.minimum(facts.n_retrieved, facts.n_gaining)
    n_labels, n_hits = int(n_possible.sum()), int(facts.n_found.sum())
    if not n_labels or n_hits * _FEW_PASSAGES > n_labels:
        return ""
    rows = np.flatnonzero((n_possible > 0) & (facts.n_found == 0)).tolist()
    _, row = min((shorten(sides.question(row)), row) for row in rows)
    labels, retrieved = sides.pair(row)
    label, item = shorten(next(iter(Relevance(labels)))), shorten(next(iter(retrieved)))
    return (
        f"{n_hits:,} of {n_labels:,} labels were retrieved for their questions: a label is "
        f"{label}, an id retrieved for its question {item}. Ids compare exactly: if both sides "
        "name the same passages, read the rankings by the ids of the labels, or match by text with "
        "match_run()"
    )


def _below(facts: Facts, min_grade: float) -> str:
    """Return a sentence on labels with a positive grade that don't count as relevant."""
    n = int(facts.n_below[min_grade][facts.is_scored].sum())
    if not n:
        return ""
    n_gaining = int(facts.n_gaining[facts.is_scored].sum())
    verb, pronoun = ("has", "it") if n == 1 else ("have", "them")
    return (
        f"{n:,} of {counted(n_gaining, 'label', 'labels')} with a positive grade {verb} one below "
        f"{min_grade:g}, and metrics with min_grade={min_grade:g} don't count {pronoun} as relevant"
    )


def other_notes(facts: Facts, deepest: int | None = None) -> list[str]:
    """Return the notes on grades and depths; `deepest` where rankings don't say it."""
    notes = [_below(facts, grade) for grade in sorted(facts.n_below) if grade > _USUAL_GRADE]
    n_negative = int(facts.n_negative.sum())
    if n_negative:
        notes.append(
            f"{n_negative:,} labels have a negative grade: pooled but not judged, without gain and "
            "not relevant"
        )
    notes += _short_rankings(facts)
    most = int(facts.depth.max(initial=0)) if deepest is None else deepest
    beyond = sorted(cutoff for cutoff in facts.cutoffs if cutoff > most)
    if most and beyond:
        notes.append(
            f"no question got more than {counted(most, 'passage', 'passages')}, so metrics at "
            f"{', '.join(map(str, beyond))} see no more; a similarity_top_k may be too small"
        )
    return [note for note in notes if note]


def _short_rankings(facts: Facts) -> list[str]:
    """Return what ndcg would be against all that is relevant, where rankings are shorter."""
    is_short = facts.is_scored & (facts.depth > 0) & (facts.depth < facts.n_gaining)
    n_short, n_scored = int(is_short.sum()), int(facts.is_scored.sum())
    if not n_short:
        return []
    notes = []
    for name, scores in facts.whole.items():
        other = f"{name[:-1]}, ideal=all)" if name.endswith(")") else f"{name}(ideal=all)"
        mean = float(np.sum(scores[facts.is_scored])) / n_scored
        notes.append(
            f"{n_short} of {n_scored} questions got fewer passages than are relevant, and {name} "
            "measures them against the best ranking of that length; "
            f"{other} has the mean {score(mean)}"
        )
    return notes


class Cut(NamedTuple):
    """What a threshold on the retriever's scores does to rankings; the cuts of several add up."""

    n_rising: int = 0  # how many more rankings have scores that rise with the rank than that fall
    n_before: int = 0  # how many rankings hold anything without it, and
    n_left: int = 0  # with it
    highest: float = -math.inf  # score of all

    @classmethod
    def of(cls, before: Ranking, left: Ranking) -> Cut:
        scores = [score for score in before.scores or () if score is not None]
        return cls(slope(scores), bool(before.ids), bool(left.ids), max(scores, default=-math.inf))

    def __add__(self, other: Any) -> Cut:
        return Cut(
            self.n_rising + other.n_rising,
            self.n_before + other.n_before,
            self.n_left + other.n_left,
            max(self.highest, other.highest),
        )

    @property
    def notes(self) -> list[str]:
        """Sentences where it leaves out the best, or next to everything."""
        notes = []
        if self.n_rising > 0:
            notes.append(
                "most scores rise with the rank, as distances do: min_score leaves out the best"
            )
        if self.n_before and self.n_left * _FEW_QUESTIONS <= self.n_before:
            notes.append(
                f"min_score leaves nothing of {self.n_before - self.n_left:,} of "
                f"{counted(self.n_before, 'ranking', 'rankings')}: the highest score of all is "
                f"{self.highest:g}"
            )
        return notes


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
    notes = []
    if 2 * n_rising > n_scored:
        notes.append(
            f"in {n_rising:,} of {counted(n_scored, 'ranking', 'rankings')} scores rise with the "
            "rank, as distances do: the order given counts, not the scores"
        )
    if 2 * n_equal > n_scored:
        notes.append(
            f"in {n_equal:,} of {counted(n_scored, 'ranking', 'rankings')} all scores are equal, "
            "and say nothing about the order"
        )
    return notes
