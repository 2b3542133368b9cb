"""Progress bars where people see them: in a Jupyter kernel, and on standard error."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from llama_index_rag_metrics import evaluate

KERNEL = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]


def run_cells(*cells: str) -> list[list[Mapping[str, Any]]]:
    """The outputs of each cell; an error in a cell is raised."""
    pytest.importorskip("ipykernel", reason="a kernel to run the cells")
    nbformat = pytest.importorskip("nbformat", reason="what runs the cells")
    nbclient = pytest.importorskip("nbclient", reason="what runs the cells")
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells]
    )

    async def run() -> None:
        manager = AsyncKernelManager()
        manager._kernel_spec = KernelSpec(argv=KERNEL, display_name="Python", language="python")
        await nbclient.NotebookClient(notebook, km=manager, timeout=120).async_execute()

    asyncio.run(run())
    return [cell["outputs"] for cell in notebook.cells]


def printed(outputs: list[Mapping[str, Any]], stream: str = "stdout") -> str:
    """What a cell wrote to a standard stream."""
    return "".join(
        output["text"]
        for output in outputs
        if output["output_type"] == "stream" and output["name"] == stream
    )


pytestmark = pytest.mark.servers

DATASET = {
    "queries": {"q1": "why?", "q2": "how?", "q3": "who?"},
    "corpus": {},
    "relevant_docs": {"q1": ["d1"], "q2": ["d1"], "q3": ["d1"]},
}


def test_bar_counts_questions_and_failures(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_bar_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(lambda _: ["d1"], DATASET, ["mrr"])
    assert capsys.readouterr().err == ""


def test_bar_that_nobody_reads_ends() -> None:
    """As behind `2>&1 | head`: tqdm would raise, and keep a lock that Python then waits for."""
    code = "from llama_index_rag_metrics.runtime.progress import ProgressBar; [*ProgressBar('abc')]"
    reader, writer = os.pipe()
    os.close(reader)
    subprocess.run([sys.executable, "-c", code], stderr=writer, timeout=60, check=True)


def test_notebook_without_widgets_shows_a_bar_and_no_warning() -> None:
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


def test_dict_of_results_shows_their_report_and_another_dict_itself() -> None:
    cells = f"""
    from llama_index_rag_metrics import evaluate
    results = evaluate(lambda _: ["d1"], {DATASET!r}, ["mrr"])
    display({{"old & new": results, 2: results.scores}})
    display({{"a": 1}}, {{}})
    """
    (outputs,) = run_cells("\n".join(line.strip() for line in cells.splitlines()))
    shown, *others = [output["data"] for output in outputs if output["output_type"] != "stream"]
    assert "Retrieval of old &amp; new and 2" in shown["text/html"]
    assert [list(other) for other in others] == [["text/plain"]] * 2
