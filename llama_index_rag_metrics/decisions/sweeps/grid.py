"""The grid of a sweep: every combination of parameters, each with a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import pbkdf2_hmac
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from pydantic import SecretStr

from llama_index_rag_metrics.runtime.digests import Opaque, digest, short_hash
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import MASK, mask, names_secret, register_secret

Grid: TypeAlias = "Mapping[str, Iterable[Any] | Mapping[str, Any]] | Iterable[Mapping[str, Any]]"
"""Parameter to its values, of which every combination is meant, or to {name: value}; or the
combinations themselves."""

_REMEDY = 'For example {"chunk_size": [128, 256], "top_k": [3, 5]}.'
_NO_SECRETS = {"None", "True", "False", ""}
_LONGEST_NUMBER = 6
_ROUNDS = 50_000
_CREDENTIALS = re.compile(
    r"://[^/\s@]*:([^/\s@]+)@|[?&][\w-]*(?:key|token|secret)=([^&#\s]+)", re.I
)


@dataclass(frozen=True, eq=False)
class Value:
    """A value that `build` gets, its name if the user gave one, and a text for names and reports.

    The text has no secret, and is the same in every process.
    """

    held: Any
    name: str | None
    text: str

    @classmethod
    def of(cls, parameter: str, held: Any, name: str | None = None) -> Value:
        return cls(held, name, shown(held, parameter) if name is None else _safe("", name))


class Point(dict[str, Value]):
    """A configuration: parameter to its value."""

    @property
    def name(self) -> str:
        return ", ".join(f"{name}={value.text}" for name, value in self.items()) or "as it is"

    @property
    def params(self) -> dict[str, Any]:
        return {name: value.held for name, value in self.items()}

    def without(self, parameter: str) -> Point:
        return Point({name: value for name, value in self.items() if name != parameter})

    def identity(self) -> str:
        """The name, and a digest of all that the values hold, for a journal."""
        digests = []
        for parameter, value in self.items():
            try:
                content = value.text if MASK in value.text else value.held
                digests.append(digest(content if value.name is None else value.name))
            except Opaque as error:
                kind = type(value.held).__qualname__
                got = kind if kind == str(error) else f"{kind} that holds {error}"
                expected = "values that a journal can tell apart by what they hold"
                remedy = f'Name them: {{"{parameter}": {{"a name": value}}}}.'
                raise InvalidInput(f"grid[{parameter!r}]", got, expected, remedy) from error
        return f"{self.name} {short_hash(' '.join(digests))}"


def combinations(grid: Grid) -> dict[str, Point]:
    """The configurations of a grid by their names; the first parameter varies slowest."""
    if isinstance(grid, Mapping):
        columns = [_column(name, values) for name, values in grid.items()]
        chosen = [Point(zip(grid, row, strict=True)) for row in product(*columns) if row]
    elif isinstance(grid, (str, bytes)) or not isinstance(grid, Iterable):
        expected = "parameter to values, or configurations"
        raise InvalidInput("grid", type(grid), expected, _REMEDY)
    else:
        chosen = []
        for row in grid:
            if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
                argument, expected = "a configuration of the grid", "{parameter: value}"
                raise InvalidInput(argument, type(row), expected, _REMEDY)
            chosen.append(Point({name: Value.of(name, value) for name, value in row.items()}))
    if not chosen:
        raise InvalidInput("grid", "nothing", "at least one configuration", _REMEDY)
    named: dict[str, Point] = {}
    for point in chosen:
        if point.name in named:
            remedy = 'Tell values apart by names: {"splitter": {"a": ..., "b": ...}}.'
            sentence = f"grid has two configurations called {point.name!r}."
            raise InvalidInput("grid", point.name, sentence=sentence, remedy=remedy)
        named[point.name] = point
    return named


def shown(value: Any, parameter: str = "") -> str:
    """A value as a text, with a digest of what isn't shown, so that texts stay apart.

    >>> shown(0.5), shown("hybrid"), shown(None), shown("sk-0123", "api_key")
    ('0.5', 'hybrid', 'None', '*** 6f45492d')
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, SecretStr):
        return _safe(parameter, value.get_secret_value(), is_secret=True)
    if value is None or isinstance(value, (bool, str, int, float)):
        return _safe(parameter, str(value))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(shown(item, parameter) for item in value)}]"
    kind = str(getattr(value, "__qualname__", None) or type(value).__qualname__)
    try:
        return f"{kind} {digest(value)[:8]}"
    except Opaque:
        return kind


def varied(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The parameters that have more than one text."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if len({row.get(name) for row in rows}) > 1]


def _safe(parameter: str, text: str, *, is_secret: bool = False) -> str:
    """A text without a secret or half a character, which a digest stands for.

    The hash is a slow one, since passwords can be guessed.
    """
    for credentials in _CREDENTIALS.finditer(text):
        register_secret(credentials[1] or credentials[2])
    is_number = text.replace(".", "", 1).isdecimal() and len(text) < _LONGEST_NUMBER
    if is_secret or (names_secret(parameter) and text not in _NO_SECRETS and not is_number):
        register_secret(text)
        safe = MASK
    else:
        safe = mask(text.encode("utf-8", "backslashreplace").decode())
    if safe == text:
        return text
    slow = pbkdf2_hmac("sha256", text.encode("utf-8", "surrogatepass"), b"grid", _ROUNDS)
    return f"{safe} {slow.hex()[:8]}"


def _column(name: str, values: Any) -> list[Value]:
    if isinstance(values, Mapping) and values and all(isinstance(key, str) for key in values):
        return [Value.of(name, value, key) for key, value in values.items()]
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        expected = "a list of values, or {name: value}"
        raise InvalidInput(f"grid[{name!r}]", type(values), expected, _REMEDY)
    return [Value.of(name, value) for value in values]
