"""Column: one value of each row of a result, for its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from llama_index_rag_metrics.report import model as m

T = TypeVar("T")


@dataclass(frozen=True)
class Column(Generic[T]):
    """A name and the cell that a row has under it."""

    name: str
    value: Callable[[T], Any]


def table_of(
    title: str, rows: Sequence[T], columns: Sequence[Column[T]], *, label: Column[T]
) -> m.Table:
    """A table whose cells are the values of the columns; `label` is what its rows are called."""
    shown = [m.Row(label.value(row), [column.value(row) for column in columns]) for row in rows]
    return m.Table(title, [column.name for column in columns], [shown], first=label.name)
