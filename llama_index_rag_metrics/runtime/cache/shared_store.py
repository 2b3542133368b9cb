"""One store for several processes that can't open it themselves: the workers of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.storage.kvstore.types import BaseKVStore

from llama_index_rag_metrics.runtime.cache.claims import Rows
from llama_index_rag_metrics.runtime.cache.fetching import read_rows


class Keeper:
    """Keeps a store for several processes, and which of them asks for what.

    A claim ends when the value is put, when it is released, or when its owner is forgotten.
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
        self.release(owner, [key for key, holder in self._claims.items() if holder == owner])
