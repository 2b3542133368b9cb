"""A cache that several processes use at once: who asks for a value says so, and the others wait."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index.core.storage.kvstore.types import BaseKVStore

from llama_index_rag_metrics.cache.sqlite import SQLiteKVStore

Rows: TypeAlias = dict[str, dict[str, Any]]


class ClaimingStore(BaseKVStore):
    """A store that knows which of its values somebody is asking for right now."""

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


class Keeper:
    """Keeps a store for several processes, and who of them asks for what.

    A claim ends when the value is put, when it is released, or when its owner is forgotten.

    Args:
        made: makes the store.
    """

    def __init__(self, made: Callable[[], BaseKVStore]) -> None:
        self._store = made()
        self._claims: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def claim(
        self, owner: str, keys: Sequence[str], collection: str, wait: bool
    ) -> tuple[Rows, list[str]]:
        """See `ClaimingStore.aclaim`."""
        while wait and len(self._elsewhere(owner, keys)) == len(keys):
            self._changed.clear()
            await self._changed.wait()
        elsewhere = self._elsewhere(owner, keys)
        mine = [key for key in keys if key not in elsewhere]
        # claimed before the store is read: nobody else can claim or put them meanwhile
        self._claims.update(dict.fromkeys(mine, owner))
        try:
            rows = await read_rows(self._store, mine, collection)
        except BaseException:
            self.release(owner, mine)
            raise
        self.release(owner, list(rows))
        return rows, elsewhere

    def _elsewhere(self, owner: str, keys: Sequence[str]) -> list[str]:
        # an owner may claim again: what it was answered may have been lost on the way
        return [key for key in keys if self._claims.get(key, owner) != owner]

    async def put(self, owner: str, pairs: Sequence[tuple[str, Any]], collection: str) -> None:
        """Put values; whether that works or not, they aren't claimed any longer."""
        try:
            await self._store.aput_all(list(pairs), collection=collection)
        finally:
            self.release(owner, [key for key, _ in pairs])

    async def get(self, key: str, collection: str) -> dict[str, Any] | None:
        """A value, whether or not somebody asks for it."""
        return await self._store.aget(key, collection=collection)

    async def get_all(self, collection: str) -> Rows:
        """All that is there."""
        return await self._store.aget_all(collection=collection)

    async def delete(self, key: str, collection: str) -> bool:
        """Delete a value; whether it was there."""
        return await self._store.adelete(key, collection=collection)

    def release(self, owner: str, keys: Sequence[str]) -> None:
        """Give up claims of an owner."""
        for key in keys:
            if self._claims.get(key) == owner:
                del self._claims[key]
        self._changed.set()

    def forget(self, owner: str) -> None:
        """Give up all claims of an owner who is gone."""
        self.release(owner, [key for key, one in self._claims.items() if one == owner])


async def read_rows(store: BaseKVStore, keys: Sequence[str], collection: str) -> Rows:
    """Those of the keys that are in the store."""
    if isinstance(store, SQLiteKVStore):
        return await store.aget_many(keys, collection)
    if isinstance(store, SimpleKVStore):
        return {key: row for key in keys if (row := store.get(key, collection))}
    given = await asyncio.gather(*(store.aget(key, collection=collection) for key in keys))
    return {key: row for key, row in zip(keys, given, strict=True) if row}
