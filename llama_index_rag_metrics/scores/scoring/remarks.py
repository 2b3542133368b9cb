"""What a reader of scores should know of the queries that they are of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.gains import NDCG
from llama_index_rag_metrics.metrics.leaks import PermittedRecall
from llama_index_rag_metrics.rankings.judging.columns import Forbidden
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, slope
from llama_index_rag_metrics.report.numbers import counted, score
from llama_index_rag_metrics.runtime.arrays import BoolArray
from llama_index_rag_metrics.runtime.masking import shorten
from llama_index_rag_metrics.scores.mappings import Total

_FEW_QUESTIONS, _FEW_PASSAGES = 10, 100  # one in this many is next to nothing


@dataclass(frozen=True)
class Sides:
    """The question at a position, and its labels and retrieved ids, as they were given."""

    question: Callable[[int], object]
    pair: Callable[[int], tuple[Any, Any]]


@dataclass(frozen=True)
class Overlap(Total):
    """What labels and rankings have in common; the overlaps of batches add up."""

    n_judged: int = 0  # how many questions have labels
    n_ranked: int = 0  # how many questions something was retrieved for
    n_both: int = 0  # how many are both
    n_possible: int = 0  # how many labels the rankings of their questions have room for
    n_shared: int = 0  # how many of them were retrieved
    judged: str = ""  # a judged question without a ranking, or ""
    ranked: str = ""  # a question with a ranking and without labels, or ""
    example: tuple[str, ...] = ()  # a question, a label and a retrieved id, where these differ

    @classmethod
    def of(
        cls,
        judged: JudgedRankings,
        is_judged: BoolArray,
        is_failed: BoolArray,
        sides: Sides,
        *,
        by_id: bool,
    ) -> Overlap:
        """The overlap of a batch; `by_id` says whether ids of passages are compared."""
        is_ranked = (judged.depth > 0) | is_failed
        possible = np.minimum(judged.depth, judged.n_gaining) * by_id
        n_possible, n_shared = int(possible.sum()), len(judged.item_query) * by_id
        example: tuple[str, ...] = ()
        if n_possible and _is_little(n_shared, n_possible, _FEW_PASSAGES):
            possible[judged.item_query] = 0
            rows = np.flatnonzero(possible).tolist()
            question, row = min((shorten(sides.question(row)), row) for row in rows)
            judgements, retrieved = sides.pair(row)
            label = next(iter(Relevance.of(judgements)))
            example = question, shorten(label), shorten(next(iter(retrieved)))
        return cls(
            int(is_judged.sum()),
            int(is_ranked.sum()),
            int((is_judged & is_ranked).sum()),
            n_possible,
            n_shared,
            _example(sides, is_judged & ~is_ranked),
            _example(sides, is_ranked & ~is_judged),
            example,
        )

    @property
    def note(self) -> str | None:
        """A sentence where the sides have next to nothing in common."""
        n = min(self.n_judged, self.n_ranked)
        if self.judged and self.ranked and _is_little(self.n_both, n, _FEW_QUESTIONS):
            others = counted(self.n_ranked - self.n_both, "ranking", "rankings")
            return (
                f"{self.n_both} of {self.n_judged:,} judged questions have a ranking, beside "
                f"{others} of others: a judged question is {self.judged}, a ranked one "
                f"{self.ranked}. Question ids compare exactly: write them alike on both sides"
            )
        if self.example and _is_little(self.n_shared, self.n_possible, _FEW_PASSAGES):
            _, label, retrieved = self.example
            return (
                f"{self.n_shared:,} of {self.n_possible:,} labels were retrieved for their "
                f"questions: a label is {label}, an id retrieved for its question {retrieved}. Ids "
                "compare exactly: if both sides name the same passages, read the rankings by the "
                "ids of the labels, or match by text with match_run()"
            )
        return None


def _is_little(n: int, of: int, share: int) -> bool:
    return n * share <= of


def _example(sides: Sides, wanted: BoolArray) -> str:
    return shorten(sides.question(int(wanted.argmax()))) if wanted.any() else ""


@dataclass(frozen=True)
class Cut(Total):
    """What a threshold on the retriever's scores does to rankings; the cuts of batches add up.

    Attributes:
        n_rising: how many more rankings have scores that rise with the rank than scores that fall.
        n_before: how many rankings hold anything without it, and
        n_left: with it.
        highest: score of all.
    """

    n_rising: int = 0
    n_before: int = 0
    n_left: int = 0
    highest: float = -math.inf

    @classmethod
    def of(cls, before: Ranking, left: Ranking) -> Cut:
        scores = [score for score in before.scores or () if score is not None]
        return cls(slope(scores), bool(before.ids), bool(left.ids), max(scores, default=-math.inf))

    def __add__(self, other: Cut) -> Cut:
        return replace(super().__add__(other), highest=max(self.highest, other.highest))

    @property
    def notes(self) -> list[str]:
        """Sentences where it leaves out the best, or next to everything."""
        notes = []
        if self.n_rising > 0:
            notes.append(
                "most scores rise with the rank, as distances do: min_score leaves out the best"
            )
        if self.n_before and _is_little(self.n_left, self.n_before, _FEW_QUESTIONS):
            notes.append(
                f"min_score leaves nothing of {self.n_before - self.n_left:,} of "
                f"{counted(self.n_before, 'ranking', 'rankings')}: the highest score of all is "
                f"{self.highest:g}"
            )
        return notes


@dataclass(frozen=True)
class Remarks(Total):
    """What a reader of scores should know of their queries; those of batches add up."""

    n_scored: int = 0
    deepest: int = 0  # the length of the longest ranking
    cutoffs: frozenset[int] = frozenset()  # of the metrics
    below: Mapping[float, int] = field(default_factory=dict)  # min_grade to queries below it
    n_negative: int = 0  # how many judgements have a negative grade
    n_short: int = 0  # how many scored queries retrieved something, and less than is relevant
    whole: Mapping[str, float] = field(default_factory=dict)  # ndcg to its sum with ideal=all
    overlap: Overlap = field(default_factory=Overlap)
    # metric to queries without a value, since nothing relevant is permitted
    nothing_permitted: Mapping[str, int] = field(default_factory=dict)
    n_unknown: Mapping[str, int] = field(default_factory=dict)  # metric to passages nobody knows of
    unknown: str = ""  # the id of one
    cut: Cut = field(default_factory=Cut)

    @classmethod
    def of(
        cls,
        judged: JudgedRankings,
        metrics: Sequence[RankingMetric],
        scored: BoolArray,
        overlap: Overlap,
    ) -> Remarks:
        grades = {getattr(metric, "min_grade", 0.0) for metric in metrics} - {0.0}
        gaining = scored & (judged.n_gaining > 0)
        short = scored & (judged.depth > 0) & (judged.depth < judged.n_gaining)
        forbidden = judged.column(Forbidden)
        return cls(
            n_scored=int(scored.sum()),
            deepest=int(judged.depth.max(initial=0)),
            cutoffs=frozenset(k for metric in metrics if (k := getattr(metric, "k", None))),
            below={
                grade: int((gaining & (judged.count_judgements(grade) == 0)).sum())
                for grade in grades
            },
            n_negative=int((judged.judged_grade < 0).sum()),
            n_short=int(short.sum()),
            whole={
                metric.metric_name: float(np.sum(ideal.score_queries(judged)[scored]))
                for metric in metrics
                if isinstance(metric, NDCG) and metric.k is None and metric.ideal == "retrieved"
                for ideal in [metric.model_copy(update={"ideal": "all"})]
            },
            overlap=overlap,
            nothing_permitted={
                metric.metric_name: int((scored & ~metric.has_value(judged)).sum())
                for metric in metrics
                if isinstance(metric, PermittedRecall) and forbidden is not None
            },
            n_unknown={
                metric.metric_name: forbidden.n_unknown
                for metric in metrics
                if "forbidden" in metric.needs and forbidden is not None and forbidden.unknown
            },
            unknown="" if forbidden is None else forbidden.unknown,
        )

    def __add__(self, other: Remarks) -> Remarks:
        return replace(super().__add__(other), deepest=max(self.deepest, other.deepest))

    def state(self) -> dict[str, Any]:
        below = sorted(self.below.items())
        return {**asdict(self), "cutoffs": sorted(self.cutoffs), "below": below}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Remarks:
        cutoffs, below = frozenset(state["cutoffs"]), dict(map(tuple, state["below"]))
        overlap = Overlap(**{**state["overlap"], "example": tuple(state["overlap"]["example"])})
        parts = {"overlap": overlap, "cut": Cut(**state["cut"])}
        return cls(**{**state, "cutoffs": cutoffs, "below": below, **parts})

    def label_notes(self) -> list[str]:
        """Notes that a reader of a single table should have, too."""
        notes = [] if self.overlap.note is None else [self.overlap.note]
        notes += self.cut.notes
        if self.n_unknown:
            n_unknown = max(self.n_unknown.values())
            passages = counted(n_unknown, "retrieved passage is", "retrieved passages are")
            notes.append(
                f"{', '.join(self.n_unknown)}: {passages} unknown, such as {self.unknown!r}, and "
                "not counted as forbidden: neither the passage nor its document in the dataset has "
                "the metadata key"
            )
        return notes

    def notes(self) -> list[str]:
        notes = self.label_notes()
        notes += [
            f"{n} of {self.n_scored} questions have positive grades but none of at least "
            f"{min_grade:g}: metrics with min_grade={min_grade:g} score them 0"
            for min_grade, n in sorted(self.below.items())
            if n
        ]
        if self.n_negative:
            notes.append(
                f"{self.n_negative:,} labels have a negative grade: pooled but not judged, "
                "without gain and not relevant"
            )
        if self.n_short:
            notes += [
                f"{self.n_short} of {self.n_scored} questions got fewer passages than are "
                f"relevant, and {name} measures them against the best ranking of that length; "
                f"{name[:-1] + ', ' if name.endswith(')') else name + '('}ideal=all) has the mean "
                f"{score(total / self.n_scored)}"
                for name, total in self.whole.items()
            ]
        notes += [
            f"{name}: no value for {n:,} of {self.n_scored:,} questions, since nothing that is "
            "relevant to them is permitted"
            for name, n in self.nothing_permitted.items()
            if n
        ]
        beyond = sorted(k for k in self.cutoffs if k > self.deepest)
        if self.deepest and beyond:
            notes.append(
                f"no ranking has more than {counted(self.deepest, 'passage', 'passages')}, so "
                f"metrics at {', '.join(map(str, beyond))} see no more: no more were asked for, as "
                "by a retriever's similarity_top_k, or none are there"
            )
        return notes
