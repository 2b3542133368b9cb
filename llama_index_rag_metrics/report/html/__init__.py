"""A report as HTML: a fragment for notebooks, and a page that works offline; data is escaped.

The decision comes first, then one table beside its figure, and the questions; all else is folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from string import Template

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import html as escape
from llama_index_rag_metrics.report.escape import render
from llama_index_rag_metrics.report.figure import CAPTIONS, MOST_ABREAST
from llama_index_rag_metrics.report.numbers import interval_of, shown
from llama_index_rag_metrics.report.svg import on_page
from llama_index_rag_metrics.runtime.atomic_files import write_text

from .assets import asset, script_source
from .questions import SIZES, Context, question

# figures that stand beside the first table; the others are folded below the questions
_IN_SIGHT = ("differences", "tradeoff")
_QUESTIONS = "rag-questions"
_CLASS = ' class="{}"'
# what the three numbers of a tally are called, and what a click on each of them filters by
_TALLY = ("better", "same", "worse")
_POLICY = (
    "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)


def write_page(report: m.Report, path: str | Path, *, title: str | None = None) -> Path:
    return write_text(path, html_page(report, title=title))


def html_page(report: m.Report, *, title: str | None = None) -> str:
    """One file with styles and script in it, and a policy that forbids it the network."""
    script, heading = asset("page.js"), title or report.title
    queries = report.queries() if report.queries else None
    page = Template(asset("page.html")).substitute(
        title=escape(heading),
        policy=_POLICY.format(script=script_source(script)),
        css=asset("base.css") + asset("page.css"),
        script=script,
        body="".join(_body(report, heading, queries)),
    )
    return page.encode("utf-8", "replace").decode("utf-8")


def fragment(report: m.Report) -> str:
    """The same without its questions but those worth a look, in the colours of a notebook."""
    css = asset("base.css") + asset("page.css")
    body = "".join(_body(report, report.title, None))
    return f'<div class="rag in-notebook"><style>{css}</style>{body}</div>'


def _body(report: m.Report, title: str, queries: m.Queries | None) -> Iterator[str]:
    """A report from top to bottom; without `queries` those worth a look are all."""
    systems: Sequence[str] = ()
    if queries and queries.compared:
        systems = queries.systems
    yield f"<header><h1>{escape(title)}</h1>{_sentence(report.lead)}"
    yield "</header>"
    yield _around("".join(map(_statement, report.decision)), "<section>{}</section>")
    figures = "".join(map(partial(_figure, report), _IN_SIGHT))
    for table in report.tables:
        if not table.is_detail:
            heading = _around(escape(table.title), "<h2>{}</h2>")
            text = _sentence(table.text)
            inner = f"<div class=beside><div>{_table(table, systems)}{text}</div>{figures}</div>"
            yield f"<section>{heading}{inner}</section>"
            figures = ""
    if queries:
        yield from _questions(queries)
    for listing in report.listings:
        if not (queries and listing.on_request):
            yield from _listing(listing)
    folds = [
        _fold(table.title, _table(table, systems)) for table in report.tables if table.is_detail
    ]
    for kind in report.figures:
        if kind not in _IN_SIGHT:
            folds.append(_fold(CAPTIONS[kind], _figure(report, kind)))
    failures = _bullets(f"{failure.system}: {failure.text}" for failure in report.failures)
    folds += [
        _fold(report.failures_title, failures),
        _fold("About this run", _definitions(report.about)),
        _fold(f"Notes: {len(report.notes)}", _bullets(report.notes)),
        _fold("What the metrics mean", _definitions(report.glossary)),
    ]
    yield _around("".join(folds), "<section class=folds>{}</section>")


def _statement(statement: m.Statement) -> str:
    """A sentence with its badge."""
    text, look, badge = statement.text, f" {statement.tone}", ""
    if statement.label:
        text, look = text.removeprefix(f"{statement.label}: "), ""
        badge = f'<b class="badge {statement.tone}">{escape(statement.label)}</b> '
    return f'<p class="verdict{look}">{badge}{escape(text)}</p>'


def _figure(report: m.Report, kind: str) -> str:
    draw = report.figures.get(kind)
    figure = draw() if draw else None
    if figure is None:
        return ""
    caption, drawing = escape(CAPTIONS[kind]), render(on_page(figure, CAPTIONS[kind]))
    return f"<figure><figcaption>{caption}</figcaption>{drawing}</figure>"


def _table(table: m.Table, systems: Sequence[str]) -> str:
    """A table; in rows of systems the counts of better and worse questions filter these."""
    sides = ["l" if table.is_text(column) else "" for column in range(len(table.head))]
    heads = "".join(map(_heading, (table.label_head, *table.head), ("l", *sides)))
    rows = []
    for row in table.rows:
        system = systems.index(row.label) if row.label in systems else 0
        rows.append(f"<tr><th scope=row class=l>{escape(row.label)}")
        for cell, side in zip(row.cells, sides, strict=True):
            text = _cell_text(cell)
            if cell.form == "tally" and isinstance(cell.value, tuple) and system:
                text = _tally(cell.value, system)
            look = f"{side} {cell.tone}".removesuffix("normal").strip()
            rows.append(f"<td{_around(look, _CLASS)}>{text}")
    label = escape(table.title or "Numbers")
    return (
        f'<div class=wide tabindex=0 role=group aria-label="Table: {label}"><table>'
        f"<thead><tr>{heads}<tbody>{''.join(rows)}</table></div>"
    )


def _heading(name: str, side: str) -> str:
    tag = "th scope=col" if name else "td"
    return f"<{tag}{_around(side, _CLASS)}>{escape(name)}"


def _cell_text(cell: m.Cell) -> str:
    interval = _around(escape(interval_of(cell)), " <small>{}</small>")
    return escape(shown(cell, interval=False)) + interval


def _tally(counts: Sequence[float], system: int) -> str:
    links = []
    for count, name in zip(counts, _TALLY, strict=True):
        filters = f'href="#{_QUESTIONS}" class={name} data-show="{name} {system}"'
        links.append(f'<a {filters} title="show them">{count:,}</a>')
    return " / ".join(links)


def _questions(queries: m.Queries) -> Iterator[str]:
    """All questions, below the names of the systems whose scores each line has."""
    stories = list(queries.stories)
    n = len(stories)
    size = next(size for size in SIZES if n <= size.questions)
    context = Context(size, queries.compared, queries.lower_is_better)
    names = "".join(f"<b>{escape(name)}</b>" for name in queries.systems)
    if len(queries.systems) > MOST_ABREAST:
        names = "<b>lowest to highest</b>"
    compared = escape("|".join(queries.systems)) if queries.compared else ""
    yield (
        f'<section id={_QUESTIONS} data-systems="{compared}"><h2>Questions</h2>'
        f"<form class=controls hidden></form><p class=heads><span>{n:,} questions "
        f"<small>{escape(queries.metric)}</small></span>{names}</p><div class=list>"
    )
    for story in stories:
        yield question(story, context)
    yield "</div></section>"


def _listing(listing: m.Listing) -> Iterator[str]:
    """Questions worth a look; those without rankings show their remarks unfolded."""
    yield f"<section><h2>{escape(listing.title)}</h2>"
    yield from map(_sentence, (listing.lead, listing.legend))
    for story in listing.queries:
        if story.answers or story.wanted:
            yield question(story, Context())
        else:
            text = f"<code>{escape(story.query_id)}</code> {escape(story.text)}"
            yield f"<div class=finding><p>{text}</p>{_bullets(story.remarks)}</div>"
    yield f"{_sentence(listing.more_in_words)}</section>"


def _around(inner: str, template: str) -> str:
    """A template with something in it; "" where there is nothing."""
    return template.format(inner) if inner else ""


def _fold(title: str, *inner: str) -> str:
    """Something that unfolds; "" where there is nothing in it."""
    inside = "".join(inner)
    return inside and f"<details><summary>{escape(title)}</summary>{inside}</details>"


def _bullets(lines: Iterable[str]) -> str:
    return _around("".join(f"<li>{escape(line)}" for line in lines), "<ul>{}</ul>")


def _definitions(pairs: Iterable[tuple[str, str]]) -> str:
    terms = "".join(f"<dt>{escape(name)}<dd>{escape(meaning)}" for name, meaning in pairs)
    return _around(terms, "<dl>{}</dl>")


def _sentence(text: str) -> str:
    return _around(escape(text), "<p class=quiet>{}</p>")
