"""The grid of a sweep: every combination of parameters, each with a name."""

from __future__ import annotations

import threading
from hashlib import pbkdf2_hmac
from typing import Any

import numpy as np
import pytest
from llama_index.core.embeddings import MockEmbedding
from pydantic import SecretStr

from llama_index_rag_metrics.decisions.sweeps.sweeping import combinations, shown, varied
from llama_index_rag_metrics.runtime.errors import InvalidInput


def test_every_combination_once_in_order() -> None:
    grid: dict[str, Any] = {"a": [1, 2], "b": ["x", "y"]}
    points = combinations(grid).values()
    assert [point.params for point in points] == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_configurations_can_be_listed() -> None:
    rows: list[dict[str, Any]] = [{"a": 1}, {"a": 2, "b": None}]
    points = combinations(rows)
    assert {name: point.params for name, point in points.items()} == {
        "a=1": rows[0],
        "a=2, b=None": rows[1],
    }
    assert varied([{"a": "1"}, {"a": "2"}]) == ["a"]
    assert varied([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}]) == ["b"]


def test_objects_are_shown_by_their_class_and_need_names() -> None:
    def search(k: int) -> int:
        return k

    small, large = MockEmbedding(embed_dim=3), MockEmbedding(embed_dim=4)
    assert [*combinations({"a": [small, search, {1}]})] == [
        "a=MockEmbedding",
        f"a={search.__qualname__}",
        "a=set",
    ]
    with pytest.raises(InvalidInput, match="Tell values apart by names"):
        combinations({"a": [small, large]})
    assert [*combinations({"a": {"small": small, "large": large}})] == ["a=small", "a=large"]
    assert shown(np.int64(3)) == "3"
    assert list(combinations([{}])) == ["as it is"]


def test_values_are_called_as_the_user_calls_them() -> None:
    locks = {"one": threading.Lock(), "other": threading.Lock()}
    points = combinations({"lock": locks})
    assert list(points) == ["lock=one", "lock=other"]
    assert points["lock=other"].params == {"lock": locks["other"]}
    assert points["lock=one"].run("of May") == "of May, lock=one"


@pytest.mark.parametrize(
    ("one", "other"), [(threading.Lock(), threading.Lock()), (1, "1"), ([1], ["1"])]
)
def test_two_values_of_one_name_are_refused_in_whatever_configurations(
    one: object, other: object
) -> None:
    assert len(combinations([{"a": one, "b": 1}, {"a": one, "b": 2}])) == 2
    with pytest.raises(InvalidInput, match=r"grid has two values of 'a' called .*Tell values"):
        combinations([{"a": one, "b": 1}, {"a": other, "b": 2}])


@pytest.mark.parametrize("value", [threading.Lock(), {"k": 1}, [iter("ab")]])
def test_what_is_no_text_needs_a_name_in_a_journal(value: Any) -> None:
    (point,) = combinations({"value": [value]}).values()
    with pytest.raises(
        InvalidInput, match=r"grid\['value'\].*Name them: \{\"value\": \{\"a name\""
    ):
        point.run("")


def test_a_run_has_the_types_that_a_name_has_not() -> None:
    """ "k=1" is the name of a number and of a text, and "a=1, b=2" of one parameter and of two."""

    def run(grid: Any) -> str:
        (point,) = combinations(grid).values()
        return point.run("")

    assert run({"k": [1]}) != run({"k": ["1"]}) != run({"k": [1.0]})
    assert run({"a": ["1, b=2"]}) != run({"a": ["1"], "b": ["2"]})


def test_secrets_are_masked_and_stay_apart() -> None:
    url = "https://me:hunter22@localhost/v1?api_key=zq7-Xy-2"
    keys = ["zq7-Xy-plain", SecretStr("zq7-Xy-other")]
    grid: dict[str, Any] = {"api_key": keys, "url": [url], "max_token": [100]}
    points = combinations(grid)
    one, other = points
    # the first 8 digits of PBKDF2's hash of the key
    slow = pbkdf2_hmac("sha256", b"zq7-Xy-plain", b"grid", 50_000).hex()[:8]
    assert one.startswith(f"api_key=*** {slow}, url=https://***@localhost/v1?api_key=*** ")
    assert one.endswith(", max_token=100")
    assert one != other
    for secret in ("zq7", "hunter22"):
        assert secret not in one + other + points[one].run("") + points[other].run("")
    for values in ("zq7-Xy-plain", ["zq7-Xy-plain"] * 2):
        with pytest.raises(InvalidInput) as caught:
            combinations({"api_key": values})
        assert "zq7" not in str(caught.value)


def test_half_a_character_is_written_out() -> None:
    half, written = shown("half \ud83d"), shown(r"half \ud83d")
    assert half.startswith(r"half \ud83d ")
    assert half.encode() != written.encode()


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
        ({"a": [1, 1]}, "two configurations called 'a=1'"),
    ],
)
def test_what_is_no_grid(grid: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        combinations(grid)
