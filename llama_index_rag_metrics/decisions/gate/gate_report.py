"""GateReport: the verdicts of a gate, what broke first, and the worst questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.decisions.result_columns import Column, table_of
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
        closing = ["fail"]
        if strict:
            closing.append("inconclusive")
        return [verdict for verdict in self.verdicts if verdict.outcome in closing]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def report(self, *, full: bool = False) -> m.Report:
        """The verdicts, the worst questions and why; as a table, one row per verdict."""
        worst_first = sorted(self, key=lambda verdict: _ORDER.index(verdict.outcome))
        title, name = "Retrieval gate", "now"
        if self.name:
            title, name = f"Retrieval gate of {self.name}", self.name
        rules = counted(len(worst_first), "rule", "rules")
        causes = [m.Statement(cause, "alarm") for cause in self.causes]
        return m.Report(
            title=title,
            lead=" · ".join(map(one_line, [rules, *self.about.values()])),
            outcome=m.Cell(self.outcome, "outcome", _TONES[self.outcome]),
            decision=[*_decision(worst_first), *causes],
            about=[*self.about.items()],
            sections=[m.Section(_VERDICTS, [table_of("", worst_first, _COLUMNS, label=_RULE)])],
            listings=_listings(worst_first, name),
            notes=self.notes,
            records=m.Records.of([_record(verdict) for verdict in self], _RECORDS),
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
    worst, n = worst_first[0], len(worst_first)
    equals = [verdict for verdict in worst_first if verdict.outcome == worst.outcome]
    fields = {"rules": counted(n, "rule", "rules"), "sentence": worst.sentence}
    fields["some"] = f"{len(equals):,}"
    fields["metrics"] = listed([*dict.fromkeys(verdict.metric for verdict in equals)])
    template, unsaid = _DECISIONS[worst.outcome, n == 1], worst_first
    if len(equals) == 1:
        unsaid = worst_first[1:]
        if n > 1:
            template = _DECISIONS_ON_ONE[worst.outcome]
    tone, label = _TONES[worst.outcome], worst.outcome
    statements = [m.Statement(template.format(**fields), tone, label, _VERDICTS)]
    if worst.outcome == "pass" and n > 1:
        statements = [m.Statement(template.format(**fields), tone, evidence=_VERDICTS)]
    for verdict in unsaid:
        if verdict.outcome != "pass":
            tone = _TONES[verdict.outcome]
            statements.append(m.Statement(str(verdict), tone, verdict.outcome))
    return statements


def _outcome_cell(verdict: Verdict) -> m.Cell:
    return m.Cell(verdict.outcome, "outcome", _TONES[verdict.outcome])


def _bounds_cell(verdict: Verdict) -> m.Cell:
    """The bounds, with the digits that the questions carry, told apart from the rule's limit."""
    cell = m.Cell("score", "bounds", limit=verdict.rule.value)
    if verdict.rule.baseline:
        cell = cell._replace(value="signed")
    if verdict.rule.confidence is not None:
        cell = cell._replace(low=verdict.lower, high=verdict.upper)
    return cell._replace(digits=digits_for(verdict.n, cell))


def _score_cell(verdict: Verdict, score: float | None) -> m.Cell:
    """A mean of the questions compared, of which there may be none."""
    digits = _bounds_cell(verdict).digits
    if not verdict.n:
        return m.Cell(None, "score", digits=digits)
    return m.Cell(score, "score", digits=digits)


def _value_cell(verdict: Verdict) -> m.Cell:
    if isinstance(verdict.value, int):
        return m.Cell(verdict.value, "count")
    cell = _score_cell(verdict, verdict.value)
    if verdict.rule.baseline:
        return cell
    return cell._replace(limit=verdict.rule.value)


def _difference_cell(verdict: Verdict) -> m.Cell:
    digits = _bounds_cell(verdict).digits
    return m.Cell(verdict.difference, "signed", limit=verdict.rule.value, digits=digits)


_RULE: Column[Verdict] = Column("rule", lambda verdict: str(verdict.rule))
_COLUMNS: Sequence[Column[Verdict]] = (
    Column("verdict", _outcome_cell),
    Column("now", _value_cell),
    Column("baseline", lambda verdict: _score_cell(verdict, verdict.baseline)),
    Column("difference", _difference_cell),
    Column("bounds", _bounds_cell),
    Column("questions", lambda verdict: m.Cell(verdict.n, "count")),
)
_RECORDS = [
    "rule",
    "metric",
    "outcome",
    "value",
    "baseline",
    "difference",
    "lower",
    "upper",
    "n",
    "expected",
    "together",
    "identical",
    "needed",
    "decidable",
    "sentence",
]


def _record(verdict: Verdict) -> dict[str, Any]:
    """The verdict for programs, with its worst questions."""
    values = {name: getattr(verdict, name) for name in _RECORDS}
    worst = [question.record() for question in verdict.worst]
    return {**values, "rule": str(verdict.rule), "worst": worst}


def _listings(worst_first: Sequence[Verdict], name: str) -> list[m.Listing]:
    """The worst questions of each metric whose rule isn't kept, each question once."""
    listings = []
    listed_ids: set[str] = set()
    metrics: set[str] = set()
    for verdict in worst_first:
        if verdict.metric in metrics or not verdict.worst:
            continue
        metrics.add(verdict.metric)
        stories, repeated = [], []
        for question in verdict.worst:
            if question.query_id in listed_ids:
                repeated.append(question.query_id)
            else:
                listed_ids.add(question.query_id)
                stories.append(_story(question, name))
        remark = ""
        if repeated:
            remark = f"beside {', '.join(repeated)}, above"
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
