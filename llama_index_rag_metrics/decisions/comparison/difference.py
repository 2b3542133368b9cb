"""Difference: a system beside the baseline on one metric; and what the differences say to do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.report import numbers
from llama_index_rag_metrics.report.model import Cell, Statement, Tone
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.runtime.errors import check_amount
from llama_index_rag_metrics.statistics.differences import (
    FEWEST_CHANGED,
    Changes,
    detectable_differences,
    difference_intervals,
    to_be_better,
)
from llama_index_rag_metrics.statistics.intervals import UNIT_RANGE, alpha_of, exact_mean
from llama_index_rag_metrics.statistics.resampling import joint_levels

from .pairing import Key, Paired

Outcome: TypeAlias = Literal["better", "worse", "alike", "can't tell"]

TALLY = "better / same / worse"
_MARGIN = 0.02
_TONES: Mapping[str, Tone] = {"better": "best", "worse": "alarm", "can't tell": "open"}
_NOTHING = "Nothing can be said about {system} and {baseline} on {metric}: {reason}."
_DIFFERS = (
    "{system} is {outcome} than {baseline} on {metric}: {difference} ({interval} with {confidence} "
    "confidence, {questions})."
)
_VERDICTS = {
    "better": _DIFFERS,
    "worse": _DIFFERS,
    "the same": "{system} and {baseline} score the same on {metric}, on all {questions}.",
    "alike": (
        "{system} and {baseline} differ by less than {bound} on {metric} (with {confidence} "
        "confidence, {questions})."
    ),
    "can't tell": (
        "{system} may be {worse} worse or {better} better than {baseline} on {metric}: "
        "{questions} can't tell."
    ),
}
_TOO_FEW = (
    "Not enough questions to choose: with about {needed} like these, a difference of {margin} "
    "would be detected 80 % of the time; until then {meanwhile}."
)
_UNKNOWN = "Not enough questions to choose: until there are more, {meanwhile}."
_KEEP = "No system is better than {baseline} on {metric}: keep {baseline}."


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
        if self.low is None or self.high is None:
            return "can't tell"
        if self.low > 0 or self.high < 0:
            return "better" if self.gain > 0 else "worse"
        if max(-self.low, self.high) > self.margin:
            return "can't tell"
        return "alike"

    @property
    def gain(self) -> float:
        """The difference, above 0 where the system is better."""
        return -self.difference if lower_is_better(self.metric) else self.difference

    @property
    def changed(self) -> int:
        return self.wins + self.losses

    @property
    def statement(self) -> Statement:
        label = self.outcome if self.changed or not self.n else "same"
        return Statement(self.verdict, _TONES.get(label, "normal"), label)

    @property
    def cells(self) -> list[Cell]:
        tone, digits = self.statement.tone, numbers.digits_for(self.n, self.low, self.high)
        difference = Cell(self.difference, "signed", tone, self.low, self.high, digits=digits)
        return [difference, Cell((self.wins, self.ties, self.losses) if self.n else None, "tally")]

    @property
    def verdict(self) -> str:
        """The outcome as a sentence, with its numbers."""
        fields = {"system": self.system, "baseline": self.baseline, "metric": self.metric}
        if self.low is None or self.high is None:
            return _NOTHING.format(**fields, reason=self.note.split(":")[0])
        decimals, bound = numbers.decimals_of(self.low, self.high), max(-self.low, self.high)
        worse, better = -self.low, self.high
        if lower_is_better(self.metric):
            worse, better = better, worse
        return _VERDICTS[self.outcome if self.changed else "the same"].format(
            **fields,
            questions=numbers.questions(self.n),
            outcome=self.outcome,
            confidence=numbers.percent(self.confidence),
            difference=numbers.signed(self.difference, 0.0, decimals),
            interval=numbers.ends(self.low, self.high),
            bound=numbers.rounded_up(bound, numbers.decimals_of(-bound, bound)),
            worse=numbers.score(worse, 0.0, decimals),
            better=numbers.score(better, 0.0, decimals),
        )

    def __str__(self) -> str:
        return self.verdict


def differences_of(
    paired: Paired, keys: Sequence[Key], confidence: float, margin: float | None = None
) -> Iterator[Difference]:
    """Yield differences; intervals on the first metric hold together, and those on all others."""
    units, widest = paired.units(keys), paired.widest(keys)
    confidences, limits = np.ones(len(keys)), np.ones((len(keys), 2))
    detectable = np.full(len(keys), None)
    _, primary, _ = keys[0]
    is_primary = np.array([metric == primary for _, metric, _ in keys])
    families = [np.flatnonzero(part) for part in (is_primary, ~is_primary) if part.any()]
    levels = joint_levels(units, families, alpha=alpha_of(confidence))
    for family, level in zip(families, levels, strict=True):
        confidences[family] = 1 - level
        limits[family] = paired.possible([keys[row] for row in family.tolist()], 1 - level)
        columns = units.columns(family)
        detectable[family] = detectable_differences(columns, widest[family], alpha=level)
    intervals = difference_intervals(units, widest=widest, confidence=confidences, possible=limits)
    for key, interval, smallest in zip(keys, intervals, detectable, strict=True):
        system, metric, baseline = key
        values = paired.values(system, metric, baseline)
        is_scored = ~np.isnan(values)
        wins, losses = int((values > 0).sum()), int((values < 0).sum())
        if lower_is_better(metric):
            wins, losses = losses, wins
        sides = [side for side in (baseline, system) if np.isnan(paired.values(side, metric)).all()]
        note = interval.note
        if sides:
            note = f"there is no valid score of {' or '.join(sides)}"
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
            note=note,
        )


def what_to_do(
    paired: Paired, differences: Sequence[Difference], alpha: float, meanwhile: str = ""
) -> str:
    """Return what would decide between the best so far and its rivals, or that there are none."""
    metric, leader, margin = differences[0].metric, differences[0].baseline, differences[0].margin
    meanwhile, open_outcomes = meanwhile or f"keep {leader}", ["can't tell"]
    better = [row for row in differences if row.outcome == "better"]
    if better:
        leader = max(better, key=lambda row: row.gain).system
        meanwhile, open_outcomes = f"use {leader}", ["better", "alike", "can't tell"]
    keys = []
    for row in differences:
        if row.changed and row.outcome in open_outcomes and row.system != leader:
            keys.append((row.system, metric, leader))
    if not keys:
        if better or not any(row.n for row in differences):
            return ""
        return _KEEP.format(metric=metric, baseline=leader)
    needed = _questions_needed(paired, keys, alpha, margin)
    if len(paired.query_ids) < needed < math.inf:
        fields = {"needed": numbers.two_digits_up(needed), "margin": numbers.given(margin)}
        return _TOO_FEW.format(**fields, meanwhile=meanwhile)
    return _UNKNOWN.format(meanwhile=meanwhile)


def _questions_needed(paired: Paired, keys: Sequence[Key], alpha: float, margin: float) -> float:
    units, needed = paired.units(keys), 0.0
    n_changed = np.count_nonzero(units.sums, axis=0).tolist()
    for changes, n in zip(Changes.seen(units, paired.widest(keys)), n_changed, strict=True):
        if n * changes.evenness < FEWEST_CHANGED:
            return math.inf
        needed = max(needed, changes.questions(to_be_better(alpha), margin) or math.inf)
    return needed
