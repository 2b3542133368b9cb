"""Reports in a notebook, in the colours of its page, light or dark; data is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import html as escape
from llama_index_rag_metrics.report.numbers import shown
from llama_index_rag_metrics.report.query_lines import call_lines, retrieved_line, wanted_line

_STYLES: dict[m.Tone, str] = {
    "normal": "",
    "best": "font-weight:bold",
    "quiet": "opacity:.55",
    "alarm": "font-weight:bold;color:#d9534f",
    "open": "font-weight:bold;font-style:italic",
}
_PAGE = "background:transparent;color:inherit"
_RULE = ' style="border-top:1px solid rgba(128,128,128,.5)"'
_LINE_CHARACTERS = 120
_LISTED_FAILURES = 20


def to_notebook(report: m.Report) -> str:
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
    notes = _list(map(escape, asides))
    parts = [
        title,
        *map(_paragraph, report.decision),
        *map(set_table, report.tables("summary")),
        *map(_explained, in_sight),
        *further,
        *map(_listed, report.listings),
        _folded(f"Failed: {len(failures)}", _list(failures[:_LISTED_FAILURES])),
        _folded("Notes", notes) if further else notes,
    ]
    return f"<div>{''.join(parts)}</div>"


def _is_folded(section: m.Section) -> bool:
    return bool(section.tables) and all(table.place != "summary" for table in section.tables)


def _further(section: m.Section) -> Iterator[str]:
    """The tables of a section that are folded, with its text where none is in sight."""
    folded = [table for table in section.tables if table.place != "summary"]
    text = _explained(section) if _is_folded(section) else ""
    for table in folded:
        title = section.heading if len(section.tables) == 1 else table.title
        yield _folded(title, set_table(table) + (text if table is folded[-1] else ""))


def _explained(section: m.Section) -> str:
    return f'<p style="opacity:.7">{escape(section.text)}</p>' if section.text else ""


def _paragraph(statement: m.Statement) -> str:
    """A sentence; of one that begins with its label, the label alone stands out."""
    style, label = _STYLES[statement.tone], statement.label
    if label and statement.text.startswith(f"{label}: "):
        rest = escape(statement.text.removeprefix(label))
        return f'<p><span style="{style}">{escape(label)}</span>{rest}</p>'
    return f'<p style="{style}">{escape(statement.text)}</p>'


def set_table(table: m.Table) -> str:
    """A table as HTML; a rule goes above each of its parts."""
    first = "" if table.by_system and table.first == "metric" else table.first
    sides = ["left" if n < table.text_columns else "right" for n in range(len(table.head))]
    names = zip([first, *table.head], ["left", *sides], strict=True)
    head = "".join(_cell("th", name, side, "font-weight:bold") for name, side in names)
    rows = "".join(
        f"<tr{'' if number else _RULE}>{_row(row, sides)}</tr>"
        for part in table.parts
        for number, row in enumerate(part)
    )
    return (
        f'<div style="overflow-x:auto"><table style="border-collapse:collapse;{_PAGE}">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(row: m.Row, sides: Iterable[str]) -> str:
    texts = [_cell("th", row.label, "left", "font-weight:normal")]
    for cell, side in zip(row.cells, sides, strict=True):
        # a number isn't broken; a text may be
        whole = "" if cell.form == "text" else "white-space:nowrap;"
        texts.append(_cell("td", shown(cell), side, whole + _STYLES[cell.tone]))
    return "".join(texts)


def _cell(tag: str, text: str, side: str, style: str) -> str:
    base = f"text-align:{side};padding:.15em .8em;{_PAGE}"
    return f'<{tag} style="{base};{style}">{escape(text)}</{tag}>'


def _listed(listing: m.Listing) -> str:
    return _folded(listing.title, _list(_query(query, listing.most) for query in listing.queries))


def _query(query: m.QueryAnswers, most: int) -> str:
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
    return text if len(text) <= _LINE_CHARACTERS else f"{text[: _LINE_CHARACTERS - 1]}…"
