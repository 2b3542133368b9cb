"""What the project's own files say of it agrees with the package."""

import ast
import re
import sys
from pathlib import Path

import pytest

import llama_index_rag_metrics as package

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = next(
    folder / "pyproject.toml"
    for folder in Path(__file__).parents
    if (folder / "pyproject.toml").exists()
)
PROJECT = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))


def test_llamahub_lists_the_front_door() -> None:
    """What evaluates, what it is given, and what one's own metric is made from."""
    front_door = {
        package.RankingMetric,
        package.RetrievalDataset,
        package.RetrieverEvaluator,
        package.TextMetric,
    }
    listed = PROJECT["tool"]["llamahub"]["class_authors"]
    assert {getattr(package, name) for name in listed} == front_door


def test_version_stands_in_one_place() -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "llama_index_rag_metrics/__init__.py"


@pytest.mark.parametrize("readme", ["README.md", "README.zh-TW.md"])
def test_readme_lists_every_extra_for_users(readme: str) -> None:
    text = (PYPROJECT.parent / readme).read_text(encoding="utf-8")
    extras = PROJECT["project"]["optional-dependencies"].keys() - {"test", "dev"}
    assert {extra for extra in extras if f"`{extra}`" not in text} == set()


def test_rooms_with_a_public_name_have_a_heading_in_the_reference() -> None:
    extension = ast.parse((PYPROJECT.parent / "docs/_ext/public_names.py").read_text("utf-8"))
    [titles] = [
        ast.literal_eval(statement.value)
        for statement in extension.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "TITLES"
    ]
    public = (getattr(package, name) for name in package.__all__)
    modules = (getattr(value, "__module__", type(value).__module__) for value in public)
    places = {f"{module.partition('.')[2]}." for module in modules}
    assert [
        place for place in places if not place.startswith(tuple(f"{key}." for key in titles))
    ] == []


def test_public_names_have_an_example() -> None:
    without = [
        name for name in package.__all__ if ">>>" not in (getattr(package, name).__doc__ or "")
    ]
    assert without == []


def test_front_page_lists_every_page() -> None:
    docs = PYPROJECT.parent / "docs"
    front = (docs / "index.md").read_text("utf-8")
    pages = [path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.md")]
    pages = [page for page in pages if page != "index" and not page.startswith("reference/")]
    assert len(pages) < 24
    assert [page for page in pages if f"({page}.md" not in front] == []
    assert [page for page in pages if f"\n{page}\n" not in front] == []  # in the navigation


def test_architecture_names_every_room() -> None:
    page = (PYPROJECT.parent / "docs" / "architecture.md").read_text("utf-8")
    home = PYPROJECT.parent / "llama_index_rag_metrics"
    rooms = {path.stem for path in home.iterdir() if path.suffix == ".py" or path.is_dir()}
    rooms = {room for room in rooms if not room.startswith("__")}
    assert [room for room in sorted(rooms) if f"`{room}`" not in page] == []


def test_architecture_names_files_that_there_are() -> None:
    page = (PYPROJECT.parent / "docs" / "architecture.md").read_text("utf-8")
    files = re.findall(r"`([\w/]+\.py)`", page.partition("## Where is")[2].partition("\n## ")[0])
    home = PYPROJECT.parent / "llama_index_rag_metrics"
    assert len(files) > 10
    assert [file for file in files if not (home / file).is_file()] == []
    for row in re.findall(r"^\| (`.*) \|$", page.partition("## Where is")[0], re.MULTILINE):
        rooms, _, purpose = row.partition(" | ")
        paths = [
            path for room in re.findall(r"`(\w+)`", rooms) for path in (home / room).rglob("*")
        ]
        known = {path.stem for path in paths} | {*package.__all__}
        assert set(re.findall(r"`(\w+)/?`", purpose)) <= known, row


def test_examples_are_named_in_a_page() -> None:
    home = PYPROJECT.parent
    pages = [home / "README.md", *(home / "docs").rglob("*.md")]
    text = "".join(page.read_text("utf-8") for page in pages)
    scripts = [path.name for path in (home / "examples").glob("*.py")]
    assert [name for name in sorted(scripts) if f"examples/{name}" not in text] == []
