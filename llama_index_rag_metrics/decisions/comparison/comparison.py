"""Comparison: systems beside a baseline, every number with its uncertainty."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.comparison.pairing import Paired
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better, worst_score
from llama_index_rag_metrics.report.drawing import short_names
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.numbers import (
    decimals_of,
    ends,
    percent,
    questions,
    rounded_up,
    score,
    signed,
)
from llama_index_rag_metrics.report.reportable import Reportable, Sentence, written
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.statistics.intervals import (
    UNIT_RANGE,
    MeanInterval,
    check_options,
    excludes_0,
    number_clusters,
)
from llama_index_rag_metrics.statistics.shortfalls import not_beaten

if TYPE_CHECKING:
    import pandas as pd

_FORMAT = "llama-index-rag-metrics comparison, version 1"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Reportable):
    """Systems compared with a baseline, paired by query.

    Attributes:
        systems: name to scores, in the order given.
        results: name to the results of an evaluation, with its rankings; None where only scores
            were given.
        query_ids: the queries compared, in the baseline's order.
        means: (system, metric) to the mean with its interval, over the queries with a value.
        differences: by system, then metric; also `comparison["hybrid", "ndcg@10"]`.
        notes: what a reader of the numbers should know.

    Examples:
        >>> from llama_index_rag_metrics import compare, score_rankings
        >>> expected = {"q1": ["a"], "q2": ["b"], "q3": ["c"]}
        >>> lists = {
        ...     "bm25": {"q1": ["x", "a"], "q2": ["x", "b"], "q3": ["c"]},
        ...     "hybrid": {"q1": ["a", "x"], "q2": ["b", "x"], "q3": ["c"]},
        ... }
        >>> systems = {name: score_rankings(expected, run, "mrr") for name, run in lists.items()}
        >>> comparison = compare(systems, baseline="bm25")
        >>> comparison.decision
        "These 3 questions can't tell: hybrid may be 0.51 worse or 0.91 better than bm25 on mrr."
        >>> round(comparison["hybrid", "mrr"].difference, 4)
        0.3333
    """

    systems: Mapping[str, Scores]
    results: Mapping[str, EvaluationResults | None]
    baseline: str
    metric_names: tuple[str, ...]
    query_ids: tuple[str, ...]
    means: Mapping[tuple[str, str], MeanInterval]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    settings: ComparisonSettings
    paired: Paired = field(repr=False)

    def __getitem__(self, key: tuple[str, str]) -> Difference:
        if not isinstance(key, tuple) or len(key) != 2:
            remedy = f"As in comparison[{[*self.systems][-1]!r}, {self.metric_names[0]!r}]."
            raise InvalidInput("comparison[...]", key, "a system and a metric", remedy)
        system, metric = key[0], name_among(key[1], self.metric_names)
        for difference in self.differences:
            if (difference.system, difference.metric) == (system, metric):
                return difference
        raise InvalidInput("system", system, " or ".join(map(repr, self.others)))

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    @property
    def measured(self) -> list[Difference]:
        """The differences of systems that answered any question; none if the baseline didn't."""
        return [
            difference
            for difference in self
            if self.systems[difference.system].is_measured
            and self.systems[difference.baseline].is_measured
        ]

    @property
    def decision(self) -> str:
        """The result of the comparison on the primary metric, as one plain line."""
        metric = self.settings.primary
        known = self.measured or self.differences
        differences = [difference for difference in known if difference.metric == metric]
        if len(differences) == 1:
            return f"{_clause(differences[0])}."
        if winner := self.winner:
            name = short_names(self.names)[winner]
            return f"{name} is the best of {len(differences) + 1:,} on {metric}."
        return _groups(differences, self)

    @cached_property
    def winner(self) -> str | None:
        """The system that is shown to beat all others on the metric that decides; None if none is.

        The rule is that of `sweep`: of equal systems one is named in at most 1 - confidence of
        cases.
        """
        metric = self.settings.primary
        names = [name for name in self.names if self.systems[name].is_measured]
        if len(names) < 2:
            return None
        sign = -1.0 if lower_is_better(metric) else 1.0
        columns = [sign * self.paired.values(name, metric) for name in names]
        scores, clusters = self.paired.in_order(columns)
        known = ~np.isnan(scores).any(axis=1)
        (lowest, highest), worst = limits_of(metric), worst_score(metric)
        kept = not_beaten(
            scores[known],
            span=highest - lowest,
            worst=None if worst is None else sign * worst,
            clusters=None if clusters is None else number_clusters(clusters[known].tolist()),
            alpha=self.settings.alpha,
        )
        return names[int(kept[0])] if len(kept) == 1 else None

    def by_query(self, system: str, metric: str) -> dict[str, float]:
        """Query id to system minus baseline, of the queries with a value for both."""
        return self.paired.by_query(system, metric, self.baseline)

    @property
    def names(self) -> list[str]:
        """The systems, the baseline first."""
        return [self.baseline, *self.others]

    @property
    def others(self) -> list[str]:
        """The systems but the baseline, in the order given."""
        return [name for name in self.systems if name != self.baseline]

    def report(self, *, full: bool = False) -> Report:
        """The decision, differences, means and remarks; as a table, one row per difference."""
        from llama_index_rag_metrics.decisions.comparison.comparison_report import comparison_report

        return comparison_report(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """All numbers as JSON; written to `path`, if given."""
        content = {
            "format": _FORMAT,
            "systems": list(self.systems),
            "baseline": self.baseline,
            "settings": asdict(self.settings),
            "decision": self.decision,
            "notes": self.notes,
            "queries": len(self.query_ids),
            "means": [
                {"system": system, "metric": metric, **asdict(mean)}
                for (system, metric), mean in self.means.items()
            ],
            "differences": [*map(asdict, self.differences)],
        }
        plain = jsonable(content, "comparison")
        return written(json_text(plain), path)

    def to_pandas(self) -> pd.DataFrame:
        """The unrounded numbers as a data frame, with the p of scipy's paired t-test.

        It is two-sided, and not corrected for how many differences there are; identical scores have
        p = 1. Nothing is decided by it.
        """
        frame = super().to_pandas()
        frame["p"] = [self._paired_t(difference) for difference in self]
        return frame

    def _paired_t(self, difference: Difference) -> float:
        from scipy.stats import ttest_1samp

        if difference.n and not difference.changed:
            return 1.0
        values = [*self.by_query(difference.system, difference.metric).values()]
        if len(values) < 2:
            return math.nan
        with warnings.catch_warnings():  # of differences that are all the same
            warnings.simplefilter("ignore", RuntimeWarning)
            return float(ttest_1samp(values, 0).pvalue)

    def __repr__(self) -> str:
        return f"<Comparison: {terminal(self.decision)}>"


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
    """How a comparison was made; see `compare`."""

    confidence: float
    clusters: str | None
    primary: str
    margin: float | None

    def __post_init__(self) -> None:
        check_options(self.confidence)
        self.margin_on(self.primary)

    @property
    def alpha(self) -> float:
        return round(1 - self.confidence, 12)

    def margin_on(self, metric: str) -> float:
        """Systems that differ by no more are alike; 0 where nothing is small enough for that."""
        return margin_of(metric, self.margin, "margin")


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Sentence):
    """How a system differs from the baseline on one metric, paired by query.

    Attributes:
        n: how many queries have a value for both; the means are over these.
        difference: the mean of system minus baseline.
        low: lower end of its interval, None where none is given, as is `high`. The intervals of
            all systems hold together.
        outcome: "better" or "worse" where the interval leaves out 0, else "alike" where it lies
            within ± the margin of `compare(margin=)`, else "can't tell". `verdict` is the same as a
            sentence.
        wins: on how many queries the system is better, which may be lower.
        detectable: the smallest true difference that this many queries would detect 80 % of the
            time, with this level and correction; None where too few changed, or there are too few
            to detect any.
        note: why there is no interval, or what else to know.
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
    wins: int
    ties: int
    losses: int
    detectable: float | None
    note: str = ""
    verdict: str = ""
    primary: bool = True
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

    def __str__(self) -> str:
        return self.verdict


_MOST_NAMES = 3


def with_verdict(difference: Difference, settings: ComparisonSettings) -> Difference:
    """The same with its outcome, its sentence, and a note where few changed."""
    decided = replace(difference, outcome=_outcome(difference, settings))
    few = _few_changed(decided, settings) if excludes_0(decided) else ""
    notes = [difference.note, few]
    return replace(
        decided,
        verdict=f"{_clause(decided)}{_evidence(decided, settings)}.",
        note="; ".join(filter(None, notes)),
    )


def _outcome(difference: Difference, settings: ComparisonSettings) -> Outcome:
    if excludes_0(difference):
        return "better" if difference.gain > 0 else "worse"
    return "alike" if difference.at_most <= settings.margin_on(difference.metric) else "can't tell"


def _clause(difference: Difference) -> str:
    system, baseline, metric = difference.system, difference.baseline, difference.metric
    names, low, high = f"{system} and {baseline}", difference.low, difference.high
    if difference.n == 0:
        return f"Nothing can be said about {names} on {metric}: no question has a score for both"
    if difference.n == 1:
        return f"A single question can't tell {names} apart on {metric}"
    if difference.changed == 0:
        return f"{names} score the same on {metric}, on all {questions(difference.n)}"
    if low is None or high is None:
        reason = difference.note.split(":", maxsplit=1)[0]
        return f"{_these([difference])} can't tell {names} apart on {metric}: {reason}"
    if difference.outcome == "alike":
        return f"{names} differ by less than {_bound(difference)} on {metric}"
    if difference.outcome == "can't tell":
        worse, better = (high, -low) if lower_is_better(metric) else (-low, high)
        up_to = [score(end, 0.0, decimals_of(low, high)) for end in (worse, better)]
        return (
            f"{_these([difference])} can't tell: {system} may be {up_to[0]} worse or {up_to[1]} "
            f"better than {baseline} on {metric}"
        )
    return f"{system} is {difference.outcome} than {baseline} on {metric}"


def _evidence(difference: Difference, settings: ComparisonSettings) -> str:
    """What follows the clause: the number with its interval, or what could be detected."""
    low, high, n = difference.low, difference.high, difference.n
    if not difference.changed or low is None or high is None:
        return ""
    surely = f"with {percent(settings.confidence)} confidence, {questions(n)}"
    if difference.outcome == "alike":
        return f" ({surely})"
    decimals = decimals_of(low, high)
    if difference.outcome != "can't tell":
        mean = signed(difference.difference, 0.0, decimals)
        return f": {mean} ({ends(low, high)} {surely})"
    if few := _few_changed(difference, settings):
        return f". {few[0].upper()}{few[1:]}"
    if difference.detectable is None:
        return ""
    least = rounded_up(difference.detectable, decimals)
    return f". With {questions(n)} a true difference of {least} would be detected 80 % of the time"


def _few_changed(difference: Difference, settings: ComparisonSettings) -> str:
    """That no permutation of signs could show a difference by the questions that changed."""
    by_chance = 2.0 ** (1 - difference.changed)
    if not difference.changed or by_chance <= settings.alpha:
        return ""
    if difference.changed == 1:
        return "only 1 question changed, which can't show a difference"
    n = difference.changed
    return (
        f"only {n} questions changed; {n} changes in one direction happen by chance in "
        f"{percent(by_chance)} of cases"
    )


def _groups(differences: Sequence[Difference], comparison: Comparison) -> str:
    baseline, metric = comparison.baseline, comparison.settings.primary
    known = [difference for difference in differences if difference.n]
    if not known:
        return (
            f"Nothing can be said on {metric}: no question has a score for {baseline} and another."
        )
    if all(difference.n == 1 for difference in known):
        return f"A single question can't tell the systems apart on {metric}."
    groups: dict[str, list[Difference]] = {}
    for difference in differences:
        same = difference.changed == 0 and difference.n > 1
        groups.setdefault("same" if same else difference.outcome, []).append(difference)
    kinds = [kind for kind in ("better", "worse", "alike", "same", "can't tell") if kind in groups]
    short = short_names(comparison.names)
    first, *further = [_of_group(kind, groups[kind], short, baseline) for kind in kinds]
    if kinds[0] == "can't tell":
        first = f"T{first[1:]}"
    return f"{'; '.join([f'{first} on {metric}', *further])}."


def _of_group(
    kind: str, group: Sequence[Difference], short: Mapping[str, str], baseline: str
) -> str:
    """The clause of the systems with the same outcome, which are counted where they are many."""
    *others, last = [short[difference.system] for difference in group]
    names = f"{', '.join(others)} and {last}" if others else last
    if len(group) > _MOST_NAMES:
        is_all = len(group) == len(short) - 1
        names = f"the {len(group):,} others" if is_all else f"{len(group):,} of the others"
    baseline = short[baseline]
    if kind == "can't tell":
        return f"t{_these(group)[1:]} can't tell {names} from {baseline}"
    if kind == "same":
        return f"{names} {'score' if others else 'scores'} exactly the same as {baseline}"
    if kind == "alike":
        bound = _bound(max(group, key=lambda each: each.at_most))
        return f"{names} {'differ' if others else 'differs'} from {baseline} by less than {bound}"
    return f"{names} {'are' if others else 'is'} {kind} than {baseline}"


def _bound(difference: Difference) -> str:
    """What an alike system differs by at most, rounded up."""
    return rounded_up(difference.at_most, decimals_of(-difference.at_most, difference.at_most))


def _these(differences: Sequence[Difference]) -> str:
    numbers = {difference.n for difference in differences}
    return f"These {questions(numbers.pop())}" if len(numbers) == 1 else "These questions"
