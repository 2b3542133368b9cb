"""What a gate says: a plain sentence for each verdict, with its numbers, and the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import (
    count,
    counted,
    given,
    hundredths_up,
    percent,
    score,
    signed,
    up_to_two_digits,
)

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.gate.rules import Rule
    from llama_index_rag_metrics.decisions.gate.verdicts import (
        GateReport,
        Outcome,
        Verdict,
        WorstQuery,
    )

_HEAD = ("verdict", "now", "baseline", "difference", "bounds", "queries")
_TONES: dict[Outcome, m.Tone] = {"pass": "best", "fail": "alarm", "inconclusive": "open"}
MOST_ITEMS = 3

_MOST_QUERIES = 100_000
"""More than anybody would label."""


def gate_report(gate: GateReport) -> m.Report:
    name = f" of {gate.name}" if gate.name else ""
    broken = gate.broken(strict=True)
    return m.Report(
        title=f"Retrieval gate{name}",
        outcome=_outcome(gate.outcome),
        decision=[
            m.Statement(str(verdict), _TONES[verdict.outcome], verdict.outcome)
            for verdict in broken
        ]
        or [m.Statement("Every rule is kept.")],
        sections=[m.Section("Verdicts", [m.Table("", _HEAD, [[*map(_row, gate)]], first="rule")])],
        listings=list(_listings(gate)),
        notes=gate.notes,
        records=_records(gate),
    )


def _outcome(outcome: Outcome) -> m.Cell:
    return m.Cell(outcome, "outcome", _TONES[outcome])


def _row(verdict: Verdict) -> m.Row:
    rule, limit = verdict.rule, verdict.rule.value
    has_bounds = rule.confidence is not None
    is_count = isinstance(verdict.value, int)
    return m.Row(
        str(rule),
        [
            _outcome(verdict.outcome),
            m.Cell(
                verdict.value if verdict.n or is_count else None,
                "count" if is_count else "score",
                limit=None if rule.baseline else limit,
            ),
            m.Cell(verdict.baseline if verdict.n else None, "score"),
            m.Cell(verdict.difference, "signed", limit=limit),
            m.Cell(
                "signed" if rule.baseline else "score",
                "bounds",
                low=verdict.lower if has_bounds else None,
                high=verdict.upper if has_bounds else None,
                limit=limit,
            ),
            m.Cell(verdict.n, "count"),
        ],
    )


def _listings(gate: GateReport) -> Iterator[m.Listing]:
    """The worst questions of each metric, each question once."""
    shown: set[str] = set()
    for verdict in gate.with_worst():
        new = [query for query in verdict.worst if query.query_id not in shown]
        again = [query.query_id for query in verdict.worst if query.query_id in shown]
        shown.update(query.query_id for query in new)
        yield m.Listing(
            f"Worst questions on {verdict.metric}",
            [_query(query, gate.name) for query in new],
            f"beside {', '.join(again)}, above" if again else "",
            most=MOST_ITEMS,
        )


def _query(query: WorstQuery, name: str) -> m.QueryAnswers:
    before = () if query.baseline is None else (query.baseline,)
    score = m.Cell((*before, query.score), "change")
    answers = [answer._replace(system=name or "now", score=score) for answer in query.story.answers]
    leaked = [f"forbidden: {item}, at rank {rank}" for rank, item in query.leaked]
    return query.story._replace(answers=answers, remarks=leaked)


def _records(gate: GateReport) -> m.Records:
    rows = [verdict.record() for verdict in gate]
    columns = [name for name in (rows[0] if rows else {}) if name != "worst"]
    return m.Records.of(rows, columns)


def sentence(verdict: Verdict) -> str:
    """One plain sentence, or two where values are missing."""
    lacking = verdict.expected - verdict.n
    if lacking <= 0 or not verdict.n:
        return _finding(verdict)
    few = f"Only {verdict.n:,} of {counted(verdict.expected)} have {_value(verdict.rule)}"
    end = "" if verdict.covered else ": too few to judge by, whatever the numbers say"
    return f"{_finding(verdict)} {few}{end}."


def _finding(verdict: Verdict) -> str:
    rule, metric, n = verdict.rule, verdict.metric, verdict.n
    if not n:
        none = f"none of {counted(verdict.expected)} has {_value(rule)}"
        return f"{metric} can't be judged: {none if verdict.expected else 'there are no queries'}."
    if not rule.baseline:
        start = f"{metric} is {_number(verdict.value, rule.value)}"
        if isinstance(verdict.value, int):
            return f"{start}; the rule wants {_wanted(rule)}."
        wanted = f"the rule wants {_wanted(rule)}{_way_out(verdict)}."
        return f"{start} over {counted(n)}{_bounds(verdict)}; {wanted}"
    if verdict.method == "identical rankings":
        same = f"{metric} is {_number(verdict.value)} as in the {rule.reference}"
        than = "" if verdict.outcome == "pass" else f"; the rule wants {_wanted(rule)}"
        return f"{same}: the rankings of all {counted(n)} are identical{than}."
    return (
        f"{metric} is {_number(verdict.value)} against {_number(verdict.baseline or 0.0)} in the "
        f"{rule.reference}, {signed(verdict.difference or 0.0, rule.value)} over {counted(n)}"
        f"{_bounds(verdict)}; the rule {_wish(rule)}{_way_out(verdict)}."
    )


def _number(value: float | int, limit: float | None = None) -> str:
    """A count in full, or a score, told apart from the limit."""
    return count(value) if isinstance(value, int) else score(value, limit)


def _value(rule: Rule) -> str:
    return f"a value both now and in the {rule.reference}" if rule.baseline else "a value"


def _wanted(rule: Rule) -> str:
    if rule.baseline:
        return _gain(rule)
    beyond = {">=": "{} or more", ">": "more than {}", "<=": "{} or less", "<": "less than {}"}
    return beyond[rule.sign].format(rule.limit)


def _wish(rule: Rule) -> str:
    loss = "rise" if rule.lower_is_better else "loss"
    if rule.tolerance > 0:
        limit = "less than" if rule.strict else "up to"
        return f"tolerates a {loss} of {limit} {given(rule.tolerance)}"
    if rule.tolerance < 0 or rule.strict:
        return f"wants {_gain(rule)}"
    return f"tolerates no {loss}"


def _gain(rule: Rule) -> str:
    gain = "a fall" if rule.lower_is_better else "a gain"
    least = f" of {'more than' if rule.strict else 'at least'} {given(-rule.tolerance)}"
    return f"{gain}{least if rule.tolerance else ''}"


def _bounds(verdict: Verdict) -> str:
    rule, lower, upper = verdict.rule, verdict.lower, verdict.upper
    if rule.confidence is None or not verdict.covered:
        return ""
    low, high = (
        None if bound is None else (signed if rule.baseline else _number)(bound, rule.value)
        for bound in (lower, upper)
    )
    if verdict.outcome != "inconclusive":
        is_above = rule.lower_is_better == (verdict.outcome == "fail")
        end = f"above {low}" if is_above else f"below {high}"
        return f", with {percent(verdict.confidence)} confidence {end}"
    if low is None or high is None:
        return ""
    # with several rules the bound for failing has more confidence than was asked
    least = "at least " if verdict.together > 1 else ""
    return f" (between {low} and {high}, with {least}{percent(verdict.confidence)} confidence each)"


def _way_out(verdict: Verdict) -> str:
    if verdict.outcome != "inconclusive":
        return ""
    rule = verdict.rule
    few = f"{counted(verdict.n)} {'is' if verdict.n == 1 else 'are'} too few to tell"
    good = -(verdict.lower or 0.0) if rule.lower_is_better else verdict.upper or 0.0
    if rule.baseline and rule.tolerance > 0 and good < 0:
        return f": the loss is clear, but {few} whether it is more than {given(rule.tolerance)}"
    tolerance = (
        "" if verdict.decidable is None else f"a tolerance of {hundredths_up(verdict.decidable)}"
    )
    if verdict.needed is not None:
        needed = f"about {up_to_two_digits(verdict.needed):,}"
        if verdict.needed > _MOST_QUERIES:
            needed = f"more than {_MOST_QUERIES:,}"
        return f": {few}; {needed} would be needed{f', or {tolerance}' if tolerance else ''}"
    if tolerance and not rule.tolerance and not rule.strict:
        return (
            f": {few}, and no number would show that nothing at all was lost; {tolerance} can be "
            "decided"
        )
    return f": {few}"
