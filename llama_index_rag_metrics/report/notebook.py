"""Reports in a notebook, in the colours of its page, light or dark; data is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from llama_index_rag_metrics.report.escape import html as escape
from llama_index_rag_metrics.report.model import (
    Cell,
    Listing,
    QueryAnswers,
    Report,
    Row,
    Section,
    Statement,
    Table,
    Tone,
)
from llama_index_rag_metrics.report.numbers import shown
from llama_index_rag_metrics.report.query_lines import call_lines, retrieved_line, wanted_line

_STYLES: dict[Tone, str] = {
    "normal": "",
    "best": "font-weight:bold",
    "quiet": "opacity:.55",
    "alarm": "font-weight:bold;color:#d9534f",
    "open": "font-weight:bold;font-style:italic",
}
_PAGE = "background:transparent;color:inherit"
_RULE = ' style="border-top:1px solid rgba(128,128,128,.5)"'
_BOLD = "font-weight:bold"
_MOST_LINE = 120
_MOST_FAILURES = 20


def to_notebook(report: Report) -> str:
    """The decision and the main tables; everything else is folded below them."""
    outcome = "" if report.outcome is None else f": {escape(shown(report.outcome))}"
    title = f"<p><b>{escape(report.title)}{outcome}</b></p>" if report.decision else ""
    in_sight = [section for section in report.sections if not _is_folded(section)]
    further = [part for section in report.sections for part in _further(section)]
    failures = [
        f"{escape(system)}, <code>{escape(query_id)}</code>: {escape(error)}"
        for system, query_id, error in report.failures
    ]
    asides = [*report.notes, *(note for section in report.sections for note in section.notes)]
    parts = [
        title,
        *map(_said, report.decision),
        *map(set_table, report.tables("summary")),
        *map(_explained, in_sight),
        *further,
        *map(_listed, report.listings),
        _folded(f"Failed: {len(failures)}", _list(failures[:_MOST_FAILURES])),
        _folded("Notes", _list(map(escape, asides))) if further else _list(map(escape, asides)),
    ]
    return f"<div>{''.join(parts)}</div>"


def _is_folded(section: Section) -> bool:
    return bool(section.tables) and all(table.place != "summary" for table in section.tables)


def _further(section: Section) -> Iterator[str]:
    """The tables of a section that are folded, with its text where none is in sight."""
    folded = [table for table in section.tables if table.place != "summary"]
    text = _explained(section) if _is_folded(section) else ""
    for table in folded:
        title = section.heading if len(section.tables) == 1 else table.title
        yield _folded(title, set_table(table) + (text if table is folded[-1] else ""))


def _explained(section: Section) -> str:
    return f'<p style="opacity:.7">{escape(section.text)}</p>' if section.text else ""


def _said(statement: Statement) -> str:
    """A sentence; of one that begins with its label, the label alone stands out."""
    style, label = _STYLES[statement.tone], statement.label
    if label and statement.text.startswith(f"{label}: "):
        rest = escape(statement.text.removeprefix(label))
        return f'<p><span style="{style}">{escape(label)}</span>{rest}</p>'
    return f'<p style="{style}">{escape(statement.text)}</p>'


def set_table(table: Table) -> str:
    """A table as HTML; a rule goes above each of its parts."""
    first = "" if table.by_system and table.first == "metric" else table.first
    head = _cell(first, _BOLD, "th", "left") + "".join(
        _cell(name, _BOLD, "th", _side(table, column)) for column, name in enumerate(table.head)
    )
    rows = "".join(
        f"<tr{'' if number else _RULE}>{_row(row, table)}</tr>"
        for part in table.parts
        for number, row in enumerate(part)
    )
    return (
        f'<div style="overflow-x:auto"><table style="border-collapse:collapse;{_PAGE}">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(row: Row, table: Table) -> str:
    cells = (
        _cell(shown(cell), f"{_whole(cell)}{_STYLES[cell.tone]}", "td", _side(table, column))
        for column, cell in enumerate(row.cells)
    )
    return _cell(row.label, "font-weight:normal", "th", "left") + "".join(cells)


def _whole(cell: Cell) -> str:
    """A number isn't broken; a text may be."""
    return "" if cell.form == "text" else "white-space:nowrap;"


def _side(table: Table, column: int) -> Literal["left", "right"]:
    return "left" if column < table.text_columns else "right"


def _cell(text: str, style: str, tag: Literal["td", "th"], align: Literal["left", "right"]) -> str:
    base = f"text-align:{align};padding:.15em .8em;{_PAGE}"
    return f'<{tag} style="{base};{style}">{escape(text)}</{tag}>'


def _listed(listing: Listing) -> str:
    return _folded(listing.title, _list(_query(query, listing.most) for query in listing.queries))


def _query(query: QueryAnswers, most: int) -> str:
    lines = [
        f"{escape(answer.system)} <b>{escape(shown(answer.score))}</b> "
        f"{escape(_cut(retrieved_line(answer, most)))}"
        f"{_list(escape(_cut(line)) for line in call_lines(answer))}"
        for answer in query.answers
    ]
    if wanted := wanted_line(query):
        lines.append(f"wanted: {escape(wanted)}")
    lines += map(escape, query.remarks)
    return f"<code>{escape(query.query_id)}</code> {escape(query.text)}{_list(lines)}"


def _folded(title: str, inner: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inner}</details>" if inner else ""


def _list(items: Iterable[str]) -> str:
    inner = "".join(f"<li>{item}</li>" for item in items)
    return f"<ul>{inner}</ul>" if inner else ""


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_LINE else f"{text[: _MOST_LINE - 1]}…"
