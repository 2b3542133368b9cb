"""The grid of a sweep: every combination of parameters, each with a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

from llama_index_rag_metrics.errors import InvalidInput

Params: TypeAlias = Mapping[str, Any]
Grid: TypeAlias = "Mapping[str, Sequence[Any]] | Iterable[Params]"
"""Parameter to its values, of which every combination is meant; or the combinations themselves."""


def combinations(grid: Grid) -> dict[str, dict[str, Any]]:
    """Name to parameters of every configuration of a grid; the first parameter varies slowest.

    Raises:
        InvalidInput: this is no grid, or holds no configuration, or one twice.

    Examples:
        >>> list(combinations({"chunk_size": [128, 256], "top_k": [3]}))
        ['chunk_size=128, top_k=3', 'chunk_size=256, top_k=3']
    """
    remedy = 'For example {"chunk_size": [128, 256], "top_k": [3, 5]}.'
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
                raise InvalidInput(f"grid[{name!r}]", values, "a list of values", remedy)
        chosen = [dict(zip(grid, row, strict=True)) for row in product(*grid.values())]
        chosen = chosen if grid else []
    elif isinstance(grid, (str, bytes)) or not isinstance(grid, Iterable):
        raise InvalidInput("grid", grid, "parameter to values, or configurations", remedy)
    else:
        chosen = [_checked(row, remedy) for row in grid]
    if not chosen:
        raise InvalidInput("grid", grid, "at least one configuration", remedy)
    named: dict[str, dict[str, Any]] = {}
    for params in chosen:
        name = name_of(params)
        if name in named:
            expected = f"every configuration once; {name} is there twice"
            raise InvalidInput("grid", grid, expected, "Name functions and objects apart.")
        named[name] = params
    return named


def name_of(params: Params) -> str:
    """A configuration as a text."""
    return ", ".join(f"{name}={shown(value)}" for name, value in params.items()) or "as it is"


def shown(value: Any) -> str:
    """A value as a text that is the same in every process, without the address of an object.

    >>> shown(0.5), shown("hybrid"), shown(None), shown(sorted)
    ('0.5', 'hybrid', 'None', 'sorted')
    """
    if value is None or isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(shown, value))}]"
    return str(getattr(value, "__qualname__", None) or type(value).__qualname__)


def varied(rows: Sequence[Params]) -> list[str]:
    """The parameters that have more than one value."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if len({shown(row.get(name)) for row in rows}) > 1]


def _checked(row: object, remedy: str) -> dict[str, Any]:
    if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
        raise InvalidInput("a configuration of the grid", row, "{parameter: value}", remedy)
    return dict(row)
