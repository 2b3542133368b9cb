"""What a gate says: a plain sentence for each verdict, with its numbers, and the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from llama_index_rag_metrics.decisions.power_report import about
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.numbers import (
    count,
    counted,
    digits_apart,
    digits_for,
    digits_of,
    given,
    percent,
    questions,
    rounded_up,
    score,
)
from llama_index_rag_metrics.scores.deciding import NOTHING
from llama_index_rag_metrics.scores.scores_report import listed
from llama_index_rag_metrics.statistics.resampling import NOISE

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.gate.rules import Rule
    from llama_index_rag_metrics.decisions.gate.verdicts import (
        GateReport,
        Outcome,
        Verdict,
        WorstQuery,
    )

_VERDICTS = "Verdicts"
_HEAD = ("verdict", "now", "baseline", "difference", "bounds", "questions")
_TONES: dict[Outcome, m.Tone] = {"pass": "best", "fail": "alarm", "inconclusive": "open"}
ORDER: tuple[Outcome, ...] = ("fail", "inconclusive", "pass")
MOST_ITEMS = 3

_WORDS = {False: ("gain", "loss"), True: ("rise", "fall")}
"""What up and down are called, by whether lower is better."""


def gate_report(gate: GateReport) -> m.Report:
    name = f" of {gate.name}" if gate.name else ""
    worst_first = sorted(gate, key=lambda verdict: ORDER.index(verdict.outcome))
    rows = [_row(verdict) for verdict in worst_first]
    known = [gate.about[label] for label in ("dataset", "commit") if label in gate.about]
    nothing = [note for note in gate.notes if note.startswith(NOTHING)]
    lead = [counted(len(rows), "rule", "rules"), *known]
    return m.Report(
        title=f"Retrieval gate{name}",
        lead=" · ".join(map(plain, lead)),
        outcome=_outcome(gate.outcome),
        decision=[
            *(m.Statement(note, "alarm") for note in nothing),
            *([m.Statement(gate.drawn)] if gate.drawn else ()),
            *_decision(worst_first),
        ],
        about=[*gate.about.items()],
        sections=[m.Section(_VERDICTS, [m.Table("", _HEAD, [rows], first="rule")])],
        listings=list(_listings(worst_first, gate.name)),
        notes=[note for note in gate.notes if note not in nothing],
        records=_records(gate),
    )


def _decision(worst_first: Sequence[Verdict]) -> list[m.Statement]:
    """How many rules are broken or undecided, with the first one's sentence; then the others."""
    n, worst = len(worst_first), worst_first[0].outcome if worst_first else "pass"
    alike = [verdict for verdict in worst_first if verdict.outcome == worst]
    if not alike:
        return [m.Statement("No rule was checked.", "open")]
    is_one = len(alike) == 1
    some = "The rule" if n == 1 else f"{len(alike):,} of {n:,} rules"
    heads: dict[Outcome, str] = {
        "fail": f"{some} failed",
        "inconclusive": f"{some} {'is' if is_one else 'are'} inconclusive, none failed",
        "pass": "The rule is kept" if n == 1 else f"All {n:,} rules are kept",
    }
    head, tone = heads[worst], _TONES[worst]
    if worst == "pass" and n > 1:
        return [m.Statement(f"{head}.", tone, evidence=_VERDICTS)]
    if is_one:
        first = m.Statement(f"{head}: {alike[0].sentence}", tone, worst, _VERDICTS)
    else:
        metrics = listed([*dict.fromkeys(verdict.metric for verdict in alike)])
        first = m.Statement(f"{head}, on {metrics}.", tone, worst, _VERDICTS)
    others = [verdict for verdict in worst_first[is_one:] if verdict.outcome != "pass"]
    return [
        first,
        *(m.Statement(str(each), _TONES[each.outcome], each.outcome) for each in others),
    ]


def _outcome(outcome: Outcome) -> m.Cell:
    return m.Cell(outcome, "outcome", _TONES[outcome])


def _row(verdict: Verdict) -> m.Row:
    rule, limit = verdict.rule, verdict.rule.value
    has_bounds = rule.confidence is not None
    is_count = isinstance(verdict.value, int)
    bounds = m.Cell(
        "signed" if rule.baseline else "score",
        "bounds",
        low=verdict.lower if has_bounds else None,
        high=verdict.upper if has_bounds else None,
        limit=limit,
    )
    digits = digits_for(verdict.n, bounds)
    return m.Row(
        str(rule),
        [
            _outcome(verdict.outcome),
            m.Cell(
                verdict.value if verdict.n or is_count else None,
                "count" if is_count else "score",
                limit=None if rule.baseline else limit,
                digits=digits,
            ),
            m.Cell(verdict.baseline if verdict.n else None, "score", digits=digits),
            m.Cell(verdict.difference, "signed", limit=limit, digits=digits),
            bounds._replace(digits=digits),
            m.Cell(verdict.n, "count"),
        ],
    )


def _listings(worst_first: Sequence[Verdict], name: str) -> Iterator[m.Listing]:
    """The worst questions of each metric that isn't kept, each question once."""
    shown: set[str] = set()
    broken = (each for each in reversed(worst_first) if each.outcome != "pass" and each.worst)
    for verdict in reversed({each.worst: each for each in broken}.values()):
        new = [query for query in verdict.worst if query.query_id not in shown]
        again = [query.query_id for query in verdict.worst if query.query_id in shown]
        shown.update(query.query_id for query in new)
        yield m.Listing(
            f"Worst questions on {verdict.metric}",
            [_query(query, name) for query in new],
            f"beside {', '.join(again)}, above" if again else "",
            most=MOST_ITEMS,
        )


def _query(query: WorstQuery, name: str) -> m.QueryAnswers:
    before = () if query.baseline is None else (query.baseline,)
    scores = (*before, query.score)
    score = m.Cell(scores, "change", digits=digits_apart(scores, 1))
    answers = [answer._replace(system=name or "now", score=score) for answer in query.story.answers]
    leaked = [f"forbidden: {item}, at rank {rank}" for rank, item in query.leaked]
    return query.story._replace(answers=answers, remarks=[*query.story.remarks, *leaked])


def _records(gate: GateReport) -> m.Records:
    rows = [verdict.record() for verdict in gate]
    columns = [name for name in (rows[0] if rows else {}) if name != "worst"]
    return m.Records.of(rows, columns)


def sentence(verdict: Verdict) -> str:
    """What was found, what the rule wants, and where it is undecided, what would decide."""
    lacking = verdict.expected - verdict.n
    if lacking <= 0 or not verdict.n:
        return _finding(verdict)
    few = f"Only {verdict.n:,} of {questions(verdict.expected)} have {_value(verdict.rule)}"
    end = "" if verdict.covered else ": too few to judge by, whatever the numbers say"
    return f"{_finding(verdict)} {few}{end}."


def _finding(verdict: Verdict) -> str:
    rule, metric, n = verdict.rule, verdict.metric, verdict.n
    if not n:
        none = f"none of {questions(verdict.expected)} has {_value(rule)}"
        why = none if verdict.expected else "there are no questions"
        return f"{metric} can't be judged: {why}."
    now = f"{metric} is {_number(verdict.value, n, rule)}"
    if isinstance(verdict.value, int):
        return f"{now}, must be {_wanted(rule)}."
    if not rule.baseline:
        found = f"{now}{_bound(verdict)}, must be {_wanted(rule)} ({questions(n)})."
        can_tell = verdict.outcome != "inconclusive"
        return found if can_tell else f"{found} {questions(n)} can't tell."
    if verdict.method == "identical rankings":
        same = f"{now} as in the {rule.reference}: the rankings of all {questions(n)} are identical"
        return f"{same}{'' if verdict.outcome == 'pass' else f'; {_wanted(rule)}'}."
    before = f"{_number(verdict.baseline or 0.0, n, rule)} in the {rule.reference}"
    change = f"{_change(verdict.difference or 0.0, verdict)}{_bound(verdict)}"
    found = f"{now} against {before}, {change}; {_wanted(rule)} ({questions(n)})."
    return f"{found}{_way_out(verdict)}"


def _number(value: float | int, n: int, rule: Rule) -> str:
    """A count in full, or a score in the digits that n carries, told apart from a fixed limit."""
    if isinstance(value, int):
        return count(value)
    return score(value, None if rule.baseline else rule.value, digits_of(n))


def _change(difference: float, verdict: Verdict) -> str:
    """Such as "a loss of 0.58", told apart from none and from what is tolerated."""
    if abs(difference) <= NOISE:
        return "no change"
    up, down = _WORDS[verdict.rule.lower_is_better]
    limits = 0.0, abs(verdict.rule.tolerance)
    texts = (score(abs(difference), limit, digits_of(verdict.n)) for limit in limits)
    return f"a {up if difference > 0 else down} of {max(texts, key=len)}"


def _value(rule: Rule) -> str:
    return f"a value both now and in the {rule.reference}" if rule.baseline else "a value"


def _wanted(rule: Rule) -> str:
    """What a rule asks for, after "must be" where it has no baseline."""
    if not rule.baseline:
        beyond = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
        return f"{beyond[rule.sign]} {rule.limit}"
    if rule.tolerance < 0 or (rule.strict and not rule.tolerance):
        return f"{_required(rule)} is required"
    _, loss = _losing(rule)
    if not rule.tolerance:
        return f"no {loss} is allowed"
    limit = "less than" if rule.strict else "up to"
    return f"a {loss} of {limit} {given(rule.tolerance)} is allowed"


def _required(rule: Rule) -> str:
    gain, _ = _losing(rule)
    least = f" of {'more than' if rule.strict else 'at least'} {given(-rule.tolerance)}"
    return f"a {gain}{least if rule.tolerance else ''}"


def _losing(rule: Rule) -> tuple[str, str]:
    """What is better is called, and what is worse."""
    up, down = _WORDS[rule.lower_is_better]
    return (down, up) if rule.lower_is_better else (up, down)


def _bound(verdict: Verdict) -> str:
    """How bad it may be; of a rule that fails, how good."""
    rule, is_fail = verdict.rule, verdict.outcome == "fail"
    bound = verdict.upper if is_fail != rule.lower_is_better else verdict.lower
    if rule.confidence is None or not verdict.covered or bound is None:
        return ""
    text = _change(bound, verdict) if rule.baseline else _number(bound, verdict.n, rule)
    end = "at best" if is_fail else "at worst"
    return f" ({end} {text} with {percent(verdict.confidence)} confidence)"


def _way_out(verdict: Verdict) -> str:
    """What can't be told, and what would tell it."""
    if verdict.outcome != "inconclusive":
        return ""
    rule, n = verdict.rule, questions(verdict.n)
    _, loss = _losing(rule)
    good = -(verdict.lower or 0.0) if rule.lower_is_better else verdict.upper or 0.0
    if rule.tolerance > 0 and good < 0:
        size = given(rule.tolerance)
        return f" The {loss} is clear; whether it is more than {size}, {n} can't tell."
    if rule.tolerance < 0 or (rule.strict and not rule.tolerance):
        open_question = f" {_required(rule).capitalize()} isn't shown with {n}."
    else:
        more = "or more" if rule.strict else ""
        most = f" of {'' if more else 'more than '}{given(rule.tolerance)}{more and f' {more}'}"
        size = most if rule.tolerance else ""
        open_question = f" A {loss}{size} can't be ruled out with {n}."
    allow = "" if verdict.decidable is None else f"allow {rounded_up(verdict.decidable, 2)}"
    if verdict.needed is not None:
        return f"{open_question} Use {about(verdict.needed)}{f', or {allow}' if allow else ''}."
    if allow and not rule.tolerance and not rule.strict:
        return f"{open_question} No number of questions rules out every {loss}: {allow}."
    return open_question
