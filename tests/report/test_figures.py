"""Figures: what their data are, and that a drawing is XML with nothing of it left out."""

import math
from xml.etree import ElementTree

from support.reported import EVIL, baseline, comparison, other

from llama_index_rag_metrics import Scores, compare
from llama_index_rag_metrics.evaluation.evaluation_results import results_report
from llama_index_rag_metrics.report.html import html_page
from llama_index_rag_metrics.report.model import Figure, Mark, Series
from llama_index_rag_metrics.report.svg import COLOURS, _Scale, on_page


def drawn(figure: Figure) -> ElementTree.Element:
    """The drawing, read as the XML that it must be."""
    return ElementTree.fromstring(on_page(figure, "caption"))


def words(figure: Figure) -> str:
    return " ".join(drawn(figure).itertext())


def test_differences_are_points_with_intervals_and_a_line_at_0() -> None:
    scores = {"a": Scores(["q1", "q2"], {"mrr": [0.5, 0.25]})}
    scores["b"] = Scores(["q1", "q2"], {"mrr": [1.0, 0.5]})
    compared = compare(scores, "a")
    figure = compared.report().figures["differences"]()
    assert figure is not None
    (series,) = figure.series
    # (0.5 + 0.25) / 2
    (mark,) = series.marks
    assert (series.name, mark.x, mark.y) == ("b", 0.375, "mrr")
    assert (mark.low, mark.high) == (compared["b", "mrr"].low, compared["b", "mrr"].high)
    assert figure.has_zero_line
    assert "b" in html_page(compared.report(full=True))


def test_without_anything_to_draw_there_is_no_caption() -> None:
    scores = {"a": Scores(["q1"], {"mrr": [0.5]}), "b": Scores(["q1"], {"mrr": [math.nan]})}
    assert "Differences from the baseline" not in html_page(compare(scores, "a").report())


def test_curve_is_the_metric_by_its_cutoff() -> None:
    figure = results_report({"one": baseline(), "two": other()}).figures["by_cutoff"]()
    assert figure is not None
    first = figure.series[0]
    assert [mark.x for mark in first.marks] == [1, 2, 3]
    # of q1, q2, q4 and q5: c, d and e come first
    assert first.marks[0].y == 0.75
    assert first.marks[2].y == baseline().scores.means["ndcg@3"]
    strokes = [each.get("stroke") for each in drawn(figure).iter() if each.get("stroke-width")]
    assert strokes == [COLOURS[0]] * 2 + [COLOURS[1]] * 2  # from 1 to 2 and from 2 to 3


def test_scatter_names_its_points() -> None:
    marks = [Mark(1, 0.5, label="small"), Mark(2, 0.6, label="large")]
    text = words(Figure("marks", "tokens", "ndcg@10", [Series("", 0, marks)]))
    assert "small" in text
    assert "large" in text


def test_names_become_no_markup() -> None:
    curves = results_report({"one": baseline(), EVIL: other()}).figures["by_cutoff"]()
    differences = comparison().report().figures["differences"]()
    for figure in (curves, differences):
        assert figure is not None
        assert not [each for each in drawn(figure).iter() if "script" in each.tag]
        assert EVIL[:8] in words(figure)


def test_systems_are_neither_red_nor_green() -> None:
    for colour in COLOURS:
        red, green, blue = bytes.fromhex(colour[1:])
        assert not (red > 2 * green and red > 2 * blue)
        assert not (green > 1.5 * red and green > 1.5 * blue)


def test_ticks_are_round() -> None:
    assert _Scale([0.05, 0.95], 0.0501).ticks() == [0.2, 0.4, 0.6, 0.8]
    assert _Scale([-0.1, 0.06], 0.06).ticks() == [-0.1, -0.05, 0.0, 0.05]
