"""Tables by name, to which users add their own entries: matchers, formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from llama_index_rag_metrics.runtime.errors import InvalidInput

Entry = TypeVar("Entry")


class OpenTable(dict[str, Entry], Generic[Entry]):
    def __init__(
        self,
        argument: str,
        entries: str,
        own: Mapping[str, Entry] | None = None,
        taken: Iterable[str] = (),
    ) -> None:
        super().__init__(own or {})
        self._argument = argument
        self._entries = entries
        self._own = frozenset(self)
        self._taken = frozenset(taken)

    def add(self, name: str, entry: Entry) -> None:
        if name in self or name in self._taken:
            raise InvalidInput(self._argument, name, f"none of {[*sorted(self._taken), *self]}")
        self[name] = entry

    def added(self) -> list[str]:
        return [name for name in self if name not in self._own]

    def remove(self, name: str) -> None:
        if name in self._own or name not in self:
            expected = f"one of {sorted(self.added())}, the registered {self._entries}"
            raise InvalidInput(self._argument, name, expected)
        del self[name]
