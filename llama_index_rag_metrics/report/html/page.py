"""The page: everything in one file, and a policy that forbids it the network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any, Literal, TypeAlias

from llama_index_rag_metrics.report import escape, excerpts, svg, whereabouts, words
from llama_index_rag_metrics.report.drawing import COLOURS, without_prefix
from llama_index_rag_metrics.report.escape import Element, element, render
from llama_index_rag_metrics.report.figure import FIGURES, MOST_ABREAST, Figure
from llama_index_rag_metrics.report.html import assets, sections
from llama_index_rag_metrics.report.html.assets import asset, packed
from llama_index_rag_metrics.report.html.page_content import CUT, Content, content_of, packed_texts
from llama_index_rag_metrics.report.markup import to_markdown
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.atomic_files import write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput

_FEW_MEANS = 6

# kind to metric, or "" where all metrics share one, to the names and drawings of variants
Figures: TypeAlias = dict[str, dict[str, list[tuple[str, Element]]]]


def figures_of(report: Report, ids: Sequence[str]) -> Figures:
    numbers = {query_id: number for number, query_id in enumerate(ids)}
    figures: Figures = {}
    for kind, draw in report.figures.items():
        if kind == "means" and _is_in_table(draw(None)):
            continue
        caption, by_metric, _ = FIGURES[kind]
        for metric in report.metrics if by_metric or _is_long(draw(None)) else [None]:
            if (figure := draw(metric)) is not None:
                of_metric = f"{caption}, {metric}" if metric else caption
                variants = [figure, *figure.variants]
                drawn = [(each.name, svg.on_page(each, of_metric, numbers)) for each in variants]
                figures.setdefault(kind, {})[metric or ""] = drawn
    return {kind: figures[kind] for kind in FIGURES if kind in figures}


def _is_in_table(figure: Figure | None) -> bool:
    """Whether the table above shows as much: of one system on a few metrics."""
    return figure is None or (len(figure.series) == 1 and len(figure.series[0].x) <= _FEW_MEANS)


def _is_long(figure: Figure | None) -> bool:
    """Whether there are so many systems that each metric has a figure of its own."""
    return figure is not None and figure.form == "points" and len(figure.series) > MOST_ABREAST


def plots_section(figures: Figures, metric: str) -> list[Element]:
    """The figures of the metric that leads; a figure that it hasn't waits for another one."""
    shown = []
    for kind, by in figures.items():
        variants = by.get("") or by.get(metric) or []
        children = [element("figcaption", FIGURES[kind].caption)]
        if any(len(each) > 1 for each in by.values()):
            options = [element("option", name, value=name) for name, _ in variants]
            children.append(element("select", *options, aria_label="what is shown"))
        children.append(variants[0][1] if variants else element("div"))
        hidden = {} if variants else {"hidden": ""}
        shown.append(element("figure", *children, id=f"figure-{kind}", **hidden))
    if not shown:
        return []
    place = element("div", *shown, id="figures")
    return [element("section", element("h2", "Plots"), place, class_="card", id="plots")]


def plots_data(figures: Figures) -> dict[str, dict[str, list[tuple[str, str]]]]:
    """The figures as plots.js reads them."""
    return {
        kind: {
            metric: [(name, render(drawn)) for name, drawn in variants]
            for metric, variants in by.items()
        }
        for kind, by in figures.items()
    }


Cut: TypeAlias = int | Literal["auto", "never"]

_MOST_BYTES = 19_900_000

# the scripts that a page without questions does without
_OF_QUESTIONS = ("passages.js", "question.js", "questions.js")
# what the scripts go by, as all other reports do
_RULES = {
    **words.RULES,
    "abreast": MOST_ABREAST,
    "excerpt": excerpts.EXCERPT_CHARACTERS,
    "listed": whereabouts.WANTED,
    "listedBelowCalls": whereabouts.WANTED_OF_CALLS,
    "otherId": whereabouts.OTHER_ID,
    "remedy": whereabouts.REMEDY,
    "move": whereabouts.MOVE,
}


def write_page(
    report: Report, path: str | Path, *, title: str | None = None, cut: Cut = "auto"
) -> Path:
    return write_text(path, html_page(report, title=title, cut=cut))


def html_page(report: Report, *, title: str | None = None, cut: Cut = "auto") -> str:
    if cut not in ("auto", "never") and (type(cut) is not int or cut < 1):
        raise InvalidInput("cut", cut, "a number of characters from 1 on, 'auto' or 'never'")
    content = None
    if report.queries is not None:
        assets.check_libraries()
        kept = CUT if cut == "auto" else None if cut == "never" else int(cut)
        content = content_of(report.queries(), kept)
    most = _MOST_BYTES if cut == "auto" else None
    page = _assemble(report, content, heading=title or report.title, most=most)
    return page.encode("utf-8", "replace").decode("utf-8")


def _assemble(report: Report, content: Content | None, *, heading: str, most: int | None) -> str:
    metrics = list(report.metrics)
    index: dict[str, Any] = {"colours": COLOURS, "metrics": metrics}
    index["shown"] = metrics.index(report.headline) if metrics else 0
    scripts, styles = ["carried.js", "sorting.js"], ["base.css"]
    if content is not None:
        index |= content.index
        index["heads"] = without_prefix(content.index["systems"])[1]
        scripts += _OF_QUESTIONS
        styles.append("questions.css")
    scripts += ("address.js", "plots.js", "page.js")
    script = f"const RULES = {json.dumps(_RULES)};\n" + "".join(map(asset, scripts))
    ids = index.get("ids", [])
    figures = figures_of(report, ids)
    listings = sections.listings(report, set(ids))
    summary, details = (sections.sections(report, aside=aside) for aside in (False, True))
    drawn = [("plots", "Plots")] if figures else []
    drawn += [] if content is None else [("all-queries", "Questions")]
    parts = {
        "header": render(*sections.header(report)),
        "contents": render(*sections.contents([*summary, *listings, *drawn, *details])),
        "summary": render(*sections.decision(report), *summary, *listings),
        "plots": render(*plots_section(figures, report.headline)),
        "details": render(*details),
        "glossary": render(*sections.glossary(report)),
        "css": "".join(map(asset, [*styles, "page.css"])),
        "table_css": "" if content is None else assets.table_library().css,
        "script": script,
    }
    chunks = {"figures": packed(plots_data(figures)), "markdown": packed(to_markdown(report))}
    notice, licences, on_paper = [], "", ""
    if content is not None:
        chunks["library-table"] = assets.table_library().script
        licences = " Table: DataTables (MIT)."
        chunks |= {f"rankings-{n}": packed(part) for n, part in enumerate(content.rankings)}
        on_paper = f"{questions(len(ids))} not printed: see the page."
        taken = sum(len(part.encode()) for part in parts.values()) + len(packed(index))
        room = None if most is None else most - taken - sum(map(len, chunks.values()))
        texts = content.texts
        chunks |= {f"texts-{n}": chunk for n, chunk in enumerate(packed_texts(texts, room))}
        if texts.n_cut:
            cuts = f"{texts.n_cut:,} of {len(texts):,} texts are cut at {texts.cut:,} characters."
            notice = [element("p", f"{cuts} cut='never' keeps them whole.", class_="quiet")]
    chunks["index"] = packed(index)
    return Template(asset("page.html")).substitute(
        parts,
        title=escape.html(heading),
        licences=licences,
        policy=f"script-src {assets.script_source(script)} blob:",
        on_paper=on_paper,
        notes=render(*sections.notes(report, *notice)),
        chunks=render(*assets.carriers(chunks)),
    )
