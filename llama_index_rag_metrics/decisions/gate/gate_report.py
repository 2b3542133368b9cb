"""The report of a gate: what broke, each rule with its numbers, and the worst questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.numbers import counted, digits_apart, digits_for
from llama_index_rag_metrics.scores.first_line import NOTHING
from llama_index_rag_metrics.scores.scores_report import listed

if TYPE_CHECKING:
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


def gate_report(gate: GateReport) -> m.Report:
    name = f" of {gate.name}" if gate.name else ""
    worst_first = sorted(gate, key=_worst_first)
    rows = [_row(verdict, str(verdict.rule)) for verdict in worst_first]
    nothing = [note for note in gate.notes if note.startswith(NOTHING)]
    lead = [counted(len(rows), "rule", "rules"), *gate.about.values()]
    return m.Report(
        title=f"Retrieval gate{name}",
        lead=" · ".join(map(plain, lead)),
        outcome=_outcome(gate.outcome),
        decision=[*(m.Statement(note, "alarm") for note in nothing), *_decision(worst_first)],
        about=[*gate.about.items()],
        sections=[m.Section(_VERDICTS, [m.Table("", _HEAD, [rows], first="rule")])],
        listings=list(_listings(worst_first, gate.name)),
        notes=[note for note in gate.notes if note not in nothing],
        records=_records(gate),
    )


def _worst_first(verdict: Verdict) -> int:
    return ORDER.index(verdict.outcome)


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
    return [first, *(m.Statement(str(each), _TONES[each.outcome], each.outcome) for each in others)]


def _outcome(outcome: Outcome) -> m.Cell:
    return m.Cell(outcome, "outcome", _TONES[outcome])


def _row(verdict: Verdict, label: str) -> m.Row:
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
        label,
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
    return query.story._replace(answers=answers)


def _records(gate: GateReport) -> m.Records:
    rows = [verdict.record() for verdict in gate]
    columns = [name for name in (rows[0] if rows else {}) if name != "worst"]
    return m.Records.of(rows, columns)
