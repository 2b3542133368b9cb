"""Progress bars where people see them: in a Jupyter kernel, and on standard error."""

from __future__ import annotations

import pytest
from support.kernels import printed, run_cells

from llama_index_rag_metrics import evaluate

pytestmark = pytest.mark.servers

DATASET = {
    "queries": {"q1": "why?", "q2": "how?", "q3": "who?"},
    "corpus": {},
    "relevant_docs": {"q1": ["d1"], "q2": ["d1"], "q3": ["d1"]},
}


def test_a_bar_counts_questions_and_failures(capsys: pytest.CaptureFixture[str]) -> None:
    def retrieve(query: str) -> list[str]:
        if query == "how?":
            raise ConnectionError("gone")
        return ["d1"]

    evaluate(retrieve, DATASET, ["mrr"], show_progress=True, name="the [bold] retriever")
    shown = capsys.readouterr()
    assert "the [bold] retriever: 100%" in shown.err
    assert "3/3" in shown.err
    assert "1 failed" in shown.err
    assert shown.out == ""


def test_no_bar_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(lambda _: ["d1"], DATASET, ["mrr"])
    assert capsys.readouterr().err == ""


def test_a_notebook_without_widgets_shows_a_bar_and_no_warning() -> None:
    cell = f"""
    import sys
    sys.modules["ipywidgets"] = None
    from llama_index_rag_metrics import evaluate
    results = evaluate(lambda _: ["d1"], {DATASET!r}, ["mrr"], show_progress=True)
    """
    (outputs,) = run_cells("\n".join(line.strip() for line in cell.splitlines()))
    shown = printed(outputs, "stderr")
    assert "3/3" in shown
    assert "Warning" not in shown
