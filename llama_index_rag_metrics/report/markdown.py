"""Reports as GitHub shows Markdown; what comes from data stays text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llama_index_rag_metrics.report.escape import markdown as escape
from llama_index_rag_metrics.report.model import Cell, Listing, QueryAnswers, Report, Table, Tone
from llama_index_rag_metrics.report.numbers import shown
from llama_index_rag_metrics.report.query_lines import call_lines, retrieved_line, wanted_line

_SIGNS: Mapping[Tone, str] = {"best": "✅", "alarm": "❌", "open": "⚠️"}
_STRONG: tuple[Tone, ...] = ("best", "alarm")
_MOST_TEXT = 200
_MOST_ITEMS = 5
_MOST_FAILURES = 20


def to_markdown(report: Report) -> str:
    """The decision, the tables, remarks; queries worth a look are folded."""
    return "\n\n".join(filter(None, _blocks(report))) + "\n"


def _blocks(report: Report) -> Iterator[str]:
    outcome = "" if report.outcome is None else f": {_cell(report.outcome)}"
    yield f"### {escape(report.title)}{outcome}"
    for statement in report.decision:
        yield escape(statement.text)
    for table in report.tables("summary", "detail"):
        if table.title:
            yield f"**{escape(table.title)}**"
        yield pipes(table)
    for section in report.sections:
        yield escape(section.text)
    yield "\n".join(f"- {escape(note)}" for note in report.notes)
    for listing in report.listings:
        yield _listed(listing)
    if report.failures:
        lines = [
            f"| {escape(failure.system)} | {escape(failure.query_id)} | {escape(failure.error)} |"
            for failure in report.failures[:_MOST_FAILURES]
        ]
        yield _folded(
            f"Failed: {len(report.failures)}",
            "\n".join(["| system | query | error |", "| --- | --- | --- |", *lines]),
        )


def pipes(table: Table) -> str:
    """A table with pipes; what stands out is bold."""
    lines = [[escape(name) for name in (table.first, *table.head)]]
    lines.append(
        [
            ":--",
            *(":--" if column < table.text_columns else "--:" for column in range(len(table.head))),
        ]
    )
    lines += [[escape(row.label), *map(_cell, row.cells)] for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: Cell) -> str:
    text = shown(cell, interval=False)
    if cell.form == "outcome":
        return f"{_SIGNS.get(cell.tone, '')} {text}".strip()
    # a number holds no markup but the sign of a small p
    text = escape(text) if cell.form == "text" else text.replace("<", "&lt;")
    return f"**{text}**" if cell.tone in _STRONG else text


def _listed(listing: Listing) -> str:
    rows = [row for query in listing.queries for row in _rows(query)]
    head = ["| query | question | system | score | wanted | got |", f"|{' --- |' * 6}"]
    return _folded(listing.title, "\n".join([*head, *rows])) if rows else ""


def _rows(query: QueryAnswers) -> Iterator[str]:
    """One row an answer; one in all where there are only remarks."""
    asked = escape(query.query_id), escape(query.text[:_MOST_TEXT])
    wanted = escape(wanted_line(query))
    for answer in query.answers:
        retrieved = escape("; ".join([retrieved_line(answer, _MOST_ITEMS), *call_lines(answer)]))
        cells = (*asked, escape(answer.system), _cell(answer.score), wanted, retrieved)
        yield f"| {' | '.join(cells)} |"
    if query.remarks:
        cells = (*asked, "", "", wanted, escape("; ".join(query.remarks)))
        yield f"| {' | '.join(cells)} |"


def _folded(title: str, inner: str) -> str:
    return f"<details><summary>{escape(title)}</summary>\n\n{inner}\n\n</details>"
