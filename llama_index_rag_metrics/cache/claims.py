"""A cache that several processes use at once: who asks for a value says so, and the others wait."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

from llama_index.core.storage.kvstore.types import DEFAULT_COLLECTION, BaseKVStore

Rows: TypeAlias = dict[str, dict[str, Any]]


class ClaimingStore(BaseKVStore):
    """A store that knows which of its values somebody is asking for right now."""

    def put(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        self.put_all([(key, val)], collection)

    async def aput(
        self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION
    ) -> None:
        await self.aput_all([(key, val)], collection)

    @abstractmethod
    async def aclaim(
        self, keys: Sequence[str], collection: str, *, wait: bool = False
    ) -> tuple[Rows, list[str]]:
        """What is there, and what others are asking for; the rest is the caller's to ask for.

        Args:
            keys: the keys.
            collection: where.
            wait: first wait until others no longer ask for at least one of the keys.
        """

    @abstractmethod
    def release(self, keys: Sequence[str]) -> None:
        """Give up what was claimed and isn't put; doesn't wait."""
