"""The page of faults names tests that there are."""

from __future__ import annotations

import ast
import re

import pytest
from support.paths import ROOT

PAGE = (ROOT / "docs" / "howto" / "faults.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert len(NAMED) == len(rows) > 20


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_that_test_is_there(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    functions += [node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)]
    assert name in functions
