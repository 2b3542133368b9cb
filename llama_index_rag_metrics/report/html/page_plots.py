"""The plots of a page: drawn in it for the metric that leads, carried beside it for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from llama_index_rag_metrics.report import svg
from llama_index_rag_metrics.report.elements import Element, element, render
from llama_index_rag_metrics.report.figure import FIGURES, MOST_ABREAST, Figure
from llama_index_rag_metrics.report.model import Report

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


def section(figures: Figures, metric: str) -> list[Element]:
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
