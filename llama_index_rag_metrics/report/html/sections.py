"""The parts of the page that need no script: header, decision, tables, remarks, glossary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.html.elements import Element, element
from llama_index_rag_metrics.report.model import (
    Cell,
    Listing,
    QueryAnswers,
    Report,
    Row,
    Section,
    Statement,
    Table,
)
from llama_index_rag_metrics.report.numbers import score, shown
from llama_index_rag_metrics.report.query_lines import call_lines, retrieved_line, wanted_line

_WIDE_TABLE_COLUMNS = 8
"""A table of more columns than this is set smaller."""

_LONG_SECTION_ROWS = 24
"""In a section of more rows, further tables are folded."""

_LONG_VALUE = 80
"""A longer value of the header has a line of its own."""


def header(report: Report) -> list[Element]:
    said: list[Element | str] = [report.lead]
    if report.outcome is not None:
        said = [element("b", shown(report.outcome), class_=f"outcome {report.outcome.tone}")]
    lead = element("p", *said, class_="quiet")
    if not report.about:
        return [lead]
    lines = [
        element(
            "div",
            element("dt", label),
            element("dd", plain(value)),
            **({"class_": "long"} if len(value) > _LONG_VALUE else {}),
        )
        for label, value in report.about
    ]
    return [lead, element("dl", *lines, class_="about")]


def decision(report: Report) -> list[Element]:
    if not report.decision:
        return []
    said = [element("p", *_said(statement), class_="verdict") for statement in report.decision]
    rest = [element("li", *_said(statement)) for statement in report.further]
    folded = [fold("The other metrics in words", element("ul", *rest))] if rest else []
    return [
        element(
            "section", element("h2", "Decision", class_="unseen"), *said, *folded, class_="card"
        )
    ]


def sections(report: Report, *, aside: bool) -> list[Element]:
    """The tables that everybody needs, or the others."""
    return [_section(section) for section in report.sections if section.aside is aside]


def listings(report: Report) -> list[Element]:
    """Queries worth a look; those on request are found in the table of all queries."""
    return [_listing(listing) for listing in report.listings if not listing.on_request]


def notes(report: Report, *further: Element) -> list[Element]:
    known = [element("li", plain(note)) for note in report.notes]
    children = [element("ul", *known)] if known else []
    return [_card("Notes", *children, *further)] if children or further else []


def glossary(report: Report) -> list[Element]:
    if not report.glossary:
        return []
    terms = [
        element("div", element("dt", term.name), element("dd", term.meaning))
        for term in report.glossary
    ]
    return [
        element(
            "section", fold("What the metrics mean", element("dl", *terms)), class_="card glossary"
        )
    ]


def fold(label: str, *children: Element) -> Element:
    return element("details", element("summary", plain(label)), *children)


def _said(statement: Statement) -> list[Element | str]:
    if not statement.label:
        return [plain(statement.text)]
    chip = element("span", statement.label, class_=f"chip {statement.tone}")
    return [chip, " ", plain(statement.text.removeprefix(f"{statement.label}: "))]


def _section(section: Section) -> Element:
    children: list[Element] = []
    is_long = sum(len(table.rows) for table in section.tables) > _LONG_SECTION_ROWS
    for number, table in enumerate(section.tables):
        is_further = number > 0 and table.place == "detail" and is_long
        if section.folded or is_further:
            children.append(fold(table.title, _set(table, table.parts)))
            continue
        if table.title and len(section.tables) > 1:
            children.append(element("h3", plain(table.title)))
        first = table.parts[:1] if table.fold else table.parts
        children.append(_set(table, first))
        if further := table.parts[len(first) :]:
            children.append(fold(table.fold, _set(table, further)))
    if section.notes:
        remarks = element("ul", *(element("li", plain(note)) for note in section.notes))
        children.append(fold("Why some have none, or a rough one", remarks))
    if section.text:
        children.append(element("p", section.text, class_="quiet"))
    return _card(section.heading, *children)


def _listing(listing: Listing) -> Element:
    more = [element("li", f"and {listing.more} more", class_="quiet")] if listing.more > 0 else []
    queries = [_query(query, listing.most) for query in listing.queries]
    return _card(listing.title, element("ul", *queries, *more, class_="listing"))


def _query(query: QueryAnswers, most: int) -> Element:
    question = plain(query.text)
    lines = [
        element(
            "p",
            element("b", plain(answer.system)),
            f" {': '.join(filter(None, (shown(answer.score), retrieved_line(answer, most))))}",
            *(element("span", line, class_="quiet") for line in call_lines(answer)),
        )
        for answer in query.answers
    ]
    if wanted := wanted_line(query):
        lines.append(element("p", f"wanted: {wanted}", class_="quiet"))
    lines += [element("p", plain(remark), class_="quiet") for remark in query.remarks]
    return element("li", f"{question} ", element("small", plain(query.query_id)), *lines)


def _card(heading: str, *children: Element) -> Element:
    return element("section", element("h2", heading), *children, class_="card")


def _set(table: Table, parts: Sequence[Sequence[Row]]) -> Element:
    """The table; each cell knows its column's name, so that a narrow screen can stack them."""
    head = [plain(name) for name in (table.first, *table.head)]
    first = element("th", head[0], scope="col") if head[0] else element("td", class_="corner")
    heads: Iterable[Element] = (
        element("th", name, scope="col", class_=_side(table, column)) if name else element("td")
        for column, name in enumerate(head[1:])
    )
    made = element(
        "table",
        element("caption", plain(table.title) or "Numbers", class_="unseen"),
        element("thead", element("tr", first, *heads)),
        *(element("tbody", *(_row(row, head[1:], table) for row in part)) for part in parts),
        class_="numbers many" if len(table.head) > _WIDE_TABLE_COLUMNS else "numbers",
    )
    return element(
        "div", made, class_="wide", tabindex="0", role="group",
        aria_label=f"Table: {plain(table.title) or 'numbers'}",
    )  # fmt: skip


def _row(row: Row, head: Sequence[str], table: Table) -> Element:
    cells = [
        element(
            "td",
            *_value(cell, table),
            class_=f"{cell.tone} {_side(table, column)}",
            data_label=label,
        )
        for column, (cell, label) in enumerate(zip(row.cells, head, strict=True))
    ]
    return element("tr", element("th", plain(row.label), scope="row"), *cells)


def _side(table: Table, column: int) -> str:
    return "text" if column < table.text_columns else "number"


def _value(cell: Cell, table: Table) -> list[Element | str]:
    parts: list[Element | str] = [plain(shown(cell, interval=False))]
    if cell.tone == "best" and table.by_system:
        parts.append(element("b", "best mean", class_="tag"))
    if cell.form == "score" and cell.low is not None and cell.high is not None:
        parts.append(element("small", f"[{score(cell.low)}, {score(cell.high)}]"))
    return [piece for part in parts for piece in (part, " ")][:-1]
