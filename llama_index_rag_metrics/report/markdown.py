"""Reports as GitHub shows Markdown; what comes from data stays text."""

from __future__ import annotations

from collections.abc import Iterator

from llama_index_rag_metrics.report.escape import markdown as escape
from llama_index_rag_metrics.report.lines import retrieved_line, wanted_line
from llama_index_rag_metrics.report.model import Cell, Listing, QueryAnswers, Report, Table, Tone
from llama_index_rag_metrics.report.numbers import shown

_STRONG: tuple[Tone, ...] = ("best", "alarm")
_MOST_TEXT = 200
_MOST_ITEMS = 5
_MOST_FAILURES = 20


def to_markdown(report: Report) -> str:
    """The decision, the tables, remarks; queries worth a look are folded."""
    return "\n\n".join(filter(None, _blocks(report))) + "\n"


def _blocks(report: Report) -> Iterator[str]:
    yield f"### {escape(report.title)}"
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
            f"| {escape(one.system)} | {escape(one.query_id)} | {escape(one.error)} |"
            for one in report.failures[:_MOST_FAILURES]
        ]
        yield _folded(
            f"Failed: {len(report.failures)}",
            "\n".join(["| system | query | error |", "| --- | --- | --- |", *lines]),
        )


def pipes(table: Table) -> str:
    """A table with pipes; what stands out is bold."""
    lines = [[escape(name) for name in (table.first, *table.head)]]
    lines.append(
        [":--", *(":--" if at < table.text_columns else "--:" for at in range(len(table.head)))]
    )
    lines += [[escape(row.label), *map(_cell, row.cells)] for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: Cell) -> str:
    text = escape(shown(cell, interval=False)) if cell.form == "text" else _number(cell)
    return f"**{text}**" if cell.tone in _STRONG else text


def _number(cell: Cell) -> str:
    return shown(cell, interval=False).replace("<", "&lt;")


def _listed(listing: Listing) -> str:
    lines = [_query(query) for query in listing.queries]
    if not lines:
        return ""
    head = ["| query | question | what came | wanted |", "| --- | --- | --- | --- |"]
    return _folded(listing.title, "\n".join([*head, *lines]))


def _query(query: QueryAnswers) -> str:
    came = [
        " ".join(
            filter(
                None,
                [
                    escape(answer.system),
                    _number(answer.score) if answer.score.value is not None else "",
                    escape(retrieved_line(answer, _MOST_ITEMS)),
                ],
            )
        )
        for answer in query.answers
    ]
    cells = (
        escape(query.query_id),
        escape(query.text[:_MOST_TEXT]),
        "<br>".join([*came, *map(escape, query.remarks)]),
        escape(wanted_line(query)),
    )
    return f"| {' | '.join(cells)} |"


def _folded(title: str, inner: str) -> str:
    return f"<details><summary>{escape(title)}</summary>\n\n{inner}\n\n</details>"
