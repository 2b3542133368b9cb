"""How far two judges agree beyond chance, Cohen's kappa, and where they don't.

κ = (o - e) / (1 - e), of the observed agreement and that of the same scores in any pairing (Cohen
1960); disagreements count alike, or by their distance (Cohen 1968). The interval is Wilson's of o
with as many queries as the error of κ allows: without weights that of o, with them that of
o_i + (1 - κ) (2e - e_i), κ's to first order, to which one imagined disagreement of half the width
is added; e_i is how well pair i agrees with any other.
"""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from llama_index_rag_metrics.files.read_runs import read_qrels
from llama_index_rag_metrics.files.records import format_grade
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import counted, mean_of, shown
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray, ratio
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import (
    check_confidence,
    mean_interval,
    units_of,
    wilson_ends,
)
from llama_index_rag_metrics.statistics.resampling import NOISE, Units

JudgementsLike: TypeAlias = "Mapping[str, RelevanceLike] | str | os.PathLike[str]"
# a disagreement counts by its distance
Weights: TypeAlias = Literal["linear"]

_EXPLAINED = (
    "Kappa is the agreement beyond chance: 1 if they always agree, 0 if as often as by chance."
)
_MOST_SHOWN, _MOST_ON_PAGE = 5, 200


class Disagreement(NamedTuple):
    """A passage that two judges grade differently."""

    query_id: str
    doc_id: str
    first: float
    second: float

    def __str__(self) -> str:
        return f"{self.doc_id}: {format_grade(self.first)} and {format_grade(self.second)}"


@dataclass(frozen=True, repr=False)
class Agreement(Reportable):
    """How far two judges agree: Cohen's kappa, and the passages on which they don't.

    Attributes:
        kappa: 1 if they always agree, 0 if as often as by chance; NaN if all grades are the same.
        low: the lower end of its interval, or None where none can be given.
        high: the upper end.
        n: how many passages both judged.
        disagreements: query_id, doc_id, first and second of the passages that they grade
            differently.
    """

    kappa: float
    low: float | None
    high: float | None
    n: int
    disagreements: Sequence[Disagreement] = ()

    def report(self, *, full: bool = False) -> m.Report:
        """Kappa with its interval, and the passages on which the two differ."""
        passages = counted(self.n, "passage", "passages")
        sentence = "Kappa has no value: all grades are the same."
        if not math.isnan(self.kappa):
            kappa = mean_of(m.Cell(self.kappa, "score", low=self.low, high=self.high), self.n)
            sentence = f"Kappa {shown(kappa)} on {passages}. {_EXPLAINED}"
        remarks = [(pair.query_id, "", [str(pair)]) for pair in self.disagreements]
        n_listed = _MOST_ON_PAGE if full else _MOST_SHOWN
        return m.Report(
            title="Agreement",
            lead=f"{len(remarks):,} of {passages} graded differently",
            decision=[m.Statement(sentence)],
            listings=[m.Listing.of("Graded differently", remarks, n_listed)],
            records=m.Records.of_fields(self.disagreements, Disagreement._fields),
        )


def agreement(
    first: JudgementsLike,
    second: JudgementsLike,
    *,
    weights: Weights | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Cohen's kappa of two judges over the passages that both graded, and where they differ.

    Args:
        first: query id to relevance, such as of `LLMRelevancy.grade`, or a file that the review
            page exported; negative grades mean unjudged.
        second: the same by somebody else.
        weights: "linear": a disagreement counts by its distance in grades; None: all count alike.
        confidence: of the interval, in which the passages of a question belong together.

    Raises:
        FileFormatError: a line of a file can't be read; says where and why.
        InvalidInput: they have no passage in common, or an argument can't be used.

    Examples:
        >>> agreed = agreement({"q": {"a": 3, "b": 0}}, {"q": {"a": 3, "b": 1}})
        >>> [(pair.doc_id, pair.first, pair.second) for pair in agreed.disagreements], agreed.n
        ([('b', 0.0, 1.0)], 2)
    """
    check_confidence(confidence)
    if weights not in (None, "linear"):
        raise InvalidInput("weights", weights, "'linear' or None")
    pairs = []
    labels = read_qrels(second)
    for query_id, relevance in read_qrels(first).items():
        second_grades = labels[query_id].grades if query_id in labels else {}
        for item, grade in relevance.grades.items():
            second_grade = second_grades.get(item, -1)
            if grade >= 0 and second_grade >= 0:
                pairs.append(Disagreement(query_id, item, grade, second_grade))
    if not pairs:
        expected = "grades of some of the questions and passages that the first judged"
        remedy = "Look whether both use the same ids."
        raise InvalidInput("second", "none of them", expected, remedy)
    grades = np.array([(pair.first, pair.second) for pair in pairs], np.float64)
    query_ids = [pair.query_id for pair in pairs]
    kappa = cohens_kappa(*grades.T, weights=weights, confidence=confidence, clusters=query_ids)
    disagreements = tuple(pair for pair in pairs if pair.first != pair.second)
    return replace(kappa, disagreements=disagreements)


def cohens_kappa(
    first: FloatArray,
    second: FloatArray,
    *,
    weights: Weights | None = None,
    confidence: float = 0.95,
    clusters: Sequence[Hashable] | IntArray | None = None,
) -> Agreement:
    """Cohen's kappa of (n,) paired scores; `clusters` are what pairs belong to, such as queries."""
    n, scores = len(first), np.concatenate([first, second])
    span = float(np.ptp(scores)) if n else 0.0
    if span <= NOISE:
        return Agreement(math.nan, None, None, n)
    # (values,) the distinct scores; (n,) which ones each side gave, and (values,) how often
    values, numbers = np.unique(np.round(scores, 12), return_inverse=True)
    theirs = numbers[:n], numbers[n:]
    shares = [np.bincount(part, minlength=len(values)) / n for part in theirs]
    if weights is None:
        agreed = (np.abs(first - second) <= NOISE).astype(np.float64)
        # (2, n) the agreement of each score with any of the other side
        by_chance = np.stack([shares[1][theirs[0]], shares[0][theirs[1]]])
    else:
        agreed = 1 - np.abs(first - second) / span
        distances = [_distances(values, shares[1])[theirs[0]]]
        distances.append(_distances(values, shares[0])[theirs[1]])
        by_chance = 1 - np.stack(distances) / span
    observed = mean_interval(agreed, confidence=confidence, clusters=clusters)
    chance, low, high = float(by_chance.mean()), observed.low, observed.high
    kappa = (observed.mean - chance) / (1 - chance)
    if low is not None and ((agreed > 0) & (agreed < 1)).any():
        pulls = agreed + (1 - kappa) * (2 * chance - by_chance.sum(axis=0))
        low, high = _weighted_ends(units_of(pulls.reshape(-1, 1), clusters), confidence)
    if low is None or high is None:
        return Agreement(kappa, None, None, n)
    low, high = ((end - chance) / (1 - chance) for end in (low, high))
    return Agreement(kappa, max(-1.0, low), max(-1.0, high), n)


def _weighted_ends(units: Units, confidence: float) -> tuple[float, float]:
    """Wilson's of a mean between 0 and 1, with one imagined disagreement of a half."""
    n, share = float(units.n_even[0]), units.means
    squares = np.square(n * units.influence).sum(axis=0) + 0.5**2
    of_hits = share * (1 - share)
    effective = np.maximum(ratio(of_hits, squares / (n * (n + 1)) + of_hits / n**2), n)
    limits = np.zeros(1), np.ones(1)
    low, high = wilson_ends(share, limits, effective, units.n_even, confidence)
    return float(low[0]), float(high[0])


def _distances(values: FloatArray, shares: FloatArray) -> FloatArray:
    """(values,) the mean distance of each from one drawn with these shares."""
    rising = values - values[0]
    up_to, below = np.cumsum(shares), np.cumsum(rising * shares)
    return np.asarray(rising * (2 * up_to - 1) + below[-1] - 2 * below, np.float64)
