"""Difference: how a system differs from the baseline; Settings: how that was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from llama_index_rag_metrics.decisions.comparison.pairing import OnMissing
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.corrections import CORRECTIONS, Correction
from llama_index_rag_metrics.statistics.intervals import RESAMPLES, SEED, check_options

Test: TypeAlias = Literal["randomisation", "t", "wilcoxon"]
TESTS: tuple[Test, ...] = ("randomisation", "t", "wilcoxon")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a comparison was made.

    Attributes:
        confidence: of the intervals; 1 - confidence is the level of the tests.
        correction: for the number of comparisons. The primary metric's are corrected over systems
            (and slices), and all others' among themselves.
        test: whose p values are corrected and decide.
        primary: the metric that a decision is about.
        resamples: random flips of signs.
        seed: of the random numbers.
        on_missing: what to do where systems know different queries.
        clusters: the metadata key that groups queries, "given" for a mapping, or None.
        slices: the metadata key of the slices, or None.
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

    def __post_init__(self) -> None:
        check_options(self.confidence, self.resamples, self.seed)
        for name, value, choices in (
            ("correction", self.correction, CORRECTIONS),
            ("test", self.test, TESTS),
        ):
            if value not in choices:
                raise InvalidInput(name, value, " or ".join(map(repr, choices)))
        if self.test == "wilcoxon" and self.correction == "max-t":
            remedy = "Wilcoxon's test has 'holm' or another one."
            raise InvalidInput("correction", "max-t", "a correction of p values", remedy)

    @property
    def alpha(self) -> float:
        """The level of the tests."""
        return round(1 - self.confidence, 12)


@dataclass(frozen=True, slots=True)
class Difference:
    """How a system differs from the baseline by one metric, paired by query.

    Attributes:
        system: the system's name.
        baseline: the baseline's name.
        metric: the metric's name.
        n: how many queries have a value for both.
        baseline_mean: the baseline's mean over these.
        mean: the system's mean over these.
        difference: the mean of system minus baseline.
        low: lower end of its interval, None where none is given.
        high: upper end.
        method: how the interval was made; "" where none is given.
        p_randomisation: two-sided p value of the randomisation test.
        p_t: of the paired t-test; with clusters, of its cluster-robust form.
        p_wilcoxon: of Wilcoxon's signed-rank test, which tests symmetry about 0, not the mean.
        p_corrected: that of the test chosen, corrected for `comparisons`.
        significant: whether p_corrected is at most 1 - confidence.
        effect_size: mean / standard deviation of the paired differences, 0 when all are 0; None
            where they don't vary about another value.
        wins: queries on which the system is better: scores higher, or lower by a metric of which
            less is better.
        ties: queries on which both score the same.
        losses: queries on which the system is worse.
        detectable: the smallest true difference that this many queries would show in 4 of 5 cases,
            by this test, level and correction; None where too few queries changed to say.
        note: why there is no interval, or what else to know.
        verdict: what it means: the decision, the number with its interval, and what would be needed
            to know more.
        primary: whether it is by the metric that a decision is about.
        comparisons: how many comparisons p is corrected for, this one among them.
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

    @property
    def gain(self) -> float:
        """The difference with the sign that is above 0 where the system is better."""
        return -self.difference if lower_is_better(self.metric) else self.difference

    @property
    def changed(self) -> int:
        """How many queries score differently."""
        return self.wins + self.losses

    def p_of(self, test: Test) -> float:
        """The p value of one test, uncorrected."""
        return {"randomisation": self.p_randomisation, "t": self.p_t, "wilcoxon": self.p_wilcoxon}[
            test
        ]
