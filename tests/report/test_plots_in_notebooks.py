"""A plot is a picture in a notebook and in a file, whatever its names hold."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.kernels import printed, run_cells
from support.reported import comparison
from support.reported import results as results_of

from llama_index_rag_metrics import Call, Plot, Ranking, Scores, compare, plot

pytestmark = pytest.mark.servers

EVIL = "<script>alert(1)</script>"
HOSTILE = f"{EVIL}\"'&amp;\x00\x1b[31m\n\u202eback \ud83d ]]>"
SETTING = f"""
from llama_index_rag_metrics import Scores
scores = Scores(["q1", "q2"], {{"mrr": [1.0, 0.5]}}, name={EVIL!r})
"""


def bm25() -> Plot:
    return Scores(["q1", "q2"], {"mrr": [1.0, 0.5]}, name="bm25").plot()


def test_a_notebook_keeps_the_picture_and_a_sentence() -> None:
    bundle = bm25()._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {
        "image/svg+xml": bm25().svg,
        "text/plain": "Retrieval of bm25, plotted: means with their intervals.",
    }
    assert ">mrr</text>" in bm25().svg
    # GitHub and nbconvert make a file of it, dark or light around: it needs no page, and is white
    tag, _, inside = bm25().svg.partition(">")
    assert 'xmlns="http://www.w3.org/2000/svg"' in tag
    assert inside.startswith('<rect width="100%" height="100%" fill="#fff"')


def test_the_sentence_names_what_is_shown_by_which_metric() -> None:
    compared = comparison()
    shown = str(compared.plot("distribution"))
    assert shown == f"{EVIL} against baseline, plotted: differences, question by question, ndcg@3."
    assert str(compared.plot("means", "mrr")).endswith("means with their intervals, mrr.")
    assert repr(compared.plot("latency")) == f"<Plot: {EVIL} against baseline, plotted: latency.>"


def test_a_plot_is_written_as_a_file_that_shows_its_numbers(tmp_path: Path) -> None:
    path = bm25().write(tmp_path / "means.svg")
    titles = [
        each.text for each in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}title")
    ]
    # Wilson's interval of 0.75, which has no other number here
    assert [re.sub(r"\(.*\)", "(…)", title or "") for title in titles] == ["bm25: mrr: 0.7500 (…)"]


@pytest.mark.parametrize("kind", [*comparison().report().figures])
def test_no_name_is_markup_or_steers(kind: str) -> None:
    ranking = Ranking(["a"], tokens=[3], latency=0.1, calls=[Call(["a"])])
    systems: dict[str, Any] = {name: results_of({"q1": ranking}, name) for name in ("a", HOSTILE)}
    drawn = plot(compare(systems, "a", resamples=100), kind)
    ElementTree.fromstring(drawn.svg)
    for text in (drawn.svg, drawn.sentence):
        text.encode()
        assert text.isprintable()
    assert not re.search(r"<(?!/?(svg|g|rect|line|path|polyline|text|title)[ >])", drawn.svg)


def test_the_picture_is_in_what_nbconvert_makes_of_a_notebook() -> None:
    nbconvert = pytest.importorskip("nbconvert", reason="converts the notebook")
    nbformat = pytest.importorskip("nbformat", reason="holds the notebook")
    outputs = run_cells(SETTING, "scores.plot()", "print(scores)")
    assert [each["output_type"] for cell in outputs[1:] for each in cell] == [
        "execute_result", "stream"
    ]  # fmt: skip
    assert "0.75" in printed(outputs[2])
    cells = [nbformat.v4.new_code_cell(outputs=each) for each in outputs]
    page, _ = nbconvert.HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=cells))

    (shown,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    picture = b64decode(shown).decode()
    assert ">mrr</text>" in picture
    assert "&lt;script&gt;alert(1)" in picture
    assert EVIL not in picture
