"""The grid of a sweep: its configurations, known by texts that hold no secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from pydantic import SecretStr

from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import mask, names_secret, register_secret

Grid: TypeAlias = "Mapping[str, Iterable[Any] | Mapping[str, Any]] | Iterable[Mapping[str, Any]]"
"""Parameter to its values, of which every combination is meant, or to {name: value}; or the
combinations themselves."""

_EXAMPLE = 'For example {"chunk_size": [128, 256], "top_k": [3, 5]}.'
_CREDENTIALS = re.compile(
    r"://[^/\s@]*:([^/\s@]+)@|[?&][\w-]*(?:key|token|secret)=([^&#\s]+)", re.I
)


class GridValue(NamedTuple):
    """A value of a parameter: what `build` gets, and its texts in reports and in journals."""

    content: Any
    text: str
    run_text: str  # a text in quotes, so that 3 isn't "3"


@dataclass(frozen=True, eq=False)
class GridPoint:
    """A configuration of the grid: what `build` gets, and the texts of it."""

    params: dict[str, Any]
    texts: dict[str, str]
    run: str

    def run_name(self, run: str) -> str:
        """The name of its run in a journal."""
        return ", ".join(filter(None, (run, self.run)))


def grid_points(grid: Grid) -> dict[str, GridPoint]:
    """The configurations of a grid by their names; the first parameter varies slowest."""
    points: dict[str, GridPoint] = {}
    run_texts: dict[tuple[str, str], str] = {}
    for row in _rows(grid):
        texts = {parameter: value.text for parameter, value in row.items()}
        name = _listed(texts) or "as it is"
        if name in points:
            raise _same_names(f"configurations called {name!r}")
        for parameter, value in row.items():
            known = run_texts.setdefault((parameter, value.text), value.run_text)
            if value.run_text != known:
                raise _same_names(f"values of {parameter!r} called {value.text!r}")
        params = {parameter: value.content for parameter, value in row.items()}
        run = _listed({parameter: value.run_text for parameter, value in row.items()})
        points[name] = GridPoint(params, texts, run)
    if not points:
        raise InvalidInput("grid", "nothing", "at least one configuration", _EXAMPLE)
    return points


def _listed(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{parameter}={text}" for parameter, text in texts.items())


def _same_names(what: str) -> InvalidInput:
    remedy = 'Tell values apart by names: {"splitter": {"a": ..., "b": ...}}.'
    return InvalidInput("grid", what, sentence=f"grid has two {what}.", remedy=remedy)


def _rows(grid: Any) -> list[dict[str, GridValue]]:
    if isinstance(grid, Mapping):
        columns = [_column(parameter, values) for parameter, values in grid.items()]
        return [dict(zip(grid, row, strict=True)) for row in product(*columns) if row]
    if isinstance(grid, (str, bytes)) or not isinstance(grid, Iterable):
        expected = "parameter to values, or configurations"
        raise InvalidInput("grid", type(grid), expected, _EXAMPLE)
    rows = []
    for row in grid:
        if not isinstance(row, Mapping):
            argument, expected = "a configuration of the grid", "{parameter: value}"
            raise InvalidInput(argument, type(row), expected, _EXAMPLE)
        rows.append({parameter: _value(parameter, content) for parameter, content in row.items()})
    return rows


def _column(parameter: str, values: Any) -> list[GridValue]:
    if isinstance(values, Mapping):
        return [_named_value(parameter, str(name), content) for name, content in values.items()]
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        expected = "a list of values, or {name: value}"
        raise InvalidInput(f"grid[{parameter!r}]", type(values), expected, _EXAMPLE)
    return [_value(parameter, content) for content in values]


def _value(parameter: str, content: Any) -> GridValue:
    """A value without a name, whose text says all of it."""
    argument = f"grid[{parameter!r}]"
    if isinstance(content, np.generic):
        content = content.item()
    if _is_secret(parameter, content):
        sentence = f"{argument} looks like a secret, and grids are shown."
        remedy = 'Let build read it, such as from os.environ, or name it: {"mine": value}.'
        raise InvalidInput(argument, "", sentence=sentence, remedy=remedy)
    if content is not None and not isinstance(content, (bool, str, int, float)):
        expected = "texts, numbers, True, False or None"
        remedy = f'Name them: {{"{parameter}": {{"a name": value}}}}.'
        raise InvalidInput(argument, type(content).__qualname__, expected, remedy)
    text = _encodable(str(content))
    return GridValue(content, text, repr(text) if isinstance(content, str) else text)


def _named_value(parameter: str, name: str, content: Any) -> GridValue:
    """A value with a name, which is all that is shown of it."""
    if isinstance(content, str) and _is_secret(parameter, content):
        register_secret(content)
        for credentials in _CREDENTIALS.finditer(content):
            register_secret(credentials[1] or credentials[2])
    text = mask(_encodable(name))
    return GridValue(content, text, text)


def _is_secret(parameter: str, content: Any) -> bool:
    """Whether a value is a secret by its type, its own text or the name of its parameter."""
    if isinstance(content, SecretStr):
        return True
    if not isinstance(content, str) or not content:
        return False
    has_credentials = _CREDENTIALS.search(content) is not None or mask(content) != content
    return has_credentials or names_secret(parameter)


def _encodable(text: str) -> str:
    """The text, with half a character written out."""
    return text.encode("utf-8", "backslashreplace").decode()
