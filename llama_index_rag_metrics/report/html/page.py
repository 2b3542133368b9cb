"""A report as HTML: a fragment for notebooks, and a page that works offline; data is escaped.

The decision comes first, then one table, one figure and the questions; all else is folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import html as escape
from llama_index_rag_metrics.report.failures import failure_lines, failures_title
from llama_index_rag_metrics.report.figure import CAPTIONS, MOST_ABREAST
from llama_index_rag_metrics.report.html import fragments as f
from llama_index_rag_metrics.report.html.assets import asset, script_source
from llama_index_rag_metrics.report.html.questions import Asking, question
from llama_index_rag_metrics.report.numbers import shown
from llama_index_rag_metrics.runtime.atomic_files import write_text

# figures that stand above the questions; the others are folded below them
_IN_SIGHT = ("differences", "tradeoff")
_BY_METRIC = ("by_cutoff", "tradeoff")
# how many characters all questions may take: of few, of each of many, and of as many as there are
_SMALL_PAGE, _EACH, _LARGE_PAGE = 104_000, 1_800, 4_000_000
_NOTEBOOK_ROOM = 3_000
_POLICY = (
    "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)


def write_page(report: m.Report, path: str | Path, *, title: str | None = None) -> Path:
    return write_text(path, html_page(report, title=title))


def html_page(report: m.Report, *, title: str | None = None) -> str:
    """One file with styles and script in it, and a policy that forbids it the network."""
    script = asset("page.js")
    page = Template(asset("page.html")).substitute(
        title=escape(title or report.title),
        policy=_POLICY.format(script=script_source(script)),
        css=asset("page.css"),
        script=script,
        body="".join(_body(report, title or report.title)),
    )
    return page.encode("utf-8", "replace").decode("utf-8")


def fragment(report: m.Report) -> str:
    """The same without its questions but those worth a look, in the colours of a notebook."""
    css, body = asset("page.css"), "".join(_body(report, report.title, is_page=False))
    return f'<div class="rag in-notebook"><style>{css}</style>{body}</div>'


def _body(report: m.Report, title: str, *, is_page: bool = True) -> Iterator[str]:
    yield from _head(report, title)
    systems: Sequence[str] = ()
    queries = None
    if is_page and report.queries is not None:
        queries = report.queries()
        systems = queries.systems if queries.compared else ()
    for section in report.sections:
        yield from _in_sight(section, systems)
    for kind in _IN_SIGHT:
        yield from _figures(report, kind)
    if queries is not None:
        yield from _questions(queries)
    for listing in report.listings:
        if queries is None or not listing.on_request:
            yield from _listing(listing)
    failures = [str(line) for line in failure_lines(report.failures)]
    folds = [
        f.fold(failures_title(report.failures), f.bullets(failures)),
        *_folds(report),
        f.fold("About this run", f.definitions(report.about)),
        f.fold(f"Notes: {len(report.notes)}", f.bullets(report.notes)),
        f.fold("What the metrics mean", f.definitions(report.glossary)),
    ]
    yield f"<section class=folds>{''.join(folds)}</section>" if any(folds) else ""


def _head(report: m.Report, title: str) -> Iterator[str]:
    yield f"<header><h1>{escape(title)}</h1>{f.sentence(report.lead)}"
    if report.outcome is not None:
        yield f'<p><b class="badge {report.outcome.tone}">{escape(shown(report.outcome))}</b></p>'
    yield "</header>"
    if report.decision:
        verdicts = "".join(map(f.statement, report.decision))
        rest = f.bullets(each.text for each in report.further)
        yield f"<section>{verdicts}{f.fold('The other metrics in words', rest)}</section>"


def _in_sight(section: m.Section, systems: Sequence[str]) -> Iterator[str]:
    """The tables of a section that everybody needs."""
    tables = [table for table in section.tables if table.place == "summary"]
    if section.aside or section.folded or not tables:
        return
    yield f"<section><h2>{escape(section.heading)}</h2>"
    for table in tables:
        if table.title not in ("", section.heading):
            yield f"<h3>{escape(table.title)}</h3>"
        parts = table.parts[:1] if table.fold else table.parts
        yield f.sentence(table.remark) + f.table(table, parts, systems)
    yield f"{f.sentence(section.text)}</section>"


def _folds(report: m.Report) -> Iterator[str]:
    """The other tables and figures, each folded."""
    for section in report.sections:
        for table in section.tables:
            is_in_sight = table.place == "summary" and not (section.aside or section.folded)
            parts = table.parts
            if is_in_sight:
                parts = table.parts[1:] if table.fold else ()
            title = table.fold if is_in_sight else table.title or section.heading
            if parts:
                yield f.fold(title, f.sentence(table.remark), f.table(table, parts))
        if section.notes:
            yield f.fold("Missing or approximate intervals", f.bullets(section.notes))
    for kind in report.figures:
        if kind not in _IN_SIGHT:
            drawn = "".join(_figures(report, kind))
            yield f.fold(CAPTIONS[kind], drawn)


def _figures(report: m.Report, kind: str) -> Iterator[str]:
    if kind not in report.figures:
        return
    draw = report.figures[kind]
    if kind in _BY_METRIC:
        yield f.figure(kind, draw(report.headline), report.headline)
        return
    drawn = draw(None)
    if drawn is not None and len(drawn.series) > MOST_ABREAST:
        yield f.figure(kind, draw(report.headline), report.headline)
    else:
        yield f.figure(kind, drawn)


def _questions(queries: m.Queries) -> Iterator[str]:
    """All questions, below the names of the systems whose scores each line has."""
    stories = list(queries.stories)
    n = max(1, len(stories))
    room = min(max(_SMALL_PAGE, _EACH * n), _LARGE_PAGE) / n
    asking = Asking(room, queries.compared, queries.lower_is_better)
    names = "".join(f"<b>{escape(name)}</b>" for name in queries.systems)
    on_metric = f" <small>{escape(queries.metric)}</small>" if queries.metric else ""
    heads = f"<p class=heads><span>{n:,} questions{on_metric}</span>{names}</p>"
    if len(queries.systems) > 4:
        heads = (
            f"<p class=heads><span>{n:,} questions{on_metric}</span><b>lowest to highest</b></p>"
        )
    listed = f.attributes_of(
        {"data-systems": "|".join(queries.systems) if queries.compared else ""}
    )
    yield (
        f"<section id=rag-questions{listed}><h2>Questions</h2>"
        f"<form class=controls hidden></form>{heads}<div class=list>"
    )
    for story in stories:
        yield question(story, asking)
    yield "</div></section>"


def _listing(listing: m.Listing) -> Iterator[str]:
    """Questions worth a look; those without rankings show their remarks unfolded."""
    yield f"<section><h2>{escape(listing.title)}</h2>"
    yield f.sentence(listing.remark) + f.sentence(listing.lead) + f.sentence(listing.legend)
    for story in listing.queries:
        if story.answers or story.wanted:
            yield question(story, Asking(_NOTEBOOK_ROOM))
        else:
            text = f"<code>{escape(story.query_id)}</code> {escape(story.text)}"
            yield f"<div class=finding><p>{text}</p>{f.bullets(story.remarks)}</div>"
    yield f"{f.sentence(listing.more_in_words)}</section>"
