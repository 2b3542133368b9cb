"""A process that scores texts through a cache on a file of SQLite, for tests with several."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.runtime.cache.fetching import Cache
from llama_index_rag_metrics.runtime.cache.stores import SQLiteKVStore
from llama_index_rag_metrics.runtime.digests import Request


class Resuming(SQLiteKVStore):
    """The leases of killed processes last until somebody waits for them, however long that is."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._lapse_at(1e12)

    async def aclaim(self, keys: Sequence[str], collection: str, *, wait: bool = False) -> Any:
        if wait:
            self._lapse_at(0)
        return await super().aclaim(keys, collection, wait=wait)

    def _lapse_at(self, seconds: float) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("UPDATE leases SET until = ?", (seconds,))


def main(path: str, log: str, first: int, last: int, batch: int, seconds: float, mode: str) -> None:
    """Score texts by their numbers; each batch that is paid for is a line of the log.

    Args:
        path: the cache.
        log: where the batches that are asked for are written.
        first: the first text.
        last: the text behind the last one.
        batch: how many texts are asked for at once.
        seconds: how long an answer takes.
        mode: "fails" where the scorer raises, "resumes" where leases last until somebody waits for
            them, "dies" where its leases lapse soon, else "".
    """
    requests = [Request("length", "model", text=str(number)) for number in range(first, last)]

    async def ask(positions: list[int]) -> list[int]:
        with Path(log).open("a") as lines:
            lines.write(json.dumps([first + position for position in positions]) + "\n")
        await asyncio.sleep(seconds)
        if mode == "fails":
            raise RuntimeError("no answer")
        return [len(requests[position].text) for position in positions]

    store = (
        Resuming(path)
        if mode == "resumes"
        else SQLiteKVStore(path, lapse=1.5 if mode == "dies" else 3_600)
    )
    cache = Cache(store)
    fetched = asyncio.run(cache.fetch(requests, ask, batch_size=batch))
    assert fetched.values == [len(request.text) for request in requests]


if __name__ == "__main__":
    first, last, batch = map(int, sys.argv[3:6])
    main(sys.argv[1], sys.argv[2], first, last, batch, float(sys.argv[6]), sys.argv[7])
