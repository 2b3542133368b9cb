"""The parts of the page that need no script: header, decision, tables, remarks, glossary."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from urllib.parse import urlencode

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import Element, element
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.failures import failure_lines, failures_title
from llama_index_rag_metrics.report.numbers import interval_of, shown
from llama_index_rag_metrics.report.query_lines import (
    came_lines,
    in_order,
    more_wanted,
    wanted_lines,
)
from llama_index_rag_metrics.report.why import why_lines

_WIDE_TABLE_COLUMNS = 8  # A table of more columns than this is set smaller
_LONG_SECTION_ROWS = 24  # in a section of more rows, further tables are folded
_ONE_COLUMN_CHARACTERS = 80  # A longer value of the header has a line of its own
_FEW_CARDS = 3  # as many need no contents


def header(report: m.Report) -> list[Element]:
    lead: Element | str = report.lead
    if report.outcome is not None:
        lead = element("b", shown(report.outcome), class_=f"outcome {report.outcome.tone}")
    # below a decision it is folded
    above = [] if report.decision else _about(report.about)
    return [element("p", lead, class_="quiet"), *above]


def _about(about: Sequence[tuple[str, str]]) -> list[Element]:
    lines = [
        element(
            "div",
            element("dt", label),
            element("dd", plain(value)),
            **({"class_": "long"} if len(value) > _ONE_COLUMN_CHARACTERS else {}),
        )
        for label, value in about
    ]
    return [element("dl", *lines, class_="about")] if lines else []


def decision(report: m.Report) -> list[Element]:
    if not report.decision:
        return []
    # the first card comes next, and needs no link
    known = {each.heading for each in [each for each in report.sections if not each.aside][1:]}
    known |= {listing.title for listing in report.listings if not listing.on_request}
    if report.queries is not None:
        known.add("questions")
    verdicts = []
    for each in report.decision:
        # a statement with a label has its tone there
        tone = each.tone if each.tone in ("alarm", "quiet") and not each.label else ""
        look = f"verdict {tone}".rstrip()
        verdicts += [element("p", *_words(each, known), class_=look), *_command(each)]
    rest = [element("li", *_words(each, known), *_command(each)) for each in report.further]
    folded = [_fold("The other metrics in words", element("ul", *rest))] if rest else []
    heading = element("h2", "Decision", class_="unseen")
    about = _about(report.about)
    folded += [_fold("About this run", *about)] if about else []
    return [element("section", heading, *verdicts, *folded, class_="card")]


def contents(cards: Iterable[Element | tuple[str, str]]) -> list[Element]:
    """Links to the cards, each a section or (id, heading), with a title in sight."""
    links: dict[str, str] = {}
    for card in cards:
        if isinstance(card, tuple):
            links[card[0]] = card[1]
            continue
        heading = card.find("h2")
        if heading is None or heading.get("class") == "unseen":
            continue
        title = heading.text or ""
        if (anchor := _anchor(title)) not in links:
            card.set("id", anchor)
            links[anchor] = title
    if len(links) <= _FEW_CARDS:
        return []
    rows = [element("li", _link(anchor, title)) for anchor, title in links.items()]
    return [element("nav", element("ul", *rows), class_="contents", aria_label="Contents")]


def sections(report: m.Report, *, aside: bool) -> list[Element]:
    """The tables that everybody needs, or the others."""
    return [_section(section) for section in report.sections if section.aside is aside]


def listings(report: m.Report, known: Collection[str] = ()) -> list[Element]:
    """Questions worth a look, linked to the table if it has these `known` ids; and errors."""
    cards = [_listing(listing, known) for listing in report.listings if not listing.on_request]
    if report.failures:
        lines = map(str, failure_lines(report.failures))
        cards.append(_card(failures_title(report.failures), _bullets(lines)))
    return cards


def notes(report: m.Report, *further: Element) -> list[Element]:
    children = [_bullets(report.notes)] if report.notes else []
    return [_card("Notes", *children, *further)] if children or further else []


def glossary(report: m.Report) -> list[Element]:
    if not report.glossary:
        return []
    terms = [
        element("div", element("dt", term.name), element("dd", term.meaning))
        for term in report.glossary
    ]
    folded = _fold("What the metrics mean", element("dl", *terms))
    return [element("section", folded, class_="card glossary")]


def _fold(label: str, *children: Element) -> Element:
    return element("details", element("summary", plain(label)), *children)


def _bullets(texts: Iterable[str]) -> Element:
    return element("ul", *(element("li", plain(text)) for text in texts))


def _words(statement: m.Statement, known: Collection[str]) -> list[Element | str]:
    words: list[Element | str] = [plain(statement.text)]
    if statement.label:
        chip = element("span", statement.label, class_=f"chip {statement.tone}")
        words = [chip, " ", plain(statement.text.removeprefix(f"{statement.label}: "))]
    if statement.evidence in known:
        is_all = statement.evidence == "questions"
        anchor = "all-queries" if is_all else _anchor(statement.evidence)
        words += [" ", _link(anchor, f"→ {statement.evidence}")]
    return words


def _command(statement: m.Statement) -> list[Element]:
    code = element("code", plain(statement.command))
    return [element("p", code, class_="command")] if statement.command else []


def _anchor(heading: str) -> str:
    words = re.findall(r"\w+", heading.lower())
    return "-".join(["at", *words])


def _link(anchor: str, title: str) -> Element:
    return element("a", plain(title), href=f"#{anchor}")


def _section(section: m.Section) -> Element:
    children: list[Element] = []
    is_long = sum(len(table.rows) for table in section.tables) > _LONG_SECTION_ROWS
    for number, table in enumerate(section.tables):
        is_further = number > 0 and table.place == "detail" and is_long
        if section.folded or is_further:
            children.append(_fold(table.title, *_said(table), _set(table, table.parts)))
            continue
        # one with folded rows by itself is what the heading says
        if table.title not in ("", section.heading) and (len(section.tables) > 1 or not table.fold):
            children.append(element("h3", plain(table.title)))
        children += _said(table)
        first = table.parts[:1] if table.fold else table.parts
        children.append(_set(table, first))
        if further := table.parts[len(first) :]:
            children.append(_fold(table.fold, _set(table, further)))
    if section.notes:
        children.append(_fold("Missing or approximate intervals", _bullets(section.notes)))
    if section.text:
        children.append(element("p", section.text, class_="quiet"))
    return _card(section.heading, *children)


def _said(table: m.Table) -> list[Element]:
    return [element("p", plain(table.remark), class_="quiet")] if table.remark else []


def _listing(listing: m.Listing, known: Collection[str]) -> Element:
    more = [element("li", line, class_="quiet") for line in [listing.more_in_words] if line]
    queries = [_query(query, listing.most, known) for query in listing.queries]
    lines = filter(None, (listing.remark, listing.lead, listing.legend))
    above = [element("p", plain(line), class_="quiet") for line in lines]
    return _card(listing.title, *above, element("ul", *queries, *more, class_="listing"))


def _query(query: m.QueryAnswers, most: int, known: Collection[str]) -> Element:
    lines = [
        element(
            "p",
            element("b", plain(answer.system)),
            f" {shown(answer.score)}",
            *(element("span", line.text) for line in came_lines(query, answer, most)),
        )
        for answer in query.answers
    ]
    relevant = [f"relevant: {line}" for line in wanted_lines(query)]
    relevant += [more] if (more := more_wanted(query)) else []
    before = [element("p", line, class_="quiet") for line in relevant]
    why = [element("p", line, class_="why") for line in why_lines(query)]
    lines = [*why, *chain(*in_order(query, before, lines))]
    lines += [element("p", plain(remark), class_="quiet") for remark in query.remarks]
    name: Element | str = plain(query.query_id)
    if query.query_id in known:
        name = _link(urlencode({"q": query.query_id}), query.query_id)
    return element("li", f"{plain(query.text)} ", element("small", name), *lines)


def _card(heading: str, *children: Element) -> Element:
    return element("section", element("h2", heading), *children, class_="card")


def _set(table: m.Table, parts: Sequence[Sequence[m.Row]]) -> Element:
    """The table; each cell knows its column's name, so that a narrow screen can stack them."""
    title = plain(table.title)
    first, *head = (plain(name) for name in (table.first, *table.head))
    sides = ["text" if n < table.text_columns else "number" for n in range(len(head))]
    heads = [
        element("th", name, scope="col", class_=side) if name else element("td")
        for name, side in zip(head, sides, strict=True)
    ]
    corner = element("th", first, scope="col") if first else element("td", class_="corner")
    looks = {
        "numbers": True,
        "many": len(table.head) > _WIDE_TABLE_COLUMNS or table.system_rows,
        "systems": table.system_rows,
        "sortable": table.sortable,
    }
    grid = element(
        "table",
        element("caption", title or "Numbers", class_="unseen"),
        element("thead", element("tr", corner, *heads)),
        *(element("tbody", *(_row(row, table, head, sides) for row in part)) for part in parts),
        class_=" ".join(look for look, is_so in looks.items() if is_so),
    )
    label = f"Table: {title or 'numbers'}"
    return element("div", grid, class_="wide", tabindex="0", role="group", aria_label=label)


def _row(row: m.Row, table: m.Table, head: Sequence[str], sides: Sequence[str]) -> Element:
    cells = []
    for cell, label, side in zip(row.cells, head, sides, strict=True):
        look = {"class_": f"{cell.tone} {side}", "data_label": label}
        if table.sortable and isinstance(cell.value, (int, float)):
            look["data_sort"] = repr(cell.value)  # the number as it is, for the page's script
        cells.append(element("td", *_value(cell), **look))
    return element("tr", element("th", plain(row.label), scope="row"), *cells)


def _value(cell: m.Cell) -> list[Element | str]:
    parts: list[Element | str] = [plain(shown(cell, interval=False))]
    if cell.tone == "leading":
        parts += [" ", element("b", "best mean", class_="tag")]
    if interval := interval_of(cell).strip():
        parts += [" ", element("small", interval)]
    return parts
