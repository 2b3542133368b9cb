"""The parts of the page that need no script: verdict, tables of means and differences, remarks."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index_rag_metrics.report.compared import (
    Table,
    difference_tables,
    headline_of,
    hole_tables,
    mean_remarks,
    mean_table,
    mean_text,
    remarks_of,
    settings_of,
    slice_tables,
    tukey_table,
    verdicts,
)
from llama_index_rag_metrics.report.compared import title_of as compared_title
from llama_index_rag_metrics.report.html.elements import Element, element
from llama_index_rag_metrics.report.plots import Drawn, mean_of
from llama_index_rag_metrics.report.summary import Cell, Row, Tone, plain, remarks, sections

_CHIPS: dict[Tone, str] = {"best": "better", "alarm": "worse", "normal": "undecided"}


def title_of(drawn: Drawn) -> str:
    """What the page is about."""
    if drawn.comparison is not None:
        return compared_title(drawn.comparison)
    names = [one.name for one in drawn.systems]
    return "Retrieval evaluation" if names == ["score"] else f"Retrieval of {', '.join(names)}"


def lead(drawn: Drawn) -> str:
    """How many queries and metrics, in one line."""
    scored = max(one.scores.counts.scored for one in drawn.systems)
    total = max(one.scores.counts.queries for one in drawn.systems)
    n = scored if drawn.comparison is None else len(drawn.comparison.query_ids)
    of = f" of {total:,}" if total != n else ""
    verb = "scored" if drawn.comparison is None else "compared"
    metrics = len(drawn.metric_names)
    return f"{n:,}{of} queries {verb} by {metrics} metric{'' if metrics == 1 else 's'}"


def summary(drawn: Drawn) -> list[Element]:
    """The verdict and the tables."""
    if drawn.comparison is None:
        plain_means = _plain_means(drawn)
        return [_card(plain_means.title, _set(plain_means), *_counts(drawn))]
    comparison = drawn.comparison
    rest = [
        element("li", _chip(look), " ", sentence)
        for metric in comparison.metric_names
        if metric != headline_of(comparison)
        for look, sentence in verdicts(comparison, metric)
    ]
    parts = [
        element(
            "section",
            *(
                element("p", _chip(look), " ", sentence, class_="verdict")
                for look, sentence in verdicts(comparison)
            ),
            *([_folded("The other metrics in words", element("ul", *rest))] if rest else []),
            class_="card",
        )
    ]
    settings = element("p", settings_of(comparison), class_="quiet")
    tables = [_titled(one) for one in difference_tables(comparison)]
    parts.append(_card("Differences", *tables, settings))
    means = mean_table(comparison)
    why = [element("li", one) for one in mean_remarks(comparison)]
    rough = [_folded("Why some have none, or a rough one", element("ul", *why))] if why else []
    parts.append(_card(means.title, _set(means), *rough, *_counts(drawn)))
    return parts


def details(drawn: Drawn) -> list[Element]:
    """What not everybody needs: slices, all pairs of systems, holes in the judgements."""
    if drawn.comparison is None:
        return []
    parts = []
    slices = [_titled(one) for one in slice_tables(drawn.comparison)]
    if slices:
        parts.append(_card("Slices", *slices))
    tukey = tukey_table(drawn.comparison)
    if tukey is not None:
        parts.append(_card(tukey.title, _set(tukey)))
    holes = [_folded(one.title, _set(one)) for one in hole_tables(drawn.comparison)]
    if holes:
        parts.append(_card("Unjudged items", element("p", _HOLES, class_="quiet"), *holes))
    return parts


_HOLES = (
    "What each mean would be if the unjudged items that it sees had been judged. Bounds hold "
    "whatever the judgements are; two cases are two among many."
)


def notes(drawn: Drawn) -> list[Element]:
    """What a reader of the numbers should know."""
    known = remarks(drawn.systems) if drawn.comparison is None else remarks_of(drawn.comparison)
    if not known:
        return []
    return [_card("Notes", element("ul", *(element("li", one) for one in known)))]


def _plain_means(drawn: Drawn) -> Table:
    rows = []
    for metric in drawn.metric_names:
        found = [mean_of(drawn, at, metric) for at in range(len(drawn.systems))]
        cells = [Cell("–", "quiet") if one is None else Cell(mean_text(one)) for one in found]
        rows.append(Row(plain(metric), cells))
    return Table("Means with 95 % intervals", [one.name for one in drawn.systems], rows)


def _counts(drawn: Drawn) -> list[Element]:
    """Counts, latency and usage: the sections of the summary but the means."""
    names = [one.name for one in drawn.systems]
    rows = [row for part in sections(drawn.systems)[1:] for row in part]
    return [_folded("Counts and latency", _set(Table("", names, rows, first="")))]


def _card(heading: str, *children: Element) -> Element:
    return element("section", element("h2", heading), *children, class_="card")


def _titled(table: Table) -> Element:
    return element("div", element("h3", table.title), _set(table))


def _folded(label: str, *children: Element) -> Element:
    return element("details", element("summary", label), *children)


def _chip(look: Tone) -> Element:
    return element("span", _CHIPS[look], class_=f"chip {_CHIPS[look]}")


def _set(table: Table) -> Element:
    """The table; each cell knows its column's name, so that a narrow screen can stack them."""
    head = [element("th", one, scope="col") for one in (table.first, *table.head)]
    body = [_row(row, table.head) for row in table.rows]
    made = element(
        "table", element("thead", element("tr", *head)), element("tbody", *body), class_="numbers"
    )
    return element("div", made, class_="wide")


def _row(row: Row, head: Sequence[str]) -> Element:
    cells = [
        element("td", one.text, class_=one.tone, data_label=label)
        for one, label in zip(row.cells, head, strict=True)
    ]
    return element("tr", element("th", row.label, scope="row"), *cells)
