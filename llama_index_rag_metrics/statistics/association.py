"""How well scores of questions predict another score of them, and how sure that is.

Of two-valued answers the area under the ROC curve: how often the better one of two questions with
different answers has the higher score, ties counted half (Mann and Whitney 1947); of graded ones
Kendall's tau-b (1945). Each comes with its pulls, how far every question moves it to first order:
DeLong, DeLong and Clarke-Pearson's (1988) placements, and the like for tau-b. A value plus its
pulls is a column of scores whose mean is the value, so that clusters and shared flips of signs work
on these as on scores of questions.

Among clusters of different sizes each pulls as leaving it out moves a mean (the jackknife), and as
many of one size as say the same have the degrees of freedom. The levels of several columns go by
the means of clusters, so that a large one doesn't make columns look alike.

Few questions say little about how far others may go. So four are imagined, with the highest and the
lowest score seen and the best and the worst answer, in every combination. The interval is Student's
about the value with these, and always holds the value without them. Of 0/1 scores it is Agresti and
Caffo's (2000) of two proportions. Where two scores are compared, they disagree on all four, which
count half each, as in Agresti and Min's (2005). How often these intervals cover stands in
benchmarks/README.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray, ratio
from llama_index_rag_metrics.statistics.corrections import level_of_largest
from llama_index_rag_metrics.statistics.intervals import RESAMPLES, SEED
from llama_index_rag_metrics.statistics.resampling import Units, flipped_sums

Measure: TypeAlias = Literal["auc", "tau_b"]
FEWEST = 5  # of so many questions, or clusters, the answers must differ from the commonest one


class Association(NamedTuple):
    """A value, NaN where there is none, and (questions,) pulls, whose mean is 0."""

    value: float
    pulls: FloatArray


def auc(scores: FloatArray, is_good: BoolArray) -> Association:
    """The area under the ROC curve of (questions,) scores; 0.5 where they tell nothing.

    >>> auc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False])).value
    0.875
    """
    n, n_good = len(scores), int(is_good.sum())
    if not 0 < n_good < n:
        return Association(math.nan, np.zeros(n))
    placements = (1 + concordance(scores, is_good) / np.where(is_good, n - n_good, n_good)) / 2
    value = float(placements[is_good].mean())
    pulls = (placements - value) * n / np.where(is_good, n_good, n - n_good)
    return Association(value, pulls)


def tau_b(scores: FloatArray, answers: FloatArray) -> Association:
    """Kendall's tau-b of (questions,) scores and answers, -1 to 1.

    >>> round(tau_b(np.array([1, 2, 2, 3]), np.array([1, 3, 2, 4])).value, 4)
    0.9129
    """
    n = len(scores)
    signs = concordance(scores, answers)
    apart = []  # from how many others each is told, by either
    for column in (scores, answers):
        _, position, counts = np.unique(column, return_inverse=True, return_counts=True)
        apart.append(n - counts[position])
    both, one, other = signs.mean(), *(each.mean() for each in apart)
    if not one or not other:
        return Association(math.nan, np.zeros(n))
    value = float(both / math.sqrt(one * other))
    # as often as each of both is apart, half of tau goes with it
    pulls = 2 * (signs - both) / math.sqrt(one * other)
    pulls -= value * ((apart[0] - one) / one + (apart[1] - other) / other)
    return Association(value, pulls)


def concordance(scores: FloatArray, answers: FloatArray | BoolArray) -> FloatArray:
    """(questions,) with how many others each is in the same order by both, less in the opposite.

    >>> concordance(np.array([1, 2, 2, 3]), np.array([1, 3, 2, 4])).tolist()
    [3.0, 2.0, 2.0, 3.0]
    """
    ranks = [np.unique(column, return_inverse=True)[1] for column in (scores, answers)]
    few, many = sorted(ranks, key=lambda rank: int(rank.max()))
    net = np.zeros(len(few))
    # two ranks that differ do so in one highest bit: there the pair is counted
    for bit in range(int(few.max()).bit_length()):
        group, is_upper = few >> (bit + 1), (few >> bit & 1) == 1
        cell = np.unique(group * (many.max() + 1) + many, return_inverse=True)[1]
        for sign, here in ((1, is_upper), (-1, ~is_upper)):
            in_cell, in_group = (np.bincount(each, weights=~here) for each in (cell, group))
            below = np.cumsum(in_cell) - in_cell / 2
            middle = np.cumsum(in_group) - in_group / 2
            net += np.where(here, sign * 2 * (below[cell] - middle[group]), 0.0)
    return net


MEASURES: Mapping[Measure, Callable[[FloatArray, FloatArray], Association]] = {
    "auc": lambda scores, answers: auc(scores, answers > answers.min()),
    "tau_b": tau_b,
}


class Associations(NamedTuple):
    """(columns,) values of several scores of the same questions, with their intervals.

    The intervals of values hold together. `leads` are how much higher the highest value is; where
    it is shown to be the highest (`is_highest`) their intervals hold each alone, otherwise together
    with those of all pairs. Values of scores that don't vary are NaN, and so are ends where there
    is no interval.
    """

    values: FloatArray
    low: FloatArray
    high: FloatArray
    leads: FloatArray
    leads_low: FloatArray
    leads_high: FloatArray
    is_highest: bool


def associations(
    scores: FloatArray,
    answers: FloatArray,
    measure: Measure,
    *,
    clusters: IntArray | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Associations:
    """How well each of (questions, columns) scores predicts (questions,) answers.

    Which value is the highest is named in at most 1 - confidence of cases where another one truly
    is: each of its leads has the whole level, since only one of several can lead all others
    (Gutmann and Maymin 1987).
    """
    from scipy.special import stdtrit

    values, pulls = _measured(scores, answers, measure)
    values[np.ptp(scores, axis=0) == 0] = np.nan
    none = np.full(len(values), np.nan)
    n_informative = int(Units.of(answers.reshape(-1, 1), clusters).informative[0])
    if np.isnan(values).all() or n_informative < FEWEST:
        return Associations(values, none, none, none, none, none, is_highest=False)
    weights, n_effective = _of_clusters(clusters, len(answers))
    units, alpha = Units.of(pulls * weights, clusters), 1 - confidence
    of_value, of_pair = _levels(units, alpha, resamples, seed)
    df = min(n_effective - 1, 2 * (n_informative + 1))
    top, bottom, best, worst = scores.max(0), scores.min(0), answers.max(), answers.min()
    imagined = np.append(answers, [best, best, worst, worst])
    centres, pulls = _measured(np.vstack([scores, top, bottom, top, bottom]), imagined, measure)
    pulls[:-4] *= weights
    if clusters is not None:
        clusters = np.append(clusters, clusters.max() + 1 + np.arange(4))

    def ends(
        values: FloatArray, centres: FloatArray, pulls: FloatArray, level: float
    ) -> tuple[FloatArray, FloatArray]:
        reach = stdtrit(df, 1 - level / 2) * Units.of(pulls, clusters).standard_errors
        return np.minimum(centres - reach, values), np.maximum(centres + reach, values)

    limits = (0.0 if measure == "auc" else -1.0), 1.0
    low, high = (np.clip(end, *limits) for end in ends(values, centres, pulls, of_value))
    first = int(np.nanargmax(values))
    leads, opposite = values[first] - values, pulls.copy()
    opposite[-4:] = pulls[[-3, -4, -1, -2]]
    apart = pulls[:, [first]] - opposite
    apart[-4:] *= math.sqrt(0.5)
    others = ~np.isnan(values) & (np.arange(len(values)) != first)
    found = leads, centres[first] - centres, apart
    is_highest = bool((ends(*found, alpha)[0][others] > 0).all())
    beside = ends(*found, alpha if is_highest else of_pair)
    leads_low, leads_high = (np.clip(end, limits[0] - 1, 1 - limits[0]) for end in beside)
    return Associations(values, low, high, leads, leads_low, leads_high, is_highest)


def _of_clusters(clusters: IntArray | None, n: int) -> tuple[FloatArray, float]:
    """(questions, 1) how much more leaving out a cluster moves a value than its pulls say.

    And how many clusters of one size say as much (Carter, Schnepel and Steigerwald 2017), if what
    questions of a cluster say is the same. All questions without clusters, and 1 each where all
    clusters are of one size.
    """
    if clusters is None:
        return np.ones((n, 1)), float(n)
    sizes = np.bincount(clusters)
    weights = (1 - 1 / len(sizes)) / (1 - sizes / n)
    squares = np.square(sizes.astype(np.float64))
    return weights[clusters, np.newaxis], float(squares.sum() ** 2 / np.square(squares).sum())


def _measured(
    scores: FloatArray, answers: FloatArray, measure: Measure
) -> tuple[FloatArray, FloatArray]:
    """(columns,) values of (questions, columns) scores, and their pulls, of the same shape."""
    found = [MEASURES[measure](column, answers) for column in scores.T]
    return np.array([each.value for each in found]), np.stack([each.pulls for each in found], 1)


def _levels(units: Units, alpha: float, resamples: int, seed: int) -> tuple[float, float]:
    """The levels at which the intervals of all columns hold together, and those of all pairs."""
    sums, n_columns = units.own_means, units.sums.shape[1]
    if n_columns < 2:
        return alpha, alpha
    flipped = np.concatenate([*flipped_sums(replace(units, sums=sums), resamples, seed)])

    def level(families: Iterable[tuple[FloatArray, FloatArray]], columns: int) -> float:
        largest = np.zeros(len(flipped))
        for drawn, seen in families:
            norm = math.sqrt(np.square(seen).sum())
            np.maximum(largest, ratio(np.abs(drawn), norm), out=largest)
        return level_of_largest(largest, len(units), alpha, columns=columns)

    pairs = [*combinations(range(n_columns), 2)]
    of_pairs = ((flipped[:, i] - flipped[:, j], sums[:, i] - sums[:, j]) for i, j in pairs)
    return level(zip(flipped.T, sums.T, strict=True), n_columns), level(of_pairs, len(pairs))
