"""Plain code, as numbers that may only fall: names that say nothing, nested expressions, size."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import llama_index_rag_metrics as package

HOME = Path(package.__file__).parent
RIDDLES = frozenset(
    re.findall(
        r"\w+",
        """
    after alike alone another apart asked at before beside best both chosen each enough every first
    found further given held how kept known least left lost made met more most one other others own
    read rest said same second seen several shown some such taken these this those thus told wanted
    what where which who whole whose came
    """,
    )
)
"""Pronouns, participles and adverbs: no nouns."""

MOST_RIDDLES = 12
MOST_NESTED = 2
MOST_FILES = 131
MOST_LINES = 22_921


def trees() -> Iterator[ast.AST]:
    for path in HOME.rglob("*.py"):
        yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def test_names_are_nouns() -> None:
    names = [
        node.id
        for node in trees()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    assert sum(name.strip("_") in RIDDLES for name in names) <= MOST_RIDDLES


def is_nested(node: ast.AST) -> bool:
    if isinstance(node, ast.IfExp):
        return isinstance(node.body, ast.IfExp) or isinstance(node.orelse, ast.IfExp)
    return len(getattr(node, "generators", ())) > 1


def test_expressions_do_not_nest() -> None:
    assert sum(map(is_nested, trees())) <= MOST_NESTED


def test_package_stays_small() -> None:
    files = [path.read_text(encoding="utf-8") for path in HOME.rglob("*.py")]
    assert len(files) <= MOST_FILES
    assert sum(text.count("\n") for text in files) <= MOST_LINES
