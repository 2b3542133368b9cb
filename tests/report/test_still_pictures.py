"""A figure in a notebook keeps a still picture, which pages show where no script runs."""

from __future__ import annotations

import re
from base64 import b64decode
from copy import deepcopy
from typing import Any

import pytest
from support.kernels import printed, run_cells

from llama_index_rag_metrics import Scores

pytest.importorskip("plotly", reason="draws the figures")

EVIL = "<script>alert(1)</script>"
SETTING = f"""
from llama_index_rag_metrics import Scores
scores = Scores(["q1", "q2"], {{"mrr": [1.0, 0.5]}}, name={EVIL!r})
figure = scores.plot()
"""


def bundle(**changes: Any) -> dict[str, Any]:
    """What a notebook keeps of a figure, where plotly's renderer is that of a notebook."""
    import plotly.io as pio

    figure = Scores(["q1", "q2"], {"mrr": [1.0, 0.5]}, name="bm25").plot()
    figure.update_layout(**changes)
    before = pio.renderers.default
    pio.renderers.default = "plotly_mimetype"
    try:
        kept: dict[str, Any] = figure._repr_mimebundle_()
    finally:
        pio.renderers.default = before
    return kept


def test_the_picture_stands_beside_plotlys_own_data() -> None:
    kept = bundle()
    assert kept.keys() == {"application/vnd.plotly.v1+json", "image/svg+xml", "text/plain"}
    assert kept["text/plain"] == "Means with their intervals"
    assert ">mrr</text>" in kept["image/svg+xml"]
    # GitHub and nbconvert make a file of it, dark or light around: it needs no page, and is white
    tag, _, inside = kept["image/svg+xml"].partition(">")
    assert 'xmlns="http://www.w3.org/2000/svg"' in tag
    assert inside.startswith('<rect width="100%" height="100%" fill="#fff"')


def test_a_figure_that_was_changed_isnt_shown_by_its_old_picture() -> None:
    assert "image/svg+xml" not in bundle(title="something else")


def test_a_copy_is_plotlys_figure() -> None:
    figure = Scores(["q1", "q2"], {"mrr": [1.0, 0.5]}).plot()
    assert deepcopy(figure) == figure
    assert figure.to_dict() == deepcopy(figure).to_dict()


def test_the_picture_is_in_what_nbconvert_makes_of_a_notebook() -> None:
    nbconvert = pytest.importorskip("nbconvert", reason="converts the notebook")
    nbformat = pytest.importorskip("nbformat", reason="holds the notebook")
    outputs = run_cells(SETTING, "figure", "figure.show()")
    cells = [nbformat.v4.new_code_cell(outputs=each) for each in outputs]
    page, _ = nbconvert.HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=cells))

    displayed, shown = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert displayed == shown
    picture = b64decode(displayed).decode()
    assert ">mrr</text>" in picture
    assert "&lt;script&gt;alert(1)" in picture
    assert EVIL not in page + picture


def test_what_is_printed_in_a_notebook_is_text() -> None:
    (outputs,) = run_cells(f"{SETTING}\nprint(scores)")
    assert [output["output_type"] for output in outputs] == ["stream"]
    assert "0.75" in printed(outputs)
