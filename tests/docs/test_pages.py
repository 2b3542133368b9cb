"""The pages of the documentation: examples run, metrics have definitions, links lead on."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from llama_index_rag_metrics import METRICS

ROOT = next(parent for parent in Path(__file__).parents if (parent / "pyproject.toml").exists())
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


def test_every_metric_has_a_definition() -> None:
    definitions = (DOCS / "definitions.md").read_text(encoding="utf-8")
    anchors = set(re.findall(r"^\(metric-([a-z0-9-]+)\)=$", definitions, re.M))
    assert {name.replace("_", "-") for name in METRICS} <= anchors


@pytest.mark.parametrize("name", ["README.md", "README.zh-TW.md"])
def test_the_readme_is_short(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES_OF_README


@each_page
def test_no_page_names_a_registry_or_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\bpypi\b|/(root|home|work)/", text, re.I)
