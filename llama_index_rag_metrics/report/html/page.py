"""The page: everything in one file, and a policy that forbids it the network."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any, Literal, TypeAlias

from llama_index_rag_metrics.report import escape
from llama_index_rag_metrics.report.drawing import COLOURS, without_prefix
from llama_index_rag_metrics.report.figure import FIGURES, MOST_ABREAST, Figure
from llama_index_rag_metrics.report.html import assets, sections, svg
from llama_index_rag_metrics.report.html.assets import Element, asset, element, packed, render
from llama_index_rag_metrics.report.html.page_content import CUT, Content, content_of, packed_texts
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.runtime.atomic_files import write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput

Cut: TypeAlias = int | Literal["auto", "never"]

_Figures: TypeAlias = dict[str, dict[str, list[tuple[str, Element]]]]
"""Kind to metric, or "" where all metrics share one, to the names and drawings of variants."""

_MOST_BYTES = 19_900_000


def write_page(
    report: Report, path: str | Path, *, title: str | None = None, cut: Cut = "auto"
) -> Path:
    return write_text(path, html_page(report, title=title, cut=cut))


def html_page(report: Report, *, title: str | None = None, cut: Cut = "auto") -> str:
    if cut not in ("auto", "never") and (type(cut) is not int or cut < 1):
        raise InvalidInput("cut", cut, "a number of characters from 1 on, 'auto' or 'never'")
    assets.check_libraries()
    content = None
    if report.queries is not None:
        kept = CUT if cut == "auto" else None if cut == "never" else int(cut)
        content = content_of(report.queries(), report.headline, kept)
    most = _MOST_BYTES if cut == "auto" else None
    page = _assemble(report, content, heading=title or report.title, most=most)
    return page.encode("utf-8", "replace").decode("utf-8")


def _assemble(report: Report, content: Content | None, *, heading: str, most: int | None) -> str:
    ids = [] if content is None else content.index["ids"]
    figures, licences = _figures(report, {name: number for number, name in enumerate(ids)}), ""
    script = "".join(map(asset, ("carried.js", "sorting.js", "plots.js", "page.js")))
    parts = {
        "header": render(*sections.header(report)),
        "summary": render(
            *sections.decision(report),
            *sections.sections(report, aside=False),
            *sections.listings(report),
        ),
        "plots": render(*_plots(figures, report.headline)),
        "details": render(*sections.sections(report, aside=True)),
        "glossary": render(*sections.glossary(report)),
        "css": asset("base.css") + asset("page.css"),
        "table_css": "" if content is None else assets.table_library().css,
        "script": script,
    }
    carried = {
        kind: {
            metric: [[name, render(drawn)] for name, drawn in variants]
            for metric, variants in by.items()
        }
        for kind, by in figures.items()
    }
    chunks = {"figures": packed(carried)}
    metrics = list(report.metrics)
    index: dict[str, Any] = {"colours": COLOURS, "metrics": metrics}
    index["shown"] = metrics.index(report.headline) if metrics else 0
    notice = []
    if content is not None:
        chunks["library-table"] = assets.table_library().script
        licences += " Table: DataTables (MIT)."
        index |= content.index
        index["heads"] = without_prefix(content.index["systems"])[1]
        for number, rankings in enumerate(content.rankings):
            chunks[f"rankings-{number}"] = packed(rankings)
        taken = sum(len(part.encode()) for part in parts.values()) + len(packed(index))
        room = None if most is None else most - taken - sum(map(len, chunks.values()))
        for number, chunk in enumerate(packed_texts(content.texts, room)):
            chunks[f"texts-{number}"] = chunk
        cut, n_cut = content.texts.cut, content.texts.n_cut
        index["cut"] = cut
        if n_cut:
            words = f"{n_cut:,} of {len(content.texts):,} texts are cut at {cut} characters."
            notice = [element("p", f"{words} cut='never' keeps them whole.", class_="quiet")]
    chunks["index"] = packed(index)
    return Template(asset("page.html")).substitute(
        parts,
        title=escape.html(heading),
        licences=licences,
        policy=f"script-src {assets.script_source(script)} blob:",
        notes=render(*sections.notes(report, *notice)),
        chunks=render(*assets.carriers(chunks)),
    )


def _figures(report: Report, numbers: svg.Numbered) -> _Figures:
    figures: _Figures = {}
    for kind, draw in report.figures.items():
        caption, by_metric, _ = FIGURES[kind]
        for metric in report.metrics if by_metric or _is_long(draw(None)) else [None]:
            figure = draw(metric)
            if figure is not None:
                caption_of = f"{caption}, {metric}" if metric else caption
                variants = [figure, *figure.variants]
                drawn = [(each.name, svg.on_page(each, caption_of, numbers)) for each in variants]
                figures.setdefault(kind, {})[metric or ""] = drawn
    return {kind: figures[kind] for kind in FIGURES if kind in figures}


def _is_long(figure: Figure | None) -> bool:
    """Whether there are so many systems that each metric has a figure of its own."""
    return figure is not None and figure.form == "points" and len(figure.series) > MOST_ABREAST


def _plots(figures: _Figures, metric: str) -> list[Element]:
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
