"""The notebooks as they are committed: run from top to bottom, and nothing of a machine in them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
OF_A_MACHINE = re.compile(r"/(?:home|root|tmp|Users|var|opt|usr)/|[A-Z]:\\\\|site-packages| at 0x")
MOST_BYTES = 100_000


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.name)
def text(request: pytest.FixtureRequest) -> str:
    path: Path = request.param
    return path.read_text(encoding="utf-8")


def code_cells(text: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def test_a_notebook_was_run_from_top_to_bottom(text: str) -> None:
    cells = code_cells(text)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


def test_a_notebook_shows_results_and_no_warnings_or_errors(text: str) -> None:
    outputs = [output for cell in code_cells(text) for output in cell["outputs"]]
    rich = [output for output in outputs if "text/html" in output.get("data", {})]
    assert len(rich) >= 3
    assert {output["output_type"] for output in outputs} <= {"execute_result", "stream"}
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}


def test_a_notebook_is_small_and_says_nothing_of_a_machine(text: str) -> None:
    assert len(text.encode()) < MOST_BYTES
    assert not OF_A_MACHINE.search(text)
    notebook = json.loads(text)
    assert notebook["metadata"].keys() == {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["display_name"] == "Python 3"
    assert [cell["metadata"] for cell in notebook["cells"]] == [{}] * len(notebook["cells"])
