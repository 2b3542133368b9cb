"""Parts of Scores that nobody can write into, and plain ones of them for pickling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray


def frozen_column(column: Sequence[float] | FloatArray) -> FloatArray:
    scores = np.array(column, np.float64)
    scores.flags.writeable = False
    return scores


class LazyRows(Mapping[str, Mapping[str, Any]]):
    """Rows that can't be written into, each worked out whenever it is asked for."""

    def __init__(self, keys: Iterable[str], row_of: Callable[[str], Mapping[str, Any]]) -> None:
        self._keys = dict.fromkeys(keys)
        self._row_of = row_of

    def __getitem__(self, key: str) -> Mapping[str, Any]:
        if key not in self._keys:
            raise KeyError(key)
        return self._row_of(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def frozen_rows(rows: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    if isinstance(rows, LazyRows):
        return rows
    return MappingProxyType({key: MappingProxyType(dict(row)) for key, row in rows.items()})


def thawed(value: Any) -> Any:
    """Nested mappings as dicts, for pickling."""
    if isinstance(value, Mapping):
        return {key: thawed(part) for key, part in value.items()}
    return value
