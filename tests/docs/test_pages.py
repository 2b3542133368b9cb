"""The pages of the documentation and the notebooks: examples run, links lead on."""

import doctest
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

from llama_index_rag_metrics import METRICS

DOCS = ROOT / "docs"
if not DOCS.exists():
    pytest.skip("the pages aren't part of this distribution", allow_module_level=True)
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("**/*.md"))]
EXAMPLES = re.compile(r"```pycon\n(.*?)```", re.S)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
MOST_LINES_OF_README = 150

each_page = pytest.mark.parametrize(
    "path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix()
)


@each_page
def test_examples_give_what_they_show(path: Path) -> None:
    code = "\n".join(EXAMPLES.findall(path.read_text(encoding="utf-8")))
    page = doctest.DocTestParser().get_doctest(code, {}, path.name, str(path), 0)
    runner = doctest.DocTestRunner(verbose=False)
    said: list[str] = []
    runner.run(page, out=said.append)
    assert not said, "".join(said)


@each_page
def test_links_to_files_lead_to_files(path: Path) -> None:
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_metrics_all_have_a_definition() -> None:
    definitions = (DOCS / "definitions.md").read_text(encoding="utf-8")
    anchors = set(re.findall(r"^\(metric-([a-z0-9-]+)\)=$", definitions, re.M))
    assert {name.replace("_", "-") for name in METRICS} <= anchors


@pytest.mark.parametrize("name", ["README.md", "README.zh-TW.md"])
def test_readme_is_short(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES_OF_README


@each_page
def test_pages_name_no_registry_and_no_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\bpypi\b|/(root|home|work)/", text, re.I)


NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
OF_A_MACHINE = re.compile(r"/(?:home|root|tmp|Users|var|opt|usr)/|[A-Z]:\\\\|site-packages| at 0x")
MOST_BYTES = 100_000


def test_notebooks_are_there() -> None:
    assert NOTEBOOKS


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.name)
def text(request: pytest.FixtureRequest) -> str:
    path: Path = request.param
    return path.read_text(encoding="utf-8")


def code_cells(text: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def test_notebook_was_run_from_top_to_bottom(text: str) -> None:
    cells = code_cells(text)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


def test_notebook_shows_results_and_no_warnings_or_errors(text: str) -> None:
    outputs = [output for cell in code_cells(text) for output in cell["outputs"]]
    rich = [output for output in outputs if "text/html" in output.get("data", {})]
    assert len(rich) >= 3
    assert {output["output_type"] for output in outputs} <= {"execute_result", "stream"}
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}


def test_notebook_is_small_and_says_nothing_of_a_machine(text: str) -> None:
    assert len(text.encode()) < MOST_BYTES
    assert not OF_A_MACHINE.search(text)
    notebook = json.loads(text)
    assert notebook["metadata"].keys() == {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["display_name"] == "Python 3"
    assert [cell["metadata"] for cell in notebook["cells"]] == [{}] * len(notebook["cells"])
