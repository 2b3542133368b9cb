"""The page: everything in one file, and a policy that forbids it the network."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Literal, TypeAlias

from llama_index_rag_metrics.comparison import Comparison
from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.report.html.content import Content, content_of
from llama_index_rag_metrics.report.html.elements import Element, element, render
from llama_index_rag_metrics.report.html.libraries import libraries
from llama_index_rag_metrics.report.html.sections import details, lead, notes, summary, title_of
from llama_index_rag_metrics.report.html.store import CUT, packed, packed_texts
from llama_index_rag_metrics.report.plots import COLOURS, FIGURES, Drawn, drawn_of
from llama_index_rag_metrics.report.summary import Reported, headline
from llama_index_rag_metrics.writing import write_text

_PLOTS = {
    "means": "Means with their intervals",
    "differences": "Differences from the baseline (hollow: not significant)",
    "distribution": "Differences, query by query",
    "by_cutoff": "By cutoff k",
    "precision_recall": "Precision and recall",
    "latency": "Latency",
}
Cut: TypeAlias = int | Literal["auto", "never"]

_MOST_BYTES = 19_900_000
_OF_ALL_METRICS = ("means", "differences", "latency")
"""Drawn once; the others once for every metric."""


def write_html(
    reported: Comparison | Reported | Sequence[Reported],
    path: str | Path,
    *,
    title: str | None = None,
    cut: Cut = "auto",
) -> Path:
    """Write the report as one HTML file that works offline.

    Args:
        reported: a comparison, or the results or scores of one or several retrievers.
        path: the file; an existing one is replaced.
        title: the heading; made of the systems' names unless given.
        cut: how many characters of each retrieved text are kept; "never" for whole texts. "auto"
            keeps 300, or fewer where the file would have more than 20 MB; the page says so.

    Returns:
        The path.

    Raises:
        MissingExtra: plotly or itables isn't installed.
        InvalidInput: `cut` isn't a number of characters.
    """
    return write_text(path, html_page(reported, title=title, cut=cut))


def html_page(
    reported: Comparison | Reported | Sequence[Reported],
    *,
    title: str | None = None,
    cut: Cut = "auto",
) -> str:
    """What `write_html` writes, as a text. For arguments and errors see there."""
    if cut not in ("auto", "never") and (type(cut) is not int or cut < 1):
        raise InvalidInput("cut", cut, "a number of characters from 1 on, 'auto' or 'never'")
    drawn = drawn_of(reported)
    shown = headline(drawn.systems)
    if shown not in drawn.metric_names:
        shown = drawn.metric_names[0]
    kept = CUT if cut == "auto" else None if cut == "never" else int(cut)
    page = _assemble(
        drawn,
        content_of(drawn, shown, kept),
        heading=title or title_of(drawn),
        most=_MOST_BYTES if cut == "auto" else None,
    )
    return page.encode("utf-8", "replace").decode("utf-8")


def _assemble(drawn: Drawn, content: Content, *, heading: str, most: int | None) -> str:
    carried = libraries()
    script = _asset("page.js")
    digest = base64.b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    parts = {
        "summary": render(*summary(drawn)),
        "details": render(*details(drawn)),
        "css": _asset("page.css"),
        "table_css": carried.table_css,
        "script": script,
    }
    chunks = {
        "figures": packed(_figures(drawn)),
        **{f"rankings-{at}": packed(one) for at, one in enumerate(content.rankings)},
        "library-table": carried.table,
        "library-plots": carried.plots,
    }
    index = {**content.index, "colours": COLOURS, "figures": _PLOTS}
    taken = sum(len(one.encode()) for one in parts.values()) + len(packed(index))
    room = None if most is None else most - taken - sum(map(len, chunks.values()))
    for at, chunk in enumerate(packed_texts(content.texts, room)):
        chunks[f"texts-{at}"] = chunk
    chunks["index"] = packed({**index, "cut": content.texts.cut})
    return Template(_asset("page.html")).substitute(
        parts,
        title=escape(heading),
        lead=escape(lead(drawn)),
        policy=f"script-src 'sha256-{digest}' blob:",
        notes=render(*notes(drawn), *_cut_notice(content)),
        chunks=render(*_carriers(chunks)),
    )


def _figures(drawn: Drawn) -> dict[str, dict[str, Any]]:
    """Kind to metric, or "", to figure."""
    figures: dict[str, dict[str, Any]] = {}
    for kind, draw in FIGURES.items():
        for metric in [None] if kind in _OF_ALL_METRICS else drawn.metric_names:
            figure = draw(drawn, metric)
            if figure is not None:
                made = json.loads(figure.to_json())
                made["layout"].pop("template", None)
                figures.setdefault(kind, {})[metric or ""] = made
    return figures


def _cut_notice(content: Content) -> list[Element]:
    cut, n_cut = content.texts.cut, content.texts.n_cut
    if not n_cut:
        return []
    notice = f"{n_cut:,} of {len(content.texts):,} texts are cut at {cut} characters."
    return [element("p", f"{notice} cut='never' keeps them whole.", class_="quiet")]


def _carriers(chunks: dict[str, str]) -> Iterator[Element]:
    """Elements that the browser keeps and never runs."""
    for name, chunk in chunks.items():
        yield element("script", chunk, type="text/plain", id=f"data-{name}")


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
