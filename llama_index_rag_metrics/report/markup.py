"""Reports as Markdown, as GitHub shows it; what comes from data stays text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .model import Cell, Listing, Report, Table, Tone
from .numbers import shown
from .text import escape_markdown, excerpt

_SIGNS: Mapping[Tone, str] = {"best": "✅ ", "alarm": "❌ ", "open": "⚠️ "}


def to_markdown(report: Report) -> str:
    return "\n\n".join(filter(None, _blocks(report))) + "\n"


def _blocks(report: Report) -> Iterator[str]:
    title = escape_markdown(report.title)
    if report.outcome is not None:
        title += f": {_cell(report.outcome)}"
    yield f"### {title}"
    for statement in report.decision:
        yield escape_markdown(statement.text)
    for table in report.tables:
        yield from _table(table)
        yield escape_markdown(table.text)
    yield "\n".join(_bullets("", report.notes))
    for listing in report.listings:
        remarks = map(escape_markdown, (listing.lead, listing.legend))
        blocks = filter(None, [*remarks, "\n".join(_listed(listing))])
        yield _folded(listing.title, "\n\n".join(blocks))
    if report.failures:
        rows = [map(escape_markdown, (failure.system, failure.text)) for failure in report.failures]
        lines = _pipes(("system", "error"), ("---", "---"), *rows)
        yield _folded(report.failures_title, lines)


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"**{escape_markdown(table.title)}**"
    sides = [":--" if table.is_text(column) else "--:" for column in range(len(table.head))]
    rows = [(escape_markdown(row.label), *map(_cell, row.cells)) for row in table.rows]
    yield _pipes(map(escape_markdown, (table.label_head, *table.head)), [":--", *sides], *rows)


def _cell(cell: Cell) -> str:
    text = shown(cell)
    if cell.form == "outcome":
        return _SIGNS.get(cell.tone, "") + text
    if cell.form == "text":
        text = escape_markdown(text)
    return f"**{text}**" if cell.tone in ("best", "alarm") else text


def _listed(listing: Listing) -> Iterator[str]:
    for query in listing.queries:
        text = excerpt(query.text, most=200)
        yield f"- {escape_markdown(query.query_id)}: {escape_markdown(text)}".removesuffix(": ")
        yield from _bullets("  ", query.why)
        for passage in query.wanted[: listing.n_wanted]:
            yield f"  - relevant {escape_markdown(str(passage))}"
        yield from _bullets("  ", filter(None, [query.more_wanted(listing.n_wanted)]))
        for answer in query.answers:
            system, outcome = map(escape_markdown, (answer.system, answer.outcome))
            yield f"  - {system} {_cell(answer.score)} {outcome}".rstrip()
            yield from _bullets("    ", answer.searches or ())
            yield from _bullets("    ", map(str, (answer.retrieved or ())[: listing.n_items]))
        yield from _bullets("  ", query.remarks)
    yield from _bullets("", filter(None, [listing.more_in_words]))


def _bullets(indent: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{indent}- {escape_markdown(line)}"


def _pipes(*lines: Iterable[str]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _folded(title: str, inner: str) -> str:
    return f"<details><summary>{escape_markdown(title)}</summary>\n\n{inner}\n\n</details>"
