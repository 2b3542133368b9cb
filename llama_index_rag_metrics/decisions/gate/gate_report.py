"""GateReport: the verdicts of a gate, what broke first, and the worst questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.decisions.result_columns import Column, table_of
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import counted, digits_apart, digits_for
from llama_index_rag_metrics.report.reportable import Reportable, written
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable

from .verdict import MOST_ITEMS, Outcome, Verdict, WorstQuestion

_ORDER: tuple[Outcome, ...] = ("fail", "inconclusive", "pass")
_TONES: dict[Outcome, m.Tone] = {"pass": "best", "fail": "alarm", "inconclusive": "open"}
_DECISIONS = {
    "fail": "{some} failed: {sentence}",
    "inconclusive": "{some} inconclusive, none failed: {sentence}",
    "pass": "All {rules} are kept.",
}
_DECISIONS_ON_ONE_RULE = {
    "fail": "The rule failed: {sentence}",
    "inconclusive": "The rule is inconclusive: {sentence}",
    "pass": "The rule is kept: {sentence}",
}


@dataclass(frozen=True, repr=False)
class GateReport(Reportable):
    """The verdicts of a gate.

    Attributes:
        verdicts: one for each rule, in their order.
        name: of what was measured.
        causes: what explains a loss: that nothing was measured, or that labels don't fit.
        notes: what else a reader of the verdicts should know.

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

    @property
    def outcome(self) -> Outcome:
        """The worst of the verdicts."""
        return min((verdict.outcome for verdict in self), key=_ORDER.index, default="pass")

    def broken(self, *, strict: bool = False) -> Sequence[Verdict]:
        """Return the verdicts that close the gate: failed, with `strict` also inconclusive ones."""
        closing = ["fail", "inconclusive"] if strict else ["fail"]
        return [verdict for verdict in self.verdicts if verdict.outcome in closing]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def report(self, *, full: bool = False) -> m.Report:
        """The verdicts, the worst questions and why; as a table, one row per verdict."""
        worst_first = sorted(self, key=lambda verdict: _ORDER.index(verdict.outcome))
        causes = [m.Statement(cause, "alarm") for cause in self.causes]
        return m.Report(
            title=f"Retrieval gate of {self.name}" if self.name else "Retrieval gate",
            lead=counted(len(worst_first), "rule", "rules"),
            outcome=m.Cell(self.outcome, "outcome", _TONES[self.outcome]),
            decision=[*_decision(worst_first), *causes],
            sections=[m.Section("Verdicts", [table_of("", worst_first, _COLUMNS, label=_RULE)])],
            listings=_listings(worst_first, self.name or "now"),
            notes=self.notes,
            records=m.Records.of([_record(verdict) for verdict in self], _RECORDS),
        )

    def to_json(self, path: str | Path | None = None) -> str:
        """Return all of it, unrounded, as JSON; written to `path`, if given."""
        content = {
            "outcome": self.outcome,
            "name": self.name,
            "verdicts": [_record(verdict) for verdict in self],
            "notes": [*self.causes, *self.notes],
        }
        text = json_text(jsonable(content, "gate"), indent=1)
        written(f"{text}\n", path)
        return text


def _decision(worst_first: Sequence[Verdict]) -> list[m.Statement]:
    """Return how many rules are broken, with the first one's sentence; then the others' alone."""
    worst, n = worst_first[0], len(worst_first)
    equals = sum(verdict.outcome == worst.outcome for verdict in worst_first)
    rules = counted(n, "rule", "rules")
    some = f"{equals} of {rules}"
    if worst.outcome == "inconclusive":
        some += " are" if equals > 1 else " is"
    templates = _DECISIONS_ON_ONE_RULE if n == 1 else _DECISIONS
    first = templates[worst.outcome].format(some=some, rules=rules, sentence=worst.sentence)
    statements = [m.Statement(first, _TONES[worst.outcome], worst.outcome, "Verdicts")]
    for verdict in worst_first[1:]:
        if verdict.outcome != "pass":
            tone = _TONES[verdict.outcome]
            statements.append(m.Statement(str(verdict), tone, verdict.outcome))
    return statements


def _outcome_cell(verdict: Verdict) -> m.Cell:
    return m.Cell(verdict.outcome, "outcome", _TONES[verdict.outcome])


def _bounds_cell(verdict: Verdict) -> m.Cell:
    """Return the bounds, with the digits that the questions carry, told from the rule's limit."""
    form = "signed" if verdict.rule.baseline else "score"
    cell = m.Cell(form, "bounds", limit=verdict.rule.value)
    if verdict.rule.confidence is not None:
        cell = cell._replace(low=verdict.lower, high=verdict.upper)
    return cell._replace(digits=digits_for(verdict.n, cell))


def _value_cell(verdict: Verdict) -> m.Cell:
    if isinstance(verdict.value, int):
        return m.Cell(verdict.value, "count")
    limit = None if verdict.rule.baseline else verdict.rule.value
    value = verdict.value if verdict.n else None
    return m.Cell(value, "score", limit=limit, digits=_bounds_cell(verdict).digits)


def _baseline_cell(verdict: Verdict) -> m.Cell:
    value = verdict.baseline if verdict.n else None
    return m.Cell(value, "score", digits=_bounds_cell(verdict).digits)


def _difference_cell(verdict: Verdict) -> m.Cell:
    digits = _bounds_cell(verdict).digits
    return m.Cell(verdict.difference, "signed", limit=verdict.rule.value, digits=digits)


_RULE: Column[Verdict] = Column("rule", lambda verdict: str(verdict.rule))
_COLUMNS: Sequence[Column[Verdict]] = (
    Column("verdict", _outcome_cell),
    Column("now", _value_cell),
    Column("baseline", _baseline_cell),
    Column("difference", _difference_cell),
    Column("bounds", _bounds_cell),
    Column("questions", lambda verdict: m.Cell(verdict.n, "count")),
)
_RECORDS = (
    *("rule", "metric", "outcome", "value", "baseline", "difference", "lower", "upper", "n"),
    *("expected", "together", "identical", "needed", "decidable", "sentence"),
)


def _record(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict for programs, with its worst questions."""
    values = {name: getattr(verdict, name) for name in _RECORDS}
    worst = [question.record() for question in verdict.worst]
    return {**values, "rule": str(verdict.rule), "worst": worst}


def _listings(worst_first: Sequence[Verdict], name: str) -> list[m.Listing]:
    """Return the worst questions of each rule that isn't kept, each question once."""
    listings = []
    listed: set[str] = set()
    for verdict in worst_first:
        worst = [question for question in verdict.worst if question.query_id not in listed]
        listed.update(question.query_id for question in worst)
        stories = [_story(question, name) for question in worst]
        title = f"Worst questions on {verdict.metric}"
        listings.append(m.Listing(title, stories, most=MOST_ITEMS))
    return listings


def _story(question: WorstQuestion, name: str) -> m.QueryAnswers:
    """Return the story of a question, with its score in the baseline and now."""
    scores = [question.score]
    if question.baseline is not None:
        scores.insert(0, question.baseline)
    cell = m.Cell(tuple(scores), "change", digits=digits_apart(scores, 1))
    answers = [answer._replace(system=name, score=cell) for answer in question.story.answers]
    return question.story._replace(answers=answers)
