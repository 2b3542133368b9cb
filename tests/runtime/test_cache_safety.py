"""The cache's file: private, closed in the end, and never believed without a look."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics.runtime.cache import Cache, CacheFile, cache_key

KEY = cache_key("rerank", "some model", query="who?", text="she did")


async def ask(positions: list[int]) -> list[float]:
    return [0.5 for _ in positions]


def is_share(value: Any) -> bool:
    return type(value) is float and 0 <= value <= 1


def kept(path: Path) -> None:
    asyncio.run(Cache(path).fetch([KEY], ask))


@pytest.mark.skipif(os.name != "posix", reason="modes as POSIX has them")
def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    file = CacheFile(tmp_path / "cache.sqlite")
    file.write({"a": 1})
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    file.close()


@pytest.mark.parametrize("value", ["7.0", '"0.5"', '{"other": 1}', "[1]", "{"])
def test_a_value_that_cant_be_one_is_asked_for_again(value: str, tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    kept(path)
    gc.collect()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entries SET value = ?", (value,))
    connection.close()
    fetched = asyncio.run(Cache(path).fetch([KEY], ask, is_valid=is_share))
    assert (fetched.values, fetched.fresh) == ([0.5], 1)
    again = asyncio.run(Cache(path).fetch([KEY], ask, is_valid=is_share))
    assert (again.values, again.fresh) == ([0.5], 0)


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_connection_that_nobody_closed_is_closed(tmp_path: Path) -> None:
    kept(tmp_path / "cache.sqlite")
    # SQLite removes the file of its log when the last connection is closed; other threads of a busy
    # process may be within their last use of it
    deadline = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) > 1 and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    assert [path.name for path in tmp_path.iterdir()] == ["cache.sqlite"]
