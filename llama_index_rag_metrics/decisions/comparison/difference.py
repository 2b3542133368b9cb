"""Difference: one system beside the baseline on one metric, with its verdict as a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.report.numbers import (
    decimals_of,
    ends,
    percent,
    questions,
    rounded_up,
    score,
    signed,
)
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.runtime.errors import check_amount
from llama_index_rag_metrics.statistics.differences import difference_intervals
from llama_index_rag_metrics.statistics.intervals import (
    UNIT_RANGE,
    alpha_of,
    exact_mean,
    excludes_0,
)
from llama_index_rag_metrics.statistics.resampling import joint_levels
from llama_index_rag_metrics.statistics.sample_size import detectable_differences

from .pairing import Paired

Outcome: TypeAlias = Literal["better", "worse", "alike", "can't tell"]

_MARGIN = 0.02

VERDICTS = {
    "nothing": "Nothing can be said about {system} and {baseline} on {metric}: {reason}.",
    "the same": "{system} and {baseline} score the same on {metric}, on all {questions}.",
    "differs": (
        "{system} is {outcome} than {baseline} on {metric}: {difference} ({interval} with "
        "{confidence} confidence, {questions})."
    ),
    "alike": (
        "{system} and {baseline} differ by less than {bound} on {metric} (with {confidence} "
        "confidence, {questions})."
    ),
    "few changed": (
        "{system} may be {worse} worse or {better} better than {baseline} on {metric}. Only "
        "{changed} of {questions} changed: too few to tell."
    ),
    "can't tell": (
        "{system} may be {worse} worse or {better} better than {baseline} on {metric}: "
        "{questions} can't tell."
    ),
}


def margin_of(metric: str, margin: float | None, argument: str) -> float:
    """Return a difference too small to matter: 0.02 unless given; 0 for metrics beyond 0 to 1."""
    if margin is None:
        return _MARGIN if limits_of(metric) == UNIT_RANGE else 0.0
    expected = "a difference too small to matter, such as 0.02; 0 for none"
    check_amount(argument, margin, expected, lambda number: 0 <= number < math.inf)
    return margin


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Sentence):
    """How a system differs from the baseline on one metric, over `n` questions scored for both.

    `difference` is the mean of system minus baseline. Its interval, from `low` to `high`, holds
    together with those of other systems; both are None where `note` says why there is none. On
    `wins` questions the system is better. `detectable` is the smallest true difference that these
    questions would detect 80 % of the time, None where too few changed.
    """

    system: str
    baseline: str
    metric: str
    n: int
    baseline_mean: float
    mean: float
    difference: float
    low: float | None
    high: float | None
    wins: int
    ties: int
    losses: int
    detectable: float | None
    margin: float
    confidence: float
    note: str = ""

    @property
    def outcome(self) -> Outcome:
        """What the interval shows: a difference if it leaves out 0, else alike within ± margin."""
        if excludes_0(self):
            return "better" if self.gain > 0 else "worse"
        if self._at_most <= self.margin:
            return "alike"
        return "can't tell"

    @property
    def gain(self) -> float:
        """The difference, above 0 where the system is better."""
        return -self.difference if lower_is_better(self.metric) else self.difference

    @property
    def changed(self) -> int:
        """On how many questions the scores differ."""
        return self.wins + self.losses

    @property
    def _at_most(self) -> float:
        if self.low is None or self.high is None:
            return math.inf
        return max(-self.low, self.high)

    @property
    def verdict(self) -> str:
        """The outcome as a sentence, with its numbers."""
        fields = {"system": self.system, "baseline": self.baseline, "metric": self.metric}
        fields |= {"questions": questions(self.n), "reason": self.note.split(":")[0]}
        if self.low is None or self.high is None:
            return VERDICTS["nothing"].format(**fields)
        decimals = decimals_of(self.low, self.high)
        worse, better = -self.low, self.high
        if lower_is_better(self.metric):
            worse, better = better, worse
        return VERDICTS[self._sentence].format(
            **fields,
            outcome=self.outcome,
            changed=self.changed,
            confidence=percent(self.confidence),
            difference=signed(self.difference, 0.0, decimals),
            interval=ends(self.low, self.high),
            bound=rounded_up(self._at_most, decimals_of(-self._at_most, self._at_most)),
            worse=score(worse, 0.0, decimals),
            better=score(better, 0.0, decimals),
        )

    @property
    def _sentence(self) -> str:
        if not self.changed:
            return "the same"
        if self.outcome in {"better", "worse"}:
            return "differs"
        # so few that all in one direction would still be chance
        is_chance = 2.0 ** (1 - self.changed) > alpha_of(self.confidence)
        if self.outcome == "can't tell" and is_chance:
            return "few changed"
        return self.outcome

    def __str__(self) -> str:
        return self.verdict


def differences_of(
    paired: Paired, baseline: str, confidence: float, margin: float | None
) -> Iterator[Difference]:
    """Yield the differences of all others from the baseline, by system, then metric.

    The intervals on the first metric hold together over systems, and those on all other metrics
    among themselves.
    """
    names = [name for name in paired.systems if name != baseline]
    keys = list(product(names, paired.columns, [baseline]))
    units = paired.units(keys)
    widest = np.array([paired.widest(*key) for key in keys])
    confidences, possible = np.ones(len(keys)), np.ones((len(keys), 2))
    detectable = np.full(len(keys), None)
    is_primary = np.arange(len(keys)) % len(paired.columns) == 0
    families = [np.flatnonzero(part) for part in (is_primary, ~is_primary) if part.any()]
    levels = joint_levels(units, families, alpha=alpha_of(confidence))
    for family, level in zip(families, levels, strict=True):
        confidences[family] = 1 - level
        possible[family] = paired.possible([keys[row] for row in family.tolist()], 1 - level)
        columns = units.columns(family)
        detectable[family] = detectable_differences(columns, widest[family], alpha=level)
    intervals = difference_intervals(
        units, widest=widest, confidence=confidences, possible=possible
    )
    for (system, metric, _), interval, smallest in zip(keys, intervals, detectable, strict=True):
        values = paired.values(system, metric, baseline)
        is_scored = ~np.isnan(values)
        rises, falls = int((values > 0).sum()), int((values < 0).sum())
        wins, losses = rises, falls
        if lower_is_better(metric):
            wins, losses = falls, rises
        yield Difference(
            system=system,
            baseline=baseline,
            metric=metric,
            n=interval.n,
            baseline_mean=exact_mean(paired.values(baseline, metric)[is_scored]),
            mean=exact_mean(paired.values(system, metric)[is_scored]),
            difference=interval.mean,
            low=interval.low,
            high=interval.high,
            wins=wins,
            ties=interval.n - wins - losses,
            losses=losses,
            detectable=smallest,
            margin=margin_of(metric, margin, "margin"),
            confidence=confidence,
            note=interval.note,
        )
