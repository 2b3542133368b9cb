"""A report as HTML: a fragment for notebooks, and a page that works offline; data is escaped."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from itertools import chain
from operator import attrgetter
from pathlib import Path
from string import Template

from llama_index_rag_metrics.report import model
from llama_index_rag_metrics.report.numbers import NO_VALUE, counted, interval_of, shown
from llama_index_rag_metrics.report.svg import on_page
from llama_index_rag_metrics.report.text import escape_html
from llama_index_rag_metrics.runtime.atomic_files import write_text

from .questions import NO_BREAK, SIZES, question, repeated

_CLASS = ' class="{}"'
_BADGE = '<b class="badge {}">{}</b>'
_ROOM, _LEAST = 2_500_000, 400  # bytes of all relevant passages, and of each at least
_CUT = "Relevant passages are cut at {:,} characters; worst(n=20).to_html(…) has them whole."
# with as many columns, or a longer label, each row is a list of named values on a narrow screen
_MOST_COLUMNS, _LONGEST_LABEL = 5, 24
_LINK = '<a href="#rag-questions" class={0} data-show="{0} {1}" title="show them">{2}</a>'


def write_page(report: model.Report, path: str | Path, *, title: str | None = None) -> Path:
    return write_text(path, html_page(report, title=title))


def html_page(report: model.Report, *, title: str | None = None) -> str:
    """One file with styles and script in it, and a policy that forbids it the network."""
    script, heading = asset("page.js"), title or report.title
    queries = report.queries and report.queries()
    page = Template(asset("page.html")).substitute(
        title=escape_html(heading),
        policy=script_source(script),
        css=asset("base.css") + asset("page.css"),
        script=script,
        body="".join(_body(report, heading, queries)),
    )
    return page.encode("utf-8", "replace").decode("utf-8")


def asset(name: str, package: str = __package__) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def script_source(script: str) -> str:
    digest = base64.b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def fragment(report: model.Report) -> str:
    css, body = asset("base.css") + asset("page.css"), "".join(_body(report, report.title, None))
    return f'<div class="rag in-notebook"><style>{css}</style>{body}</div>'


def _body(report: model.Report, title: str, queries: model.Queries | None) -> Iterator[str]:
    systems: dict[str, int] = {}
    if queries and queries.compared:
        systems = {name: number for number, name in enumerate(queries.systems)}
    heading = escape_html(title)
    if report.outcome is not None:
        heading += f" {_BADGE.format(report.outcome.tone, escape_html(shown(report.outcome)))}"
    yield f"<header><h1>{heading}</h1>{_sentence(report.lead)}</header>"
    statements = [_statement(statement, is_page=bool(queries)) for statement in report.decision]
    yield _around("".join(statements), "<section>{}</section>")
    in_sight, folds = "", ""
    for table in report.tables:
        inner = _table(table, systems)
        if table.is_detail:
            folds += _fold(table.title, inner)
        # one mean is in a sentence above
        elif len(table.rows) > 1 or [cell.form for cell in table.rows[0].cells] != ["score"]:
            heading = _around(escape_html(table.title), "<h2>{}</h2>")
            in_sight += f"<div>{heading}{inner}{_sentence(table.text)}</div>"
    for kind, draw in report.figures.items():
        figure, title = draw(), escape_html(model.CAPTIONS[kind])
        if figure is not None and any(series.marks for series in figure.series):
            drawing = on_page(figure, model.CAPTIONS[kind])
            in_sight += f"<figure><figcaption>{title}</figcaption>{drawing}</figure>"
    yield _around(in_sight, "<section class=beside>{}</section>")
    if queries:
        yield from _questions(queries)
    else:
        yield from chain.from_iterable(map(_listing, report.listings))
    failures = [f"{failure.system}: {failure.text}" for failure in report.failures]
    folds += _fold(report.failures_title, _bullets(failures))
    folds += _fold("About this run", _definitions(report.about))
    folds += _fold(f"Notes: {len(report.notes)}", _bullets(report.notes))
    folds += _fold("What the metrics mean", _definitions(report.glossary))
    yield _around(folds, "<section class=folds>{}</section>")


def _statement(statement: model.Statement, *, is_page: bool) -> str:
    look, badge = f" {statement.tone}", ""
    if statement.label:
        look, badge = "", f"{_BADGE.format(statement.tone, escape_html(statement.label))} "
    text = _prose(statement.text.removeprefix(f"{statement.label}: "))
    if statement.losses and is_page:
        link = _LINK.format("loss", escape_html(statement.losses), r"\g<0>")
        text = re.sub(r"[\d,]+ of [\d,]+ questions", link, text, count=1)
    return f'<p class="verdict{look}">{badge}{text}</p>'


def _table(table: model.Table, systems: Mapping[str, int]) -> str:
    sides, switch = ["l" * table.is_text(column) for column in range(len(table.head))], ""
    if table.n_core:
        sides[table.n_core :] = [f"{side} more" for side in sides[table.n_core :]]
        switch = "<details class=more><summary>All columns</summary></details>"
    heads = "".join(map(_heading, (table.label_head, *table.head), ("l", *sides)))
    rows = ""
    for row in table.rows:
        system = systems.get(row.label)
        label = escape_html(row.label)
        if table.label_head == "rule":
            label = f"<code>{label}</code>"
        rows += f"<tr><th scope=row class=l>{label}"
        for head, cell, side in zip(table.head, row.cells, sides, strict=True):
            interval = _around(escape_html(interval_of(cell)), " <small>{}</small>")
            # where it is narrow, an interval is two lines, not three
            text = f"{escape_html(shown(cell, interval=False))}{interval}"
            text = text.replace(" to ", f"{NO_BREAK}to ").replace(" ms", f"{NO_BREAK}ms")
            if cell.form == "tally" and isinstance(cell.value, tuple) and system:
                text = _tally(cell.value, system)
            elif cell.losses and systems:
                text = _LINK.format("loss", escape_html(cell.losses), text)
            look = f"{side} {cell.tone}".removesuffix("normal").strip()
            if text == NO_VALUE:
                look = f"{side} none"
            rows += f'<td data-head="{escape_html(head)}"{_around(look, _CLASS)}>{text}'
    label, look = escape_html(table.title or "Numbers"), "wide"
    longest_label = max(map(len, map(attrgetter("label"), table.rows)))
    if not switch and (len(table.head) >= _MOST_COLUMNS or longest_label > _LONGEST_LABEL):
        look = "wide stacks"  # on a narrow screen
    return (
        f'{switch}<div class="{look}" tabindex=0 role=group aria-label="Table: {label}"><table>'
        f"<thead><tr>{heads}<tbody>{rows}</table></div>"
    )


def _heading(name: str, side: str) -> str:
    tag = "th scope=col" if name else "td"
    return f"<{tag}{_around(side.strip(), _CLASS)}>{escape_html(name)}"


def _tally(counts: Sequence[float], system: int) -> str:
    links = []
    for n, name in zip(counts, ("better", "same", "worse"), strict=True):
        link = f"{n:,}"
        if n:
            link = _LINK.format(name, system, link)
        links.append(link)
    return " / ".join(links)


def _questions(queries: model.Queries) -> Iterator[str]:
    stories = list(queries.stories)
    if all(map(attrgetter("left_out"), stories)):  # as a sentence above says
        stories = [story._replace(left_out="") for story in stories]
    size, remarks = next(size for size in SIZES if len(stories) <= size.questions), ""
    texts = [passage.text for story in stories for passage in story.wanted]
    joint = "".join(texts)
    n_bytes = len(joint.encode("utf-8", "replace"))
    if n_bytes > _ROOM:
        room = max(_LEAST, _ROOM // len(texts))
        size = size._replace(characters=room * len(joint) // n_bytes)
        remarks += f" {_CUT.format(size.characters)}"
    text = f"<span role=status>{counted(len(stories), 'question', 'questions')}</span>"
    names = ["mean"] if queries.of_runs else queries.systems
    if len(names) == 1:
        names = [queries.metric]
    text += f" · {escape_html(queries.metric)}" * (names != [queries.metric])
    cells = map(attrgetter("score"), chain.from_iterable(story.answers for story in stories))
    if all(cell.value is None for cell in cells):
        names = []
    compared = escape_html("|".join(queries.systems)) * queries.compared
    yield (
        f'<section id=rag-questions data-systems="{compared}"{" data-stages" * queries.stages}>'
        "<h2>Questions</h2>"
        f"{_sentence(remarks)}<form class=controls hidden></form>"
        f"{_heads(text, names)}<div class=list>"
    )
    for story in stories:
        yield question(story, size, queries)
    yield "</div></section>"


def _heads(text: str, systems: Sequence[str]) -> str:
    names = repeated("<b>{}</b>", systems)
    if len(systems) > model.MOST_ABREAST:
        options = escape_html("|".join(systems))
        names = f'<b data-each="{options}">lowest to highest</b>'
    return f"<p class=heads><span>{text}</span>{names}</p>"


def _listing(listing: model.Listing) -> Iterator[str]:
    yield f"<section><h2>{escape_html(listing.title)}</h2>"
    yield _sentence(listing.lead)
    systems = [answer.system for answer in listing.queries[0].answers]
    if len(systems) > 1:
        yield _heads("", systems)
    for story in listing.queries:
        if story.answers or story.wanted:
            yield question(story)
        else:
            text = f"<code>{escape_html(story.query_id)}</code> {escape_html(story.text)}"
            yield f"<div class=finding><p>{text}</p>{_bullets(story.remarks)}</div>"
    yield f"{_sentence(listing.more_in_words)}</section>"


def _around(inner: str, template: str) -> str:
    return template.format(inner) * bool(inner)


def _fold(title: str, inner: str) -> str:
    return inner and f"<details><summary>{escape_html(title)}</summary>{inner}</details>"


def _bullets(lines: Iterable[str]) -> str:
    return _around(repeated("<li>{}", lines), "<ul>{}</ul>")


def _definitions(pairs: Iterable[tuple[str, str]]) -> str:
    terms = "".join(f"<dt>{escape_html(name)}<dd>{escape_html(meaning)}" for name, meaning in pairs)
    return _around(terms, "<dl>{}</dl>")


def _sentence(text: str) -> str:
    return _around(_prose(text), "<p class=quiet>{}</p>")


def _prose(text: str) -> str:
    text = escape_html(text).replace(" %", f"{NO_BREAK}%")
    return re.sub(
        "rag-metrics labels [a-z]+|matcher=&#x27;text&#x27;|--matcher text",
        r"<code>\g<0></code>",
        text,
    )
