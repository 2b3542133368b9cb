"""The grid of a sweep: every combination of parameters, each with a name."""

from __future__ import annotations

from typing import Any

import pytest

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.sweeps.grid import combinations, name_of, shown, varied


def test_every_combination_once_in_order() -> None:
    assert list(combinations({"a": [1, 2], "b": ["x", "y"]}).values()) == [  # type: ignore[arg-type]
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_configurations_can_be_listed() -> None:
    rows = [{"a": 1}, {"a": 2, "b": None}]
    assert combinations(rows) == {"a=1": rows[0], "a=2, b=None": rows[1]}  # type: ignore[arg-type]
    assert varied(rows) == ["a"]  # type: ignore[arg-type]
    assert varied([{"a": 1, "b": 2}, {"a": 1, "b": 3}]) == ["b"]


def test_names_say_nothing_of_this_process() -> None:
    class Splitter:
        pass

    assert name_of({"splitter": Splitter(), "sizes": [1, 2]}).endswith(".Splitter, sizes=[1, 2]")
    assert shown(0.1) == "0.1"
    assert name_of({}) == "as it is"


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, "at least one configuration"),
        ({"a": []}, "at least one configuration"),
        ([], "at least one configuration"),
        ({"a": "text"}, r"grid\['a'\]: expected a list of values"),
        ({"a": 3}, r"grid\['a'\]: expected a list of values"),
        ("a", "parameter to values"),
        ([3], r"\{parameter: value\}"),
        ({"a": [1, 1]}, "a=1 is there twice"),
    ],
)
def test_what_is_no_grid(grid: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        combinations(grid)
