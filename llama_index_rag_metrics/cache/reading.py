"""Reading several values of a store at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index.core.storage.kvstore.types import BaseKVStore

from llama_index_rag_metrics.cache.claims import Rows
from llama_index_rag_metrics.cache.sqlite import SQLiteKVStore


async def read_rows(store: BaseKVStore, keys: Sequence[str], collection: str) -> Rows:
    """Those of the keys that are in the store."""
    if isinstance(store, SQLiteKVStore):
        return await store.aget_many(keys, collection)
    if isinstance(store, SimpleKVStore):
        return {key: row for key in keys if (row := store.get(key, collection))}
    values = await asyncio.gather(*(store.aget(key, collection=collection) for key in keys))
    return {key: row for key, row in zip(keys, values, strict=True) if row}
