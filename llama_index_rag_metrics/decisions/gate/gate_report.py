"""GateReport: the verdicts of a gate, what broke first, and the worst questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.decisions.result_columns import Column, records_of, table_of
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as one_line
from llama_index_rag_metrics.report.numbers import counted, digits_apart, digits_for
from llama_index_rag_metrics.report.reportable import Reportable, written
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable
from llama_index_rag_metrics.stories.results_report import listed

from .verdict import MOST_ITEMS, Outcome, Verdict, WorstQuestion

_ORDER: tuple[Outcome, ...] = ("fail", "inconclusive", "pass")
_TONES: dict[Outcome, m.Tone] = {"pass": "best", "fail": "alarm", "inconclusive": "open"}
_VERDICTS = "Verdicts"
_DECISIONS = {
    ("fail", True): "The rule failed: {sentence}",
    ("inconclusive", True): "The rule is inconclusive: {sentence}",
    ("pass", True): "The rule is kept: {sentence}",
    ("fail", False): "{some} of {rules} failed, on {metrics}.",
    ("inconclusive", False): "{some} of {rules} are inconclusive, none failed, on {metrics}.",
    ("pass", False): "All {rules} are kept.",
}
_DECISIONS_ON_ONE = {
    "fail": "1 of {rules} failed: {sentence}",
    "inconclusive": "1 of {rules} is inconclusive, none failed: {sentence}",
}


@dataclass(frozen=True, repr=False)
class GateReport(Reportable):
    """The verdicts of a gate.

    Attributes:
        verdicts: one for each rule, in their order.
        name: of what was measured.
        causes: what explains a loss: that nothing was measured, or that labels don't fit.
        notes: what else a reader of the verdicts should know.
        about: what was checked, label to value: the dataset, where it is known.

    Examples:
        >>> from llama_index_rag_metrics import assert_retrieval, score_rankings
        >>> relevant = {"q1": ["a"], "q2": ["b"]}
        >>> scores = score_rankings(relevant, relevant, "recall@5")
        >>> report = assert_retrieval(scores, "recall@5 >= 0.7")
        >>> report.outcome, len(report.verdicts)
        ('pass', 1)
    """

    verdicts: tuple[Verdict, ...]
    name: str = ""
    causes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        """The worst of the verdicts."""
        return min((verdict.outcome for verdict in self), key=_ORDER.index, default="pass")

    def broken(self, *, strict: bool = False) -> Sequence[Verdict]:
        """The verdicts that close the gate: failed ones, with `strict` also inconclusive ones."""
        shut = ("fail", "inconclusive") if strict else ("fail",)
        return [verdict for verdict in self.verdicts if verdict.outcome in shut]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def report(self, *, full: bool = False) -> m.Report:
        """The verdicts, the worst questions and why; as a table, one row per verdict."""
        worst_first = sorted(self, key=lambda verdict: _ORDER.index(verdict.outcome))
        table = table_of("", worst_first, _COLUMNS, label=_RULE)
        rules = counted(len(worst_first), "rule", "rules")
        causes = [m.Statement(cause, "alarm") for cause in self.causes]
        return m.Report(
            title=f"Retrieval gate of {self.name}" if self.name else "Retrieval gate",
            lead=" · ".join(one_line(part) for part in [rules, *self.about.values()]),
            outcome=m.Cell(self.outcome, "outcome", _TONES[self.outcome]),
            decision=[*_decision(worst_first), *causes],
            about=[*self.about.items()],
            sections=[m.Section(_VERDICTS, [table])],
            listings=_listings(worst_first, self.name or "now"),
            notes=self.notes,
            records=records_of(self.verdicts, _RECORDS),
        )

    def to_json(self, path: str | Path | None = None) -> str:
        """All of it, unrounded; written to `path`, if given."""
        content = {
            "outcome": self.outcome,
            "name": self.name,
            "about": dict(self.about),
            "verdicts": [_record(verdict) for verdict in self],
            "notes": [*self.causes, *self.notes],
        }
        text = json_text(jsonable(content, "gate"), indent=1)
        written(f"{text}\n", path)
        return text


def _decision(worst_first: Sequence[Verdict]) -> list[m.Statement]:
    """How many rules are broken or undecided, with the first one's sentence; then the others."""
    if not worst_first:
        return [m.Statement("No rule was checked.", "open")]
    first, n = worst_first[0], len(worst_first)
    alike = [verdict for verdict in worst_first if verdict.outcome == first.outcome]
    is_single = len(alike) == 1
    template = _DECISIONS[first.outcome, n == 1]
    if is_single and n > 1:
        template = _DECISIONS_ON_ONE[first.outcome]
    text = template.format(
        sentence=first.sentence,
        some=f"{len(alike):,}",
        rules=counted(n, "rule", "rules"),
        metrics=listed([*dict.fromkeys(verdict.metric for verdict in alike)]),
    )
    label = "" if first.outcome == "pass" and n > 1 else first.outcome
    statements = [m.Statement(text, _TONES[first.outcome], label, _VERDICTS)]
    for verdict in worst_first[1:] if is_single else worst_first:
        if verdict.outcome != "pass":
            tone = _TONES[verdict.outcome]
            statements.append(m.Statement(str(verdict), tone, verdict.outcome))
    return statements


def _number(value: float | None, form: m.Form, verdict: Verdict) -> m.Cell:
    """A number with the digits that the questions carry, told apart from the rule's limit."""
    is_difference = form == "signed"
    limit = verdict.rule.value if is_difference == verdict.rule.baseline else None
    return m.Cell(value, form, limit=limit, digits=digits_for(verdict.n, _bounds(verdict)))


def _bounds(verdict: Verdict) -> m.Cell:
    form = "signed" if verdict.rule.baseline else "score"
    cell = m.Cell(form, "bounds", limit=verdict.rule.value)
    if verdict.rule.confidence is None:
        return cell
    return cell._replace(low=verdict.lower, high=verdict.upper)


def _bounds_cell(verdict: Verdict) -> m.Cell:
    bounds = _bounds(verdict)
    return bounds._replace(digits=digits_for(verdict.n, bounds))


def _value_cell(verdict: Verdict) -> m.Cell:
    if isinstance(verdict.value, int):
        return m.Cell(verdict.value, "count")
    return _number(verdict.value if verdict.n else None, "score", verdict)


def _baseline_cell(verdict: Verdict) -> m.Cell:
    value = verdict.baseline if verdict.n else None
    return _number(value, "score", verdict)._replace(limit=None)


_RULE: Column[Verdict] = Column("rule", lambda verdict: str(verdict.rule))
_COLUMNS: Sequence[Column[Verdict]] = (
    Column("verdict", lambda each: m.Cell(each.outcome, "outcome", _TONES[each.outcome])),
    Column("now", _value_cell),
    Column("baseline", _baseline_cell),
    Column("difference", lambda verdict: _number(verdict.difference, "signed", verdict)),
    Column("bounds", _bounds_cell),
    Column("questions", lambda verdict: m.Cell(verdict.n, "count")),
)
_RECORDS: Sequence[Column[Verdict]] = (
    _RULE,
    Column("metric", lambda verdict: verdict.metric),
    Column("outcome", lambda verdict: verdict.outcome),
    Column("value", lambda verdict: verdict.value),
    Column("baseline", lambda verdict: verdict.baseline),
    Column("difference", lambda verdict: verdict.difference),
    Column("lower", lambda verdict: verdict.lower),
    Column("upper", lambda verdict: verdict.upper),
    Column("n", lambda verdict: verdict.n),
    Column("expected", lambda verdict: verdict.expected),
    Column("together", lambda verdict: verdict.together),
    Column("identical", lambda verdict: verdict.identical),
    Column("needed", lambda verdict: verdict.needed),
    Column("decidable", lambda verdict: verdict.decidable),
    Column("sentence", lambda verdict: verdict.sentence),
)


def _record(verdict: Verdict) -> dict[str, Any]:
    """The verdict for JSON, with its worst questions."""
    values = {column.name: column.value(verdict) for column in _RECORDS}
    return {**values, "worst": [question.record() for question in verdict.worst]}


def _listings(worst_first: Sequence[Verdict], name: str) -> list[m.Listing]:
    """The worst questions of each metric whose rule isn't kept, each question once."""
    listings = []
    shown: set[str] = set()
    metrics: set[str] = set()
    for verdict in worst_first:
        if verdict.metric in metrics or not verdict.worst:
            continue
        metrics.add(verdict.metric)
        questions = [question for question in verdict.worst if question.query_id not in shown]
        repeated = [each.query_id for each in verdict.worst if each.query_id in shown]
        shown.update(question.query_id for question in questions)
        stories = [_story(question, name) for question in questions]
        remark = f"beside {', '.join(repeated)}, above" if repeated else ""
        title = f"Worst questions on {verdict.metric}"
        listings.append(m.Listing(title, stories, remark, most=MOST_ITEMS))
    return listings


def _story(question: WorstQuestion, name: str) -> m.QueryAnswers:
    """The story of a question, with its score in the baseline and now."""
    scores = [question.score]
    if question.baseline is not None:
        scores.insert(0, question.baseline)
    cell = m.Cell(tuple(scores), "change", digits=digits_apart(scores, 1))
    answers = [answer._replace(system=name, score=cell) for answer in question.story.answers]
    return question.story._replace(answers=answers)
