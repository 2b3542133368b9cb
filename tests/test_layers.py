"""Each room imports only from rooms above it, and no file grows into a drawer.

The order is that of the house. An import inside a function that hands over to a later room is
allowed where it is named here.
"""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

import llama_index_rag_metrics

PACKAGE = llama_index_rag_metrics.__name__
HOME = Path(llama_index_rag_metrics.__file__).parent

ROOMS = [
    "runtime", "rankings", "metrics", "statistics", "report", "files", "scores", "stories",
    "evaluation", "distributed", "decisions", "labels", "demo", "cli", "__main__",
]  # fmt: skip

HANDED_OVER = {("scores/scores.py", "stories")}
"""Files that hand over to a later room: scores are data, and their report is made there."""

MOST_LINES = 600

FILES = sorted(HOME.rglob("*.py"))
TESTS = sorted(Path(__file__).parent.rglob("*.py"))
SUPPORT = [path for path in TESTS if path.parent.name == "support" and path.stem != "__init__"]
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOME)))


def room_of(path: Path) -> str:
    return path.relative_to(HOME).parts[0].removesuffix(".py")


@cache
def imports(path: Path) -> list[tuple[list[str], bool]]:
    """What a file imports of the package, in parts, and whether it does so inside a function."""
    return [*_imports(path)]


def _imports(path: Path) -> Iterator[tuple[list[str], bool]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, functions)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                inside_room = path.relative_to(HOME).parts[: -node.level]
                assert inside_room, f"{path}: imports across rooms are written in full"
                module = ".".join([PACKAGE, *inside_room, *filter(None, [module])])
            names = [f"{module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == PACKAGE and len(parts) > 1:
                yield parts[1:], id(node) in inside


def wrong_way(path: Path) -> list[tuple[str, str, bool]]:
    """The imports of a file that go against the order: room, later room, whether in a function."""
    room, name = room_of(path), path.relative_to(HOME).as_posix()
    return [
        (room, other, local)
        for (other, *_), local in imports(path)
        if other in ROOMS and ROOMS.index(other) > ROOMS.index(room)
        if (name, other) not in HANDED_OVER
    ]


def is_a_module(parts: Sequence[str]) -> bool:
    path = HOME.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


@each_file
def test_files_all_have_a_room(path: Path) -> None:
    assert room_of(path) in [*ROOMS, "__init__"]


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if room_of(path) != "__init__"],
    ids=lambda path: str(path.relative_to(HOME)),
)
def test_room_imports_only_from_rooms_above(path: Path) -> None:
    assert wrong_way(path) == []


def test_files_dont_import_each_other_even_on_a_way_round() -> None:
    """No circles, not even for types; what hands over to a later room is named above."""
    handing = {name for name, _ in HANDED_OVER}
    waiting = {
        path: {HOME.joinpath(*parts[:-1]).with_suffix(".py") for parts, _ in imports(path)}
        for path in FILES
        if path.relative_to(HOME).as_posix() not in handing
    }
    while ready := [path for path, needs in waiting.items() if not needs & waiting.keys() - {path}]:
        for path in ready:
            del waiting[path]
    assert [str(path.relative_to(HOME)) for path in waiting] == []


@pytest.mark.parametrize("path", [*FILES, *TESTS], ids=lambda path: path.name)
def test_imports_all_lead_somewhere(path: Path) -> None:
    assert [parts for parts, _ in imports(path) if not is_a_module(parts[:-1])] == []


@each_file
def test_modules_are_not_named_as_what_is_public(path: Path) -> None:
    """`from package import metrics` is a module or a function, by what was imported before."""
    names = {parts[0] for parts, _ in imports(path) if len(parts) == 1 and is_a_module(parts)}
    assert names.isdisjoint(llama_index_rag_metrics.__all__)


@pytest.mark.parametrize("name", [path.stem for path in SUPPORT])
def test_script_beside_it_imports_no_support_in_place_of_a_package(name: str) -> None:
    package = find_spec(name)
    assert package is None or package.origin is None  # a folder of tests has no origin


@each_file
def test_files_are_not_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_modules_share_no_name() -> None:
    # a command of the command line is called like what it does
    names = [path.stem for path in FILES if path.stem != "__init__" and room_of(path) != "cli"]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_top_holds_the_rooms_and_nothing_else() -> None:
    entries = {path.name for path in HOME.iterdir() if path.name != "__pycache__"}
    rooms = {room for room in ROOMS if not room.startswith("__")}
    assert entries == {*rooms, "__init__.py", "__main__.py", "py.typed"}
