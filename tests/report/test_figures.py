"""Figures: what their data are, and that a drawing is XML with nothing of it left out."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from support.reported import EVIL, baseline, comparison, other

from llama_index_rag_metrics import Scores, compare
from llama_index_rag_metrics.evaluation.evaluation_results import results_report
from llama_index_rag_metrics.report.drawing import ticks
from llama_index_rag_metrics.report.escape import render
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.html import html_page
from llama_index_rag_metrics.report.svg import COLOURS, on_page


def drawn(figure: Figure) -> ElementTree.Element:
    """The drawing, read as the XML that it must be."""
    return ElementTree.fromstring(render(on_page(figure, "caption")))


def words(figure: Figure) -> str:
    return " ".join(drawn(figure).itertext())


def test_differences_are_points_with_intervals_and_a_line_at_0() -> None:
    scores = {"a": Scores(["q1", "q2"], {"mrr": [0.5, 0.25]})}
    scores["b"] = Scores(["q1", "q2"], {"mrr": [1.0, 0.5]})
    compared = compare(scores, "a")
    figure = compared.report().figures["differences"](None)
    assert figure is not None
    (series,) = figure.series
    # (0.5 + 0.25) / 2
    assert (series.name, list(series.x), list(series.y)) == ("b", [0.375], ["mrr"])
    assert (series.low, series.high) == ([compared["b", "mrr"].low], [compared["b", "mrr"].high])
    assert figure.zero_line
    assert "b" in html_page(compared.report(full=True))


def test_a_curve_is_the_metric_by_its_cutoff() -> None:
    figure = results_report({"one": baseline(), "two": other()}).figures["by_cutoff"]("recall@2")
    assert figure is not None
    first = figure.series[0]
    # of q1, q2, q4 and q5: c, d and e come first; a of {a, b} second, b third
    assert list(first.x) == [1, 2, 3]
    assert list(first.y) == [0.75, 0.875, 1.0]
    strokes = [each.get("stroke") for each in drawn(figure).iter() if each.get("stroke-width")]
    assert strokes == [COLOURS[0]] * 2 + [COLOURS[1]] * 2  # from 1 to 2 and from 2 to 3


def test_a_scatter_names_its_points_and_leaves_out_what_is_no_number() -> None:
    series = Series("", 0, [1, 2, math.nan], [0.5, 0.6, 0.7], labels=["small", "large", "lost"])
    text = words(Figure("marks", Axis("tokens"), Axis("ndcg@10"), [series]))
    assert "small" in text
    assert "large" in text
    assert "lost" not in text


@pytest.mark.parametrize("kind", ["means", "differences", "by_cutoff"])
def test_no_name_becomes_markup(kind: str) -> None:
    report = comparison().report()
    if kind != "differences":
        report = results_report([baseline(), other()])
    figure = report.figures[kind](report.headline)
    assert figure is not None
    assert not [each for each in drawn(figure).iter() if "script" in each.tag]
    assert EVIL[:8] in words(figure) or kind == "differences"


def test_no_system_is_red_or_green() -> None:
    for colour in COLOURS:
        red, green, blue = bytes.fromhex(colour[1:])
        assert not (red > 2 * green and red > 2 * blue)
        assert not (green > 1.5 * red and green > 1.5 * blue)


def test_ticks_are_round() -> None:
    assert ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(-0.11, 0.07) == [-0.1, -0.05, 0.0, 0.05]
