"""The page: everything in one file, and a policy that forbids it the network."""

from __future__ import annotations

import json
from pathlib import Path
from string import Template
from typing import Any, Literal, TypeAlias

from llama_index_rag_metrics.report import escape
from llama_index_rag_metrics.report.figure import FIGURES
from llama_index_rag_metrics.report.html import sections
from llama_index_rag_metrics.report.html.assets import (
    asset,
    carriers,
    check_libraries,
    plots_library,
    script_source,
    table_library,
)
from llama_index_rag_metrics.report.html.elements import Element, element, render
from llama_index_rag_metrics.report.html.packing import CUT, packed, packed_texts
from llama_index_rag_metrics.report.html.page_content import Content, content_of
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.plots import COLOURS, draw
from llama_index_rag_metrics.runtime.atomic_files import write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput

Cut: TypeAlias = int | Literal["auto", "never"]

_MOST_BYTES = 19_900_000


def write_page(
    report: Report, path: str | Path, *, title: str | None = None, cut: Cut = "auto"
) -> Path:
    """Write a report as one HTML file; for arguments and errors see `write_html`."""
    return write_text(path, html_page(report, title=title, cut=cut))


def html_page(report: Report, *, title: str | None = None, cut: Cut = "auto") -> str:
    if cut not in ("auto", "never") and (type(cut) is not int or cut < 1):
        raise InvalidInput("cut", cut, "a number of characters from 1 on, 'auto' or 'never'")
    kept = CUT if cut == "auto" else None if cut == "never" else int(cut)
    page = _assemble(
        report,
        None if report.queries is None else content_of(report.queries(), report.headline, kept),
        heading=title or report.title,
        most=_MOST_BYTES if cut == "auto" else None,
    )
    return page.encode("utf-8", "replace").decode("utf-8")


def _assemble(report: Report, content: Content | None, *, heading: str, most: int | None) -> str:
    check_libraries()
    figures, licences = _figures(report), ""
    script = asset("carried.js") + asset("page.js")
    parts = {
        "header": render(*sections.header(report)),
        "summary": render(
            *sections.decision(report),
            *sections.sections(report, aside=False),
            *sections.listings(report),
        ),
        "details": render(*sections.sections(report, aside=True)),
        "glossary": render(*sections.glossary(report)),
        "css": asset("base.css") + asset("page.css"),
        "table_css": "" if content is None else table_library().css,
        "script": script,
    }
    chunks = {"figures": packed(figures)}
    if figures:
        chunks["library-plots"] = plots_library()
        licences += " Plots: plotly.js (MIT)."
    if content is not None:
        chunks["library-table"] = table_library().script
        licences += " Table: DataTables (MIT)."
    index: dict[str, Any] = {
        "colours": COLOURS,
        "figures": {kind: figure.caption for kind, figure in FIGURES.items()},
        "metrics": list(report.metrics),
    }
    notice = []
    if content is not None:
        index |= content.index
        for number, rankings in enumerate(content.rankings):
            chunks[f"rankings-{number}"] = packed(rankings)
        taken = sum(len(part.encode()) for part in parts.values()) + len(packed(index))
        room = None if most is None else most - taken - sum(map(len, chunks.values()))
        for number, chunk in enumerate(packed_texts(content.texts, room)):
            chunks[f"texts-{number}"] = chunk
        index["cut"] = content.texts.cut
        notice = _cut_notice(content)
    chunks["index"] = packed(index)
    return Template(asset("page.html")).substitute(
        parts,
        title=escape.html(heading),
        licences=licences,
        policy=f"script-src {script_source(script)} blob:",
        notes=render(*sections.notes(report, *notice)),
        chunks=render(*carriers(chunks)),
    )


def _figures(report: Report) -> dict[str, dict[str, Any]]:
    """Kind to metric, or "", to figure."""
    figures: dict[str, dict[str, Any]] = {}
    for kind, (_, by_metric, _) in FIGURES.items():
        if kind not in report.figures:
            continue
        for metric in report.metrics if by_metric else [None]:
            figure = report.figures[kind](metric)
            if figure is not None:
                made = json.loads(draw(figure).to_json())
                made["layout"].pop("template", None)
                figures.setdefault(kind, {})[metric or ""] = made
    return figures


def _cut_notice(content: Content) -> list[Element]:
    cut, n_cut = content.texts.cut, content.texts.n_cut
    if not n_cut:
        return []
    notice = f"{n_cut:,} of {len(content.texts):,} texts are cut at {cut} characters."
    return [element("p", f"{notice} cut='never' keeps them whole.", class_="quiet")]
