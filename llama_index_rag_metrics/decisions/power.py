"""power(): how many questions a decision needs, and what this many can decide."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

import numpy as np

from llama_index_rag_metrics.decisions import OnMissing, better_and_worse
from llama_index_rag_metrics.decisions.clusters import Clusters
from llama_index_rag_metrics.decisions.comparison.pairing import Paired, Results, pair, scores_of
from llama_index_rag_metrics.metrics.metric_names import (
    is_of_unanswerable,
    limits_of,
    lower_is_better,
    metric,
)
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import (
    NO_VALUE,
    given,
    percent,
    questions,
    rounded_up,
    significant,
    two_digits_up,
)
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.amounts import check_amount, check_integer
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import UNIT_RANGE
from llama_index_rag_metrics.statistics.sample_size import (
    ALPHA,
    POWER,
    Aim,
    Changes,
    to_be_alike,
    to_be_better,
    to_be_kept,
)

_CLEARLY = 2 / 3
"""Another metric is named where it needs at most this share of the questions."""


def power(
    systems: Mapping[str, Results] | None = None,
    *,
    effect: float = 0.02,
    metrics: Iterable[str] | None = None,
    n: int | None = None,
    deviation: float | None = None,
    changed: float | None = None,
    confidence: float = 1 - ALPHA,
    on_missing: OnMissing = "error",
    clusters: Clusters | None = None,
) -> Power:
    """How many questions decide about a difference, and what this many can decide.

    It goes by the intervals that `compare` and the gate have, and by how questions changed between
    two systems before: take a pair like those that you are going to compare. Without scores,
    say how: `deviation` and `changed`.

    Args:
        systems: two systems by name, results or scores.
        effect: the difference that matters, on the first metric.
        metrics: names of metrics, the first one decides; None takes those that both systems have,
            or ndcg@10 without systems.
        n: of so many questions, what they can show; None takes those that both systems score on the
            first metric.
        deviation: the standard deviation of the differences, those of 0 among them.
        changed: the share of the questions that change.
        confidence: of the intervals.
        on_missing: what to do if the systems have different questions, as for `compare`.
        clusters: what questions belong to, as for `compare`.

    Raises:
        InvalidInput: there aren't two systems, or neither these nor deviation and share, or the
            numbers can't be together.
        UnknownMetric: a system has no scores on a metric.

    Examples:
        >>> found = power(effect=0.05, deviation=0.3, changed=0.4, n=100)
        >>> print(found.decision)
        To show a gain of 0.05 on ndcg@10 you need about 290 questions (80 % of the time).
        >>> found.metrics[0].kept, round(found.metrics[0].least_better, 3)
        (224, 0.087)
    """
    expected = "a difference above 0, such as 0.02"
    check_amount("effect", effect, expected, lambda number: 0 < number < math.inf)
    expected = "a number between 0 and 1, such as 0.95"
    check_amount("confidence", confidence, expected, lambda level: 0 < level < 1)
    if n is not None:
        check_integer("n", n, 2)
    metrics = [metrics] if isinstance(metrics, str) else metrics
    notes: tuple[str, ...] = ()
    if systems is None:
        known = metric(next(iter(metrics or ("ndcg@10",)))).metric_name
        changes = {known: _assumed(known, effect, deviation, changed)}
        source = "by the deviation and the share of changed questions given"
    else:
        if deviation is not None or changed is not None:
            given_as = ("deviation", deviation) if changed is None else ("changed", changed)
            raise InvalidInput(*given_as, "None beside scores, which tell it")
        paired = _pair(systems, metrics, on_missing, clusters)
        before, after = paired.systems
        changes = changes_of(paired, after, before)
        if (primary := next(iter(paired.columns))) not in changes:
            apart = "" if clusters is None else " of different clusters"
            expected = f"a metric on which both systems score two questions or more{apart}"
            raise InvalidInput("metrics", primary, expected)
        if effect > (widest := changes[primary].widest):
            expected = f"at most {given(significant(widest))}, the range of these scores"
            raise InvalidInput("effect", effect, expected)
        asked = len(paired.by_query(after, primary, before))
        n = asked if n is None else n
        source = f"{before} and {after}, {questions(asked)}"
        notes = paired.notes
    sizes = equivalents(changes, effect)
    return Power(
        tuple(_measured(name, seen, sizes[name], n, confidence) for name, seen in changes.items()),
        n,
        source,
        notes,
    )


def changes_of(paired: Paired, system: str, baseline: str) -> dict[str, Changes]:
    """How questions changed on each metric, those that two questions or more have a value for."""
    keys = [(system, name, baseline) for name in paired.columns]
    units = paired.units(keys)
    widest = np.array([paired.widest(*key) for key in keys])
    found = zip(paired.columns, Changes.seen(units, widest), units.n_units, strict=True)
    return {name: seen for name, seen, n_units in found if n_units >= 2}


def equivalents(changes: Mapping[str, Changes], effect: float) -> dict[str, float]:
    """The difference on each metric that stands out as much as `effect` does on the first one."""
    (first, *_) = changes.values()
    typical = first.size_of_change
    return {
        name: min(effect * (seen.size_of_change / typical if typical else 1.0), seen.widest)
        for name, seen in changes.items()
    }


def easier_metric(
    changes: Mapping[str, Changes], primary: str, aim: Aim, effect: float, n: int
) -> str:
    """Which metric needs the fewest questions, and how many; "" where it is the primary one."""
    if primary not in changes or effect <= 0 or not is_quality(primary):
        return ""
    others = {name: seen for name, seen in changes.items() if is_quality(name)}
    ordered = {primary: changes[primary], **others}
    sizes = equivalents(ordered, effect)
    needed = {
        name: number
        for name, seen in ordered.items()
        if (number := seen.questions(aim, sizes[name])) is not None
    }
    own = needed.get(primary, math.inf)
    least = min(needed, key=lambda name: needed[name], default=primary)
    if least == primary or own <= n or needed[least] > _CLEARLY * own:
        return ""
    return (
        f"{least} would need {about(needed[least])} questions for the same decision, {primary} "
        f"{about(needed.get(primary))}"
    )


def is_quality(name: str) -> bool:
    """Whether a metric says how good a ranking is, from 0 to 1, more being better."""
    is_other = name.startswith(("judged", "unjudged")) or is_of_unanswerable(name)
    return limits_of(name) == UNIT_RANGE and not lower_is_better(name) and not is_other


def _pair(
    systems: Mapping[str, Results],
    metrics: Iterable[str] | None,
    on_missing: OnMissing,
    clusters: Clusters | None,
) -> Paired:
    if not isinstance(systems, Mapping) or len(systems) != 2:
        names = list(systems) if isinstance(systems, Mapping) else systems
        raise InvalidInput("systems", names, "two systems by name")
    scores = {name: scores_of(each, f"system {name!r}") for name, each in systems.items()}
    wanted = None if metrics is None else [*metrics]
    paired = pair(
        scores, next(iter(scores)), metrics=wanted, on_missing=on_missing, clusters=clusters
    )
    if len(paired.query_ids) < 2:
        raise InvalidInput("systems", list(systems), "systems with two questions or more in common")
    return paired


def _assumed(name: str, effect: float, deviation: float | None, changed: float | None) -> Changes:
    if deviation is None or changed is None:
        sentence = "give the scores of two systems, or both deviation and changed."
        raise InvalidInput("systems", None, sentence=sentence)
    check_amount("changed", changed, "a share above 0, up to 1", lambda share: 0 < share <= 1)
    low, high = limits_of(name)
    span = high - low
    if not math.isfinite(span):
        expected = "a metric with limits, or systems to take its scores from"
        raise InvalidInput("metrics", name, expected)
    share = percent(changed)
    if effect > changed * span:
        expected = f"at most {given(significant(changed * span))}, if {share} change"
        raise InvalidInput("effect", effect, expected)
    most = math.sqrt(changed * span**2 - effect**2)
    least = effect * math.sqrt(1 / changed - 1)
    ends = f"{given(significant(least))} to {given(significant(most))}"
    expected = f"a number from {ends}, if {share} change and the mean is {given(effect)}"
    allowed = least * (1 - 1e-9), most * (1 + 1e-9)
    check_amount(
        "deviation", deviation, expected, lambda number: allowed[0] <= number <= allowed[1]
    )
    return Changes(deviation, changed, span)


def _measured(
    name: str, seen: Changes, effect: float, n: int | None, confidence: float
) -> MetricPower:
    alpha = 1 - confidence
    aims = to_be_better(alpha), to_be_kept(confidence), to_be_alike(alpha)
    better, kept, alike = (seen.questions(aim, effect) for aim in aims)
    least = (None if n is None else seen.distance(aim, n) for aim in aims)
    return MetricPower(name, effect, seen.deviation, seen.share, better, kept, alike, *least)


_MOST_QUESTIONS = 100_000
"""More than anybody would label."""

_EXPLAINED = (
    f"Questions by which a decision is reached {percent(POWER)} of the time. Better: compare() "
    "shows a true difference of this size. Gate: a rule that allows such a loss passes an "
    "unchanged system. Alike: compare() shows that an unchanged system differs by no more. On "
    "further metrics the difference is the one that stands out as much from the changes of single "
    "questions."
)


@dataclass(frozen=True, slots=True, repr=False)
class MetricPower(Sentence):
    """What a metric needs, and what it can show.

    Attributes:
        effect: the difference asked for; on further metrics the one that has the same share in the
            mean size of changes.
        deviation: the standard deviation of the paired differences.
        changed: the share of questions that change, by their effective number (Σ|d|)² / Σd².
        better: questions by which a true difference of `effect` is shown; None for more than ten
            million, as for `kept` and `alike`.
        kept: questions by which a rule of the gate that allows a loss of `effect` passes an
            unchanged system.
        alike: questions by which an unchanged system is shown to differ by at most `effect`.
        least_better: the smallest true difference that `Power.questions` show, None where they can
            show none, or none were given; the others likewise.
    """

    metric: str
    effect: float
    deviation: float
    changed: float
    better: int | None
    kept: int | None
    alike: int | None
    least_better: float | None
    least_kept: float | None
    least_alike: float | None

    def __str__(self) -> str:
        return (
            f"To show a {_words(self.metric)[0]} of {given(self.effect)} on {self.metric} you need "
            f"{about(self.better)} questions ({percent(POWER)} of the time)."
        )


@dataclass(frozen=True, repr=False)
class Power(Reportable):
    """How many questions a decision needs, metric by metric.

    Attributes:
        metrics: the first is the one that `effect` was named for.
        questions: of which the smallest differences are that they show; None where none were given.
        source: what the numbers rest on, in words.
        notes: what a reader of the numbers should know of the two systems.

    Examples:
        >>> from llama_index_rag_metrics import power
        >>> [round(each.least_kept, 3) for each in power(deviation=0.3, changed=0.4, n=200).metrics]
        [0.053]
    """

    metrics: tuple[MetricPower, ...]
    questions: int | None
    source: str
    notes: tuple[str, ...] = ()

    @property
    def decision(self) -> str:
        """How many questions the first metric needs, in one sentence."""
        return str(self.metrics[0])

    def report(self, *, full: bool = False) -> m.Report:
        """The decision, the other decisions, and a row a metric."""
        first = self.metrics[0]
        worse, (_, loss) = given(first.effect), _words(first.metric)
        further = [
            f"A rule of the gate that allows a {loss} of {worse} passes an unchanged system with "
            f"{about(first.kept)} questions; {about(first.alike)} show that it differs by at most "
            f"{worse}."
        ]
        if self.questions is not None:
            further.append(f"{questions(self.questions)} {_shown(first)}.")
        return m.Report(
            title="Questions needed",
            lead=self.source,
            decision=[m.Statement(self.decision), *map(m.Statement, further)],
            sections=[m.Section("Questions needed", list(self._tables()), _EXPLAINED)],
            notes=self.notes,
            records=m.Records.of(
                [asdict(each) for each in self.metrics],
                [field.name for field in fields(MetricPower)],
            ),
        )

    def _tables(self) -> Iterable[m.Table]:
        rows = [
            m.Row(
                each.metric,
                [
                    m.Cell(each.effect, "score", digits=3),
                    *(m.Cell(_up_to(needed)) for needed in (each.better, each.kept, each.alike)),
                    m.Cell(each.deviation, "score", digits=3),
                    m.Cell(percent(significant(each.changed, 2))),
                ],
            )
            for each in self.metrics
        ]
        head = ["difference", "better", "gate", "alike", "deviation", "changed"]
        yield m.Table("", head, [rows])
        if self.questions is not None:
            shown = [
                m.Row(each.metric, [m.Cell(least) for least in _least(each)])
                for each in self.metrics
            ]
            yield m.Table(f"What {questions(self.questions)} show", head[1:4], [shown])


def about(needed: int | None) -> str:
    """A number of questions, such as "about 410"."""
    number = _up_to(needed)
    return f"more than {number[1:]}" if number.startswith(">") else f"about {number}"


def _up_to(needed: int | None) -> str:
    if needed is None or needed > _MOST_QUESTIONS:
        return f">{_MOST_QUESTIONS:,}"
    return two_digits_up(needed)


def _least(each: MetricPower) -> list[str]:
    ends = (each.least_better, each.least_kept, each.least_alike)
    return [NO_VALUE if end is None else rounded_up(end, 3) for end in ends]


def _shown(each: MetricPower) -> str:
    """What questions show, such as "show a gain of 0.073, or rule out a loss of 0.064"."""
    gain, loss = _words(each.metric)
    aims = f"show a {gain} of", f"rule out a {loss} of", "show that two are alike within"
    shown = [f"{aim} {end}" for aim, end in zip(aims, _least(each), strict=True) if end != NO_VALUE]
    if not shown:
        return f"are too few to show any difference on {each.metric}"
    few = f"; they are too few to show a {gain}" if each.least_better is None else ""
    return f"{', '.join(shown[:-1])}{', or ' if shown[1:] else ''}{shown[-1]}{few}"


def _words(name: str) -> tuple[str, str]:
    return better_and_worse(lower_is_better=lower_is_better(name))
