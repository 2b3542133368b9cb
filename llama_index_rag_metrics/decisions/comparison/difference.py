"""Differences of systems from a baseline, and of all pairs; and the settings that they have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeAlias, get_args

import numpy as np

from llama_index_rag_metrics.decisions import OnMissing
from llama_index_rag_metrics.decisions.comparison.pairing import Paired
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.report.numbers import between, p_value, questions, signed
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.corrections import CORRECTIONS, Correction, max_t
from llama_index_rag_metrics.statistics.differences import difference_intervals, t_p
from llama_index_rag_metrics.statistics.intervals import (
    RESAMPLES,
    SEED,
    UNIT_RANGE,
    check_options,
    excludes_0,
)

Test: TypeAlias = Literal["randomisation", "t", "wilcoxon"]
Outcome: TypeAlias = Literal["better", "worse", "alike", "can't tell"]

_MARGIN = 0.02


def margin_of(metric: str, margin: float | None, argument: str) -> float:
    """A difference too small to matter; if none is given, that of metrics from 0 to 1, else 0."""
    if margin is None:
        return _MARGIN if limits_of(metric) == UNIT_RANGE else 0.0
    expected = "a difference too small to matter, such as 0.02; 0 for none"
    check_amount(argument, margin, expected, lambda number: 0 <= number < np.inf)
    return margin


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """How a comparison was made; see `compare`.

    `clusters` is the key of the metadata that groups queries, "given" for a mapping, or None.
    """

    confidence: float = 0.95
    correction: Correction = "max-t"
    test: Test = "t"
    resamples: int = RESAMPLES
    seed: int = SEED
    on_missing: OnMissing = "error"
    clusters: str | None = None
    slices: str | None = None
    primary: str = ""
    alike: float | None = None

    def __post_init__(self) -> None:
        check_options(self.confidence, self.resamples, self.seed)
        for name, value, choices in (
            ("correction", self.correction, CORRECTIONS),
            ("test", self.test, get_args(Test)),
        ):
            if value not in choices:
                raise InvalidInput(name, value, " or ".join(map(repr, choices)))
        if self.test == "wilcoxon" and self.correction == "max-t":
            remedy = "Wilcoxon's test has 'holm' or another one."
            raise InvalidInput("correction", "max-t", "a correction of p values", remedy)
        if self.alike is not None:
            self.margin(self.primary)

    @property
    def alpha(self) -> float:
        return round(1 - self.confidence, 12)

    def margin(self, metric: str) -> float:
        """Systems that differ by no more are alike; 0 where nothing is small enough for that."""
        return margin_of(metric, self.alike, "alike")


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Sentence):
    """How a system differs from the baseline on one metric, paired by query.

    Attributes:
        n: how many queries have a value for both; the means are over these.
        difference: the mean of system minus baseline.
        low: lower end of its interval, None where none is given, as is `high`. The intervals of all
            `comparisons` hold together, unless they aren't corrected.
        p_randomisation: two-sided p value of the randomisation test.
        p_t: of the paired t-test; with clusters, of its cluster-robust form.
        p_wilcoxon: of Wilcoxon's signed-rank test, which tests symmetry about 0, not the mean.
        p_corrected: that of the test chosen, corrected for `comparisons`, this one among them.
        significant: whether p_corrected is at most 1 - confidence. It decides nothing.
        outcome: "better" or "worse" where the interval leaves out 0, else "alike" where it lies
            within ± the margin of `compare(alike=)`, else "can't tell". `verdict` is the same as a
            sentence.
        effect_size: mean / standard deviation of the paired differences, 0 when all are 0; None
            where they don't vary about another value.
        wins: on how many queries the system is better, which may be lower.
        detectable: the smallest true difference that this many queries would detect 80 % of the
            time, with this level and correction; None where too few changed, or there are too few
            to detect any.
        note: why there is no interval, where the test and the interval differ, or what else to
            know.
        primary: whether it is on the metric that a decision is about.
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
    method: str
    p_randomisation: float
    p_t: float
    p_wilcoxon: float
    p_corrected: float
    significant: bool
    effect_size: float | None
    wins: int
    ties: int
    losses: int
    detectable: float | None
    note: str = ""
    verdict: str = ""
    primary: bool = True
    comparisons: int = 1
    outcome: Outcome = "can't tell"

    @property
    def key(self) -> tuple[str, str, str]:
        """The system, the metric and the baseline."""
        return self.system, self.metric, self.baseline

    @property
    def gain(self) -> float:
        """The difference with the sign that is above 0 where the system is better."""
        return -self.difference if lower_is_better(self.metric) else self.difference

    @property
    def at_most(self) -> float:
        """The farthest end of the interval from 0; infinite without an interval."""
        return np.inf if self.low is None or self.high is None else max(-self.low, self.high)

    @property
    def changed(self) -> int:
        return self.wins + self.losses

    @property
    def is_disputed(self) -> bool:
        """Whether there is an interval, and the test says another thing."""
        return self.low is not None and self.significant != excludes_0(self)

    def p_of(self, test: Test) -> float:
        return float(getattr(self, f"p_{test}"))

    def __str__(self) -> str:
        return self.verdict


@dataclass(frozen=True, slots=True, repr=False)
class SystemPair(Sentence):
    """Two of several systems, over the n queries with a value for both: system minus other.

    The intervals of all pairs of the metric hold together; None with fewer than two queries or
    clusters. p is the t-test's, corrected for the same pairs.
    """

    system: str
    other: str
    metric: str
    n: int
    difference: float
    low: float | None
    high: float | None
    p: float

    def __str__(self) -> str:
        ends = "" if self.low is None else f"{between(self.low, self.high)}; "
        return (
            f"{self.system} minus {self.other} on {self.metric}: {signed(self.difference)} "
            f"({ends}p = {p_value(self.p)}, {questions(self.n)})"
        )


def all_pairs(paired: Paired, settings: ComparisonSettings) -> Iterator[SystemPair]:
    """All pairs of three or more systems, those of each metric corrected by max-t."""
    names = [*combinations(paired.systems, 2)]
    together = [np.arange(len(names))]
    options = {"resamples": settings.resamples, "seed": settings.seed}
    for metric in paired.columns if len(names) > 1 else ():
        keys = [(system, metric, other) for system, other in names]
        units = paired.units(keys)
        corrected, (level,) = max_t(units, t_p(units), together, alpha=settings.alpha, **options)
        intervals = difference_intervals(
            units,
            widest=np.array([paired.widest(*key) for key in keys]),
            confidence=1 - level,
            possible=paired.possible(keys, 1 - level),
        )
        for (system, other), mean, p in zip(names, intervals, corrected.tolist(), strict=True):
            yield SystemPair(system, other, metric, mean.n, mean.mean, mean.low, mean.high, p)
