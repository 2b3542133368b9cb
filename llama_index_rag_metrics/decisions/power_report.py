"""What `power` finds: how many questions a decision needs, in sentences and tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

from llama_index_rag_metrics.decisions import better_and_worse
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
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
from llama_index_rag_metrics.statistics.sample_size import POWER

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

    Examples:
        >>> from llama_index_rag_metrics import power
        >>> [round(each.least_kept, 3) for each in power(deviation=0.3, changed=0.4, n=200).metrics]
        [0.053]
    """

    metrics: tuple[MetricPower, ...]
    questions: int | None
    source: str

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
