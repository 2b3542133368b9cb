"""The verdicts as text, for the terminal and for the message of a failed test."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from llama_index_rag_metrics.gate.verdicts import GateReport, Outcome, Verdict, WorstQuery
from llama_index_rag_metrics.gate.words import number, signed
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.numbers import NO_VALUE
from llama_index_rag_metrics.report.terminal import Trimmed

HEAD = ("verdict", "rule", "now", "baseline", "difference", "bounds", "queries")

_STYLES: dict[Outcome, str] = {"pass": "green", "fail": "bold red", "inconclusive": "yellow"}
_MOST_TEXT = 200
_INDENT, _GAP = 1, 2
_FEWEST = 3
"""So many columns are always shown: verdict, rule, now."""


def print_report(report: GateReport, *, worst: int = 3, console: Console | None = None) -> None:
    """Print the verdicts: a table, a sentence on each, and the worst queries where one isn't kept.

    Args:
        report: the verdicts.
        worst: so many of the worst queries of each rule that isn't kept.
        console: where to; None is standard output.
    """
    out = console or Console(highlight=False)
    for part in _parts(report, worst, out.width - _INDENT):
        out.print(Trimmed(Padding.indent(part, _INDENT)))


def to_text(report: GateReport, *, worst: int = 3, width: int = 120) -> str:
    """What `print_report` prints, without colours."""
    page = io.StringIO()
    print_report(
        report,
        worst=worst,
        console=Console(file=page, width=width, color_system=None, highlight=False),
    )
    return page.getvalue().rstrip("\n")


def cells(verdict: Verdict) -> tuple[str, ...]:
    """The row of a verdict under `HEAD`, rounded."""
    rule, limit = verdict.rule, verdict.rule.value
    show = signed if rule.baseline else number
    bounds = NO_VALUE
    if rule.confidence is not None and (verdict.lower, verdict.upper) != (None, None):
        ends = (
            NO_VALUE if one is None else show(one, limit) for one in (verdict.lower, verdict.upper)
        )
        bounds = " … ".join(ends)
    return (
        verdict.outcome,
        plain(str(rule)),
        number(verdict.value, None if rule.baseline else limit) if verdict.n else NO_VALUE,
        NO_VALUE if verdict.baseline is None or not verdict.n else number(verdict.baseline),
        NO_VALUE if verdict.difference is None else signed(verdict.difference, limit),
        bounds,
        f"{verdict.n:,}",
    )


def score_of(query: WorstQuery) -> str:
    """The score of one of the worst queries, with that before."""
    return (
        number(query.score)
        if query.baseline is None
        else (f"{number(query.baseline)} → {number(query.score)}")
    )


def got_of(query: WorstQuery) -> str:
    """What came, in one line."""
    if query.error:
        return f"failed: {plain(query.error)}"
    return ", ".join(map(plain, query.got))


def _parts(report: GateReport, worst: int, width: int) -> Iterator[RenderableType]:
    name = f" of {plain(report.name)}" if report.name else ""
    yield Text.assemble(
        (f"Retrieval gate{name}: ", "bold"), (report.outcome, _STYLES[report.outcome])
    )
    yield Text()
    yield _table(report.verdicts, width)
    yield Text()
    for verdict in report.broken(strict=True):
        sentence = f": {plain(verdict.sentence)}"
        yield Text.assemble((verdict.outcome, _STYLES[verdict.outcome]), sentence)
    for verdict in report.with_worst() if worst else ():
        yield Text(f"\nWorst queries by {plain(verdict.metric)}", "bold")
        for query in verdict.worst[:worst]:
            yield from _query(query)
    if report.notes:
        yield Text("\nNotes", "bold")
        for note in report.notes:
            yield Text(f"! {plain(note)}")


def _table(verdicts: Sequence[Verdict], width: int) -> Table:
    """The table, without its last columns where words of the rules would be broken."""
    rows = [cells(one) for one in verdicts]
    widths = [max(map(cell_len, column)) for column in zip(HEAD, *rows, strict=True)]
    at = HEAD.index("rule")
    widths[at] = max(cell_len(word) for row in rows for word in row[at].split())
    while len(widths) > _FEWEST and sum(widths) + _GAP * len(widths) > width:
        widths.pop()
    shown = HEAD[: len(widths)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for head in shown:
        left = head in {"verdict", "rule"}
        wraps = head == "rule"
        table.add_column(
            head, justify="left" if left else "right", no_wrap=not wraps, overflow="fold"
        )
    for verdict, row in zip(verdicts, rows, strict=True):
        first, *rest = row[: len(shown)]
        table.add_row(Text(first, _STYLES[verdict.outcome]), *map(Text, rest))
    return table


def _query(query: WorstQuery) -> Iterator[RenderableType]:
    yield Text.assemble(
        f"{plain(query.query_id)}  {score_of(query)}  ",
        (plain(query.question)[:_MOST_TEXT], "bold"),
    )
    if query.wanted:
        yield Text(f"    wanted  {', '.join(map(plain, query.wanted))}")
    if got := got_of(query):
        yield Text(f"    got     {got}")
