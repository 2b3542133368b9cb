"""check_rules() and assert_retrieval(): may a change be merged?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from llama_index_rag_metrics.decisions.comparison.pairing import Results, scores_of
from llama_index_rag_metrics.evaluation.evaluation_results import system_of
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.failures import failure_lines
from llama_index_rag_metrics.report.numbers import counted, digits_apart, digits_for
from llama_index_rag_metrics.report.reportable import Reportable, written
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable
from llama_index_rag_metrics.runtime.errors import (
    GateFailed,
    InconclusiveGate,
    InvalidInput,
    warn_caller,
)
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.label_fit import check_same_questions
from llama_index_rag_metrics.scores.scores_export import read_json
from llama_index_rag_metrics.stories.first_line import nothing_measured
from llama_index_rag_metrics.stories.story import query_answers

from .measuring import Measured, decide, measure
from .rules import Rule, RuleLike, parse_rules
from .verdict import MOST_ITEMS, Outcome, Verdict, WorstQuestion

BaselineLike: TypeAlias = "Results | str | Path"
"""The results of before, or the file that their `to_json()` wrote."""

_WORST = 5  # how many of the worst questions a verdict has
_WIDTH = 120  # of the message of a failed assertion
_HOW_TO_ACCEPT = "`rag-metrics gate --accept`, or pytest --rag-accept, writes"
_ACCEPT = "Accept these results: rag-metrics gate --accept, or pytest --rag-accept."
_EQUAL_SCORES = (
    "equal scores prove little with few questions; identical rankings pass without proof, where "
    "both sides know them (`evaluate`, or score_rankings with a Run) and read as much of them"
)
_HEAD = ("verdict", "now", "baseline", "difference", "bounds", "questions")
_ORDER: tuple[Outcome, ...] = ("fail", "inconclusive", "pass")
_TONES: dict[Outcome, m.Tone] = {"pass": "best", "fail": "alarm", "inconclusive": "open"}
_DECISIONS = {
    "fail": "{share} failed: {sentence}",
    "inconclusive": "{share} {are} inconclusive, none failed: {sentence}",
    "pass": "All {rules} are kept.",
}
_ON_ONE_RULE = {
    "fail": "The rule failed: {sentence}",
    "inconclusive": "The rule is inconclusive: {sentence}",
    "pass": "The rule is kept: {sentence}",
}


@dataclass(frozen=True, repr=False)
class GateReport(Reportable):
    """The verdicts of a gate, one for each rule, in their order.

    `causes` explain a loss: that nothing was measured, or that labels don't fit.

    Examples:
        >>> scores = Scores(["q1", "q2"], {"recall@5": [1.0, 0.5]})
        >>> report = check_rules(scores, "recall@5 >= 0.7")
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
        closing = {"fail", "inconclusive"} if strict else {"fail"}
        return [verdict for verdict in self if verdict.outcome in closing]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def report(self, *, full: bool = False) -> m.Report:
        """The verdicts, the worst questions and why; as a table, one row per verdict."""
        worst_first = sorted(self, key=lambda verdict: _ORDER.index(verdict.outcome))
        causes = [m.Statement(cause, "alarm") for cause in self.causes]
        table = m.Table("", _HEAD, [[_row(verdict) for verdict in worst_first]], first="rule")
        return m.Report(
            title=f"Retrieval gate of {self.name}" if self.name else "Retrieval gate",
            lead=counted(len(worst_first), "rule", "rules"),
            outcome=_outcome(self.outcome),
            decision=[*_decision(worst_first), *causes],
            sections=[m.Section("Verdicts", [table])],
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


def check_rules(
    results: Results,
    rules: RuleLike,
    *,
    baseline: BaselineLike | None = None,
    clusters: str | None = None,
) -> GateReport:
    """Check results against rules.

    A rule with a confidence passes where even the worse one-sided bound is within the limit, fails
    where even the better one is beyond it, and is inconclusive in between; all rules together fail
    an unchanged system in at most 1 - confidence of the cases. A rule fails where fewer than 95 %
    of the queries, or of their runs, have a value.

    Args:
        rules: such as "ndcg@10 >= baseline - 0.02"; see `Rule`.
        baseline: the results of before, or the file that their `to_json()` wrote.
        clusters: as for `compare`.

    Raises:
        InvalidInput: a rule can't be used, there are no scores by its metric, or there is no
            baseline, or one of other queries, questions or labels.
        UnknownMetric: a rule names no metric.

    Examples:
        >>> before, after = (Scores(["q1", "q2"], {"mrr": [1.0, mrr]}) for mrr in (0.5, 0.4))
        >>> (verdict,) = check_rules(after, "mrr >= baseline as observed", baseline=before)
        >>> print(verdict)
        fail: mrr is 0.70 against 0.75 in the baseline, a loss of 0.05; no loss is allowed \
(2 questions).
    """
    parsed, scores = parse_rules(rules), scores_of(results)
    previous = None if baseline is None else baseline_scores(baseline, scores.name)
    notes: list[str] = []
    if any(rule.baseline for rule in parsed):
        if previous is None:
            remedy = f"{_HOW_TO_ACCEPT} one."
            raise InvalidInput("baseline", None, "a baseline, since a rule names it", remedy)
        sides = {"the baseline": previous, "these scores": scores}
        check_same_questions(sides, "baseline", _ACCEPT)
    measured = [measure(rule, scores, previous, clusters) for rule in parsed]
    verdicts = []
    for verdict, numbers in zip(decide(measured), measured, strict=True):
        worst = tuple(_worst_questions(results, verdict, numbers))
        verdicts.append(replace(verdict, worst=worst))
    causes = [f"{note}." for note in scores.label_notes]
    if scores.failed and not scores.is_measured:
        causes.insert(0, nothing_measured(scores.counts, [*scores.failed.values()]))
    notes += [*_remarks(verdicts, scores), *scores.notes]
    unsaid = [note for note in dict.fromkeys(notes) if f"{note}." not in causes]
    return GateReport(tuple(verdicts), scores.name, tuple(causes), tuple(unsaid))


def assert_retrieval(
    results: Results,
    *rules: str | Rule,
    baseline: BaselineLike | None = None,
    strict: bool = False,
    clusters: str | None = None,
) -> GateReport:
    """Assert that results satisfy rules; arguments and errors are those of `check_rules`.

    Args:
        strict: whether an inconclusive rule fails, too; else it is a warning.

    Raises:
        GateFailed: an AssertionError: a rule is broken. It begins with the verdict, and shows the
            numbers with their bounds and the worst queries.

    Examples:
        >>> scores = Scores(["q1", "q2"], {"recall@5": [1.0, 0.5]})
        >>> assert_retrieval(scores, "recall@5 >= 0.7").outcome
        'pass'
    """
    __tracebackhide__ = True
    report = check_rules(results, rules, baseline=baseline, clusters=clusters)
    if report.broken(strict=strict):
        content = report.report()
        # pytest's summary has the first line alone, which therefore decides
        decision = terminal(content.decision[0].text)
        raise GateFailed(f"{decision}\n{to_text(content, width=_WIDTH)}")
    for verdict in report.broken(strict=True):
        warn_caller(InconclusiveGate(verdict.sentence))
    return report


def read_scores(path: str | Path, system: str | None = None) -> Scores:
    """Return the scores of one system, from a file that `to_json()` or `evaluate --json` wrote."""
    return _one_of(read_json(Path(path)), system)


def baseline_scores(baseline: BaselineLike, name: str) -> Scores:
    """Return the scores of a baseline; of a file of several systems, those of this name."""
    if not isinstance(baseline, (str, Path)):
        return scores_of(baseline, "baseline")
    if not Path(baseline).is_file():
        raise InvalidInput("baseline", str(baseline), "a file", f"{_HOW_TO_ACCEPT} it.")
    by_name = read_json(Path(baseline))
    return _one_of(by_name, name if name in by_name else None)


def _one_of(by_name: Mapping[str, Scores], system: str | None) -> Scores:
    if "" in by_name or (system is None and len(by_name) == 1):
        return next(iter(by_name.values()))
    if system is None or system not in by_name:
        raise InvalidInput("--system", system, " or ".join(map(repr, by_name)))
    return by_name[system]


def _worst_questions(
    results: Results, verdict: Verdict, measured: Measured
) -> Iterator[WorstQuestion]:
    """Yield the questions that lost most against the baseline, or are farthest off the limit."""
    losses: dict[str, float] = {}
    for query_id, (*previous, score) in measured.scores.items():
        loss = verdict.rule.improvement((previous or [verdict.rule.value])[0] - score)
        if loss > 0 and verdict.outcome != "pass":
            losses[query_id] = loss
    system = system_of(results)
    for query_id in sorted(losses, key=losses.__getitem__, reverse=True)[:_WORST]:
        *previous, score = measured.scores[query_id]
        story = query_answers(query_id, [system], verdict.metric)
        yield WorstQuestion(query_id, score, next(iter(previous), None), story)


def _remarks(verdicts: Sequence[Verdict], scores: Scores) -> Iterator[str]:
    open_rules = [verdict for verdict in verdicts if verdict.outcome != "pass"]
    if any(verdict.metric == "failed" or verdict.n < verdict.expected for verdict in open_rules):
        failures = [m.Failure("", query_id, error) for query_id, error in scores.failed.items()]
        yield from (f"failed: {line.text}" for line in failure_lines(failures))
    if any(verdict.difference == 0 and verdict.outcome != "fail" for verdict in open_rules):
        yield _EQUAL_SCORES


def _decision(worst_first: Sequence[Verdict]) -> list[m.Statement]:
    """Return how many rules are broken, with the first one's sentence; then the others' alone."""
    worst, n = worst_first[0], len(worst_first)
    equals = [verdict.outcome for verdict in worst_first].count(worst.outcome)
    rules = counted(n, "rule", "rules")
    decision = (_ON_ONE_RULE if n == 1 else _DECISIONS)[worst.outcome].format(
        share=f"{equals} of {rules}",
        are=("are", "is")[equals == 1],
        rules=rules,
        sentence=worst.sentence,
    )
    statements = [m.Statement(decision, _TONES[worst.outcome], worst.outcome, "Verdicts")]
    for verdict in worst_first[1:]:
        if verdict.outcome != "pass":
            tone = _TONES[verdict.outcome]
            statements.append(m.Statement(str(verdict), tone, verdict.outcome))
    return statements


def _outcome(outcome: Outcome) -> m.Cell:
    return m.Cell(outcome, "outcome", _TONES[outcome])


def _row(verdict: Verdict) -> m.Row:
    """Return the numbers with the digits that the questions carry, told from the rule's limit."""
    rule, limit = verdict.rule, verdict.rule.value
    form = "signed" if rule.baseline else "score"
    bounds = m.Cell(form, "bounds", low=verdict.lower, high=verdict.upper, limit=limit)
    difference = m.Cell(verdict.difference, "signed", limit=limit)
    now, baseline = m.Cell(verdict.value, "score"), m.Cell(verdict.baseline, "score")
    if not rule.baseline:
        now = now._replace(limit=limit)
    if isinstance(verdict.value, int):
        now = now._replace(form="count")
    elif not verdict.n:
        now, baseline = m.Cell(None), m.Cell(None)
    digits = digits_for(verdict.n, bounds)
    numbers = [cell._replace(digits=digits) for cell in (now, baseline, difference, bounds)]
    cells = [_outcome(verdict.outcome), *numbers, m.Cell(verdict.n, "count")]
    return m.Row(str(rule), cells)


_RECORDS = (
    *("rule", "metric", "outcome", "value", "baseline", "difference", "lower", "upper", "n"),
    *("expected", "together", "identical", "needed", "decidable", "sentence"),
)


def _record(verdict: Verdict) -> dict[str, Any]:
    values = {name: getattr(verdict, name) for name in _RECORDS}
    worst = [question.record() for question in verdict.worst]
    return {**values, "rule": str(verdict.rule), "worst": worst}


def _listings(worst_first: Sequence[Verdict], name: str) -> list[m.Listing]:
    listings, listed_ids = [], set()
    for verdict in worst_first:
        stories = []
        for query_id, score, baseline, story in verdict.worst:
            if query_id in listed_ids:
                continue
            listed_ids.add(query_id)
            scores = [value for value in (baseline, score) if value is not None]
            cell = m.Cell(tuple(scores), "change", digits=digits_apart(scores, 1))
            answers = [answer._replace(system=name, score=cell) for answer in story.answers]
            stories.append(story._replace(answers=answers))
        title = f"Worst questions on {verdict.metric}"
        listings.append(m.Listing(title, stories, most=MOST_ITEMS))
    return listings
