"""The grid of a sweep: its configurations, known by texts that hold no secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from pydantic import SecretStr

from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import mask, names_secret, register_secret

Grid: TypeAlias = "Mapping[str, Iterable[Any] | Mapping[str, Any]] | Iterable[Mapping[str, Any]]"
"""Parameter to its values, of which every combination is meant, or to {name: value}; or the
combinations themselves."""

_EXAMPLE = 'For example {"chunk_size": [128, 256], "top_k": [3, 5]}.'
_LONGEST_NUMBER = 6
_CREDENTIALS = re.compile(
    r"://[^/\s@]*:([^/\s@]+)@|[?&][\w-]*(?:key|token|secret)=([^&#\s]+)", re.I
)


@dataclass(frozen=True, eq=False)
class GridValue:
    """A value of a parameter: what `build` gets, and a text for names, reports and journals."""

    content: Any
    text: str
    is_named: bool = False

    def is_same(self, other: GridValue) -> bool:
        """Whether two values of one text are surely one."""
        if self.is_named or other.is_named:
            return self.content is other.content
        has_same_type = type(self.content) is type(other.content)
        return has_same_type and repr(self.content) == repr(other.content)


class GridPoint(dict[str, GridValue]):
    """A configuration of the grid: parameter to its value."""

    @property
    def name(self) -> str:
        return ", ".join(f"{name}={value.text}" for name, value in self.items()) or "as it is"

    @property
    def params(self) -> dict[str, Any]:
        """What `build` gets."""
        return {name: value.content for name, value in self.items()}

    @property
    def texts(self) -> dict[str, str]:
        return {name: value.text for name, value in self.items()}

    def run_name(self, run: str) -> str:
        """The name of its run in a journal, where texts stand in quotes: 3 isn't "3"."""
        parts = [run]
        for name, value in self.items():
            text = value.text
            if isinstance(value.content, str) and not value.is_named:
                text = repr(text)
            parts.append(f"{name}={text}")
        return ", ".join(filter(None, parts))


def grid_points(grid: Grid) -> dict[str, GridPoint]:
    """The configurations of a grid by their names; the first parameter varies slowest."""
    points = _combinations(grid) if isinstance(grid, Mapping) else _listed(grid)
    if not points:
        raise InvalidInput("grid", "nothing", "at least one configuration", _EXAMPLE)
    by_name: dict[str, GridPoint] = {}
    values: dict[tuple[str, str], GridValue] = {}
    for point in points:
        if point.name in by_name:
            raise _same_names(f"configurations called {point.name!r}")
        by_name[point.name] = point
        for parameter, value in point.items():
            if not value.is_same(values.setdefault((parameter, value.text), value)):
                raise _same_names(f"values of {parameter!r} called {value.text!r}")
    return by_name


def _same_names(what: str) -> InvalidInput:
    remedy = 'Tell values apart by names: {"splitter": {"a": ..., "b": ...}}.'
    return InvalidInput("grid", what, sentence=f"grid has two {what}.", remedy=remedy)


def _combinations(grid: Mapping[str, Any]) -> list[GridPoint]:
    columns = [_column(parameter, values) for parameter, values in grid.items()]
    return [GridPoint(zip(grid, row, strict=True)) for row in product(*columns) if row]


def _listed(grid: Any) -> list[GridPoint]:
    """The configurations of a list of them."""
    if isinstance(grid, (str, bytes)) or not isinstance(grid, Iterable):
        expected = "parameter to values, or configurations"
        raise InvalidInput("grid", type(grid), expected, _EXAMPLE)
    points = []
    for row in grid:
        if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
            argument, expected = "a configuration of the grid", "{parameter: value}"
            raise InvalidInput(argument, type(row), expected, _EXAMPLE)
        points.append(GridPoint({name: _plain_value(name, value) for name, value in row.items()}))
    return points


def _column(parameter: str, values: Any) -> list[GridValue]:
    if isinstance(values, Mapping) and values and all(isinstance(name, str) for name in values):
        return [_named_value(parameter, name, value) for name, value in values.items()]
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        expected = "a list of values, or {name: value}"
        raise InvalidInput(f"grid[{parameter!r}]", type(values), expected, _EXAMPLE)
    return [_plain_value(parameter, value) for value in values]


def _plain_value(parameter: str, content: Any) -> GridValue:
    """A value without a name, whose text says all of it."""
    if isinstance(content, np.generic):
        content = content.item()
    if _is_secret(parameter, content):
        sentence = f"grid[{parameter!r}] looks like a secret, and grids are shown."
        remedy = 'Let build read it, such as from os.environ, or name it: {"mine": value}.'
        raise InvalidInput(f"grid[{parameter!r}]", "", sentence=sentence, remedy=remedy)
    if content is not None and not isinstance(content, (bool, str, int, float)):
        expected = "texts, numbers, True, False or None"
        remedy = f'Name them: {{"{parameter}": {{"a name": value}}}}.'
        kind = type(content).__qualname__
        raise InvalidInput(f"grid[{parameter!r}]", kind, expected, remedy)
    return GridValue(content, _encodable(str(content)))


def _named_value(parameter: str, name: str, content: Any) -> GridValue:
    """A value with a name, which is all that is shown of it."""
    if isinstance(content, str) and _is_secret(parameter, content):
        register_secret(content)
        for credentials in _CREDENTIALS.finditer(content):
            register_secret(credentials[1] or credentials[2])
    return GridValue(content, mask(_encodable(name)), is_named=True)


def _is_secret(parameter: str, content: Any) -> bool:
    """Whether a value is a secret by its type, its own text or the name of its parameter."""
    if isinstance(content, SecretStr):
        return True
    if not isinstance(content, str) or not content:
        return False
    is_number = content.replace(".", "", 1).isdecimal() and len(content) < _LONGEST_NUMBER
    is_named = names_secret(parameter) and not is_number
    return is_named or _CREDENTIALS.search(content) is not None or mask(content) != content


def _encodable(text: str) -> str:
    """The text, with half a character written out."""
    return text.encode("utf-8", "backslashreplace").decode()
