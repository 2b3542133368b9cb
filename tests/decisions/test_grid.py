"""The grid of a sweep: every combination of parameters, each with a name."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from llama_index.core.embeddings import MockEmbedding
from pydantic import SecretStr

from llama_index_rag_metrics.decisions.sweeps.grid import configurations_of
from llama_index_rag_metrics.runtime.errors import InvalidInput


def test_every_combination_once_in_order() -> None:
    locks = {"one": threading.Lock(), "other": threading.Lock()}
    points = configurations_of({"a": [1, 2], "lock": locks})
    names = ["a=1, lock=one", "a=1, lock=other", "a=2, lock=one", "a=2, lock=other"]
    assert list(points) == names
    assert points[names[1]].params == {"a": 1, "lock": locks["other"]}
    assert points[names[0]].run == "a=1, lock='one'"


def test_objects_need_names() -> None:
    small, large = MockEmbedding(embed_dim=3), MockEmbedding(embed_dim=4)
    with pytest.raises(InvalidInput, match=r"MockEmbedding.*Name them: \{\"a\": \{\"a name\""):
        configurations_of({"a": [small, large]})
    assert [*configurations_of({"a": {"small": small, "large": large}})] == ["a=small", "a=large"]
    assert [*configurations_of({"a": [np.int64(3)]})] == ["a=3"]
    assert list(configurations_of({})) == ["as it is"]


@pytest.mark.parametrize("value", [threading.Lock(), {"k": 1}, [1, 2], sorted])
def test_what_is_no_text_needs_a_name(value: Any) -> None:
    with pytest.raises(
        InvalidInput, match=r"grid\['value'\].*Name them: \{\"value\": \{\"a name\""
    ):
        configurations_of({"value": [value]})


def test_a_run_has_the_types_that_a_name_has_not() -> None:
    """ "k=1" is the name of a number and of a text, and "a=1, b=2" of one parameter and of two."""

    def run(grid: Any) -> str:
        (point,) = configurations_of(grid).values()
        return point.run

    assert run({"k": [1]}) != run({"k": ["1"]}) != run({"k": [1.0]})
    assert run({"a": ["1, b=2"]}) != run({"a": ["1"], "b": ["2"]})


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("api_key", "zq7-Xy-plain"),
        ("token", SecretStr("zq7-Xy-other")),
        ("url", "https://me:zq7-Xy@localhost/v1"),
        ("url", "https://localhost/v1?api_key=zq7-Xy"),
    ],
)
def test_secrets_are_refused_and_not_shown(parameter: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="looks like a secret") as caught:
        configurations_of({parameter: [value]})
    assert "zq7" not in str(caught.value)
    assert "zq7" not in repr(vars(caught.value))
    named = configurations_of({parameter: {"mine": value}})
    assert [*named] == [f"{parameter}=mine"]
    unset: dict[str, Any] = {"max_token": [100], "api_key": [None]}
    numbers = configurations_of(unset)
    assert [*numbers] == ["max_token=100, api_key=None"]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"a": []}, "at least one value"),
        ({"a": "text"}, r"grid\['a'\]: expected a list of values"),
        ({"a": 3}, r"grid\['a'\]: expected a list of values"),
        ([{"a": 1}], "parameter to its values"),
        ({"a": [1, 1]}, "a=1 twice"),
        ({"a": [1, "1"]}, "a=1 twice"),
    ],
)
def test_what_is_no_grid(grid: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        configurations_of(grid)
