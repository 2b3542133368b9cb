"""The model of reports: every result has the same outputs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.every_result import EVERY
from support.reported import EVIL, comparison

from llama_index_rag_metrics.report.model import Cell
from llama_index_rag_metrics.report.numbers import shown
from llama_index_rag_metrics.report.reportable import Reportable

TABLELESS = ("HardQuestions", "Pool", "Agreement")
RESULTS = {name: first for name, (first, *_) in EVERY.items() if name not in TABLELESS}


@pytest.mark.parametrize("build", RESULTS.values(), ids=RESULTS)
def test_results_have_every_output(build: Callable[[], Any], tmp_path: Path) -> None:
    result = build()
    assert isinstance(result, Reportable)
    report = result.report()
    first, *_ = report.tables[0].rows
    value = shown(first.cells[0], interval=False).rstrip("%)")
    for text in (str(result), result._repr_html_(), result.to_markdown()):
        assert value in text
    for page in (result._repr_html_(), result.to_html(tmp_path / "a.html").read_text("utf-8")):
        assert EVIL not in page
    assert "object at" not in str(result)
    frame = result.to_pandas()
    assert json.loads(result.to_json())
    assert len(frame)


def test_text_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = comparison()
    for columns in (60, 90):
        monkeypatch.setenv("COLUMNS", str(columns))
        longest = max(map(len, str(compared).splitlines()))
        assert columns - 15 < longest <= columns


@given(st.floats(-1, 1, allow_nan=False))
def test_signed_number_is_zero_or_has_one_true_sign(value: float) -> None:
    text = shown(Cell(value, "signed"))
    assert "-" not in text
    assert (text == "0.0000") or text[0] == ("+" if value > 0 else "−")
    assert float(text.replace("−", "-")) == pytest.approx(value, abs=5.1e-5)
