"""Processes that share the cache's file: what they all want is paid for once."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import shared_cache
from support.processes import Forked, start

from llama_index_rag_metrics import Cache, SQLiteKVStore
from llama_index_rag_metrics.runtime.cache.fetching import COLLECTION
from llama_index_rag_metrics.runtime.digests import Request
from llama_index_rag_metrics.runtime.errors import InvalidInput


class Processes:
    """Processes that score texts through one cold cache.

    Attributes:
        log: the batches that were paid for, a line each.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "cache.sqlite"
        self.log = folder / "asked.jsonl"
        self.log.touch()
        self._running: list[Forked | subprocess.Popen[str]] = []

    def score(
        self,
        first: int,
        last: int,
        batch: int = 10,
        seconds: float = 0.01,
        mode: str = "",
        hash_seed: str = "",
    ) -> Forked | subprocess.Popen[str]:
        numbers = [str(number) for number in (first, last, batch, seconds)]
        program = Path(shared_cache.__file__)
        arguments = [str(self.path), str(self.log), *numbers, mode]
        process: Forked | subprocess.Popen[str]
        if hash_seed:
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
            process = start([sys.executable, str(program), *arguments], environment)
        else:
            process = Forked(program.read_text(), *arguments)
        self._running.append(process)
        return process

    def asked(self) -> Counter[int]:
        """How often each text was paid for."""
        lines = self.log.read_text().splitlines()
        return Counter(number for line in lines for number in json.loads(line))

    def wait_until_one_asks(self) -> None:
        end = time.monotonic() + 60
        while not self.asked():
            assert time.monotonic() < end
            time.sleep(0.01)

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


@pytest.fixture
def processes(tmp_path: Path) -> Any:
    started = Processes(tmp_path)
    yield started
    started.close()


def ended_well(process: Forked | subprocess.Popen[str]) -> None:
    _, errors = process.communicate()
    assert process.wait() == 0, errors


def test_six_processes_pay_once(processes: Processes) -> None:
    # each wants 200 of 400 texts: six times 200 are 1,200, and all together 400
    running = [processes.score(first, first + 200) for first in (0, 50, 100, 150, 200, 200)]
    for process in running:
        ended_well(process)
    assert processes.asked() == dict.fromkeys(range(400), 1)


def test_a_file_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    # SQLite fails at once, without its timeout, where one turns the journal on while another writes
    path = tmp_path / "store"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE something (value)")
        with ThreadPoolExecutor() as threads, closing(SQLiteKVStore(path)) as store:
            put = threads.submit(store.put, "a", {"value": 1})
            assert wait([put], timeout=0.2).not_done
            other.execute("COMMIT")
            put.result()
            assert store.get("a") == {"value": 1}


class Renewed(SQLiteKVStore):
    """Says when it has renewed its leases."""

    def renew(self) -> bool:
        has_some = super().renew()
        renewals.release()
        return has_some


renewals = threading.Semaphore(0)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [False, True])
def test_a_slow_scorer_keeps_its_claims(
    tmp_path: Path, blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    slow, other = (kind(tmp_path / "store", lapse=0.3) for kind in (Renewed, SQLiteKVStore))

    async def ask(positions: list[int]) -> list[int]:
        nonlocal now
        for _ in range(10):  # ten times as long as two thirds of a lease
            now += 0.2
            for _ in range(2):  # the first renewal may have begun before
                renewed = partial(renewals.acquire, timeout=60)
                assert renewed() if blocks else await asyncio.to_thread(renewed)
            while renewals.acquire(blocking=False):
                pass
            left.append((await asyncio.to_thread(claimed))[1])
        return [0 for _ in positions]

    def claimed() -> Any:
        return asyncio.run(other.aclaim([key], COLLECTION))

    left: list[list[str]] = []
    request = Request("k", "m", text="a")
    key = request.key
    asyncio.run(Cache(slow).fetch([request], ask))
    assert left == [[key]] * 10
    slow.close()
    other.close()


@pytest.mark.slow
def test_what_a_killed_process_asked_for_is_asked_by_another(processes: Processes) -> None:
    killed = processes.score(0, 5, seconds=60, mode="dies")
    processes.wait_until_one_asks()
    killed.kill()
    ended_well(processes.score(0, 5))
    assert processes.asked() == dict.fromkeys(range(5), 2)


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "1", "2"])
def test_what_a_killed_process_asked_for_is_asked_in_order(
    processes: Processes, hash_seed: str
) -> None:
    killed = processes.score(0, 8, seconds=60, hash_seed=hash_seed)
    processes.wait_until_one_asks()
    killed.kill()
    killed.wait()
    ended_well(processes.score(0, 8, mode="resumes", hash_seed=hash_seed))
    first, resumed = map(json.loads, processes.log.read_text().splitlines())
    # a judge may favour the first place of a call, so the order bears on its grades
    assert first == resumed == [*range(8)]


def test_what_one_failed_on_another_asks_at_once(processes: Processes) -> None:
    fails = processes.score(0, 5, seconds=0.2, mode="fails")
    processes.wait_until_one_asks()
    ended_well(processes.score(0, 5))
    assert fails.wait() == 1
    assert processes.asked() == dict.fromkeys(range(5), 2)


class TestOneProcess:
    KEYS = ("a", "b")

    def claim(self, store: SQLiteKVStore, *keys: str, wait: bool = False) -> Any:
        return asyncio.run(store.aclaim(keys or self.KEYS, "c", wait=wait))

    def test_a_claim_ends_when_the_value_is_put(self, tmp_path: Path) -> None:
        first, second = (SQLiteKVStore(tmp_path / "store") for _ in range(2))
        assert self.claim(first) == ({}, [])
        assert self.claim(second) == ({}, ["a", "b"])
        first.put("a", {"value": 1}, "c")
        assert self.claim(second) == ({"a": {"value": 1}}, ["b"])
        first.close()
        second.close()

    def test_a_claim_ends_when_it_is_released(self, tmp_path: Path) -> None:
        first, second = (SQLiteKVStore(tmp_path / "store") for _ in range(2))
        assert self.claim(first) == ({}, [])
        first.release(["a"])
        assert self.claim(second, "a", wait=True) == ({}, [])
        assert self.claim(second) == ({}, ["a", "b"])
        first.close()
        second.close()

    def test_a_lease_of_the_future_does_not_count(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = (SQLiteKVStore(tmp_path / "store") for _ in range(2))
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 3_600)
        assert self.claim(first) == ({}, [])
        # the clock is set back by an hour, and whoever claimed is gone
        monkeypatch.setattr(time, "time", lambda: now)
        assert self.claim(second) == ({}, [])
        first.close()
        second.close()

    def test_one_that_is_cancelled_while_it_claims_holds_nobody_up(self, tmp_path: Path) -> None:
        first, second = (SQLiteKVStore(tmp_path / "store", lapse=0.5) for _ in range(2))

        async def cancelled() -> None:
            claiming = asyncio.create_task(first.aclaim(self.KEYS, "c"))
            await asyncio.sleep(0)
            claiming.cancel()
            await asyncio.gather(claiming, return_exceptions=True)

        asyncio.run(cancelled())
        assert self.claim(second, wait=True) == ({}, [])
        first.close()
        second.close()

    def test_many_fetches_renew_in_one_thread(self, tmp_path: Path) -> None:
        async def ask(positions: list[int]) -> list[int]:
            return [0 for _ in positions]

        async def fetch() -> int:
            for number in range(50):
                await cache.fetch([Request("k", "m", text=str(number))], ask)
            return sum(
                "rag-metrics-claims" in thread.name for thread in {*threading.enumerate()} - earlier
            )

        earlier = {*threading.enumerate()}
        cache = Cache(tmp_path / "store")
        assert asyncio.run(fetch()) == 1
        cache.store.close()  # type: ignore[attr-defined]

    @pytest.mark.parametrize("lapse", [0, -1, True, float("nan"), "1"])
    def test_other_spans_are_refused(self, lapse: Any, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="lapse"):
            SQLiteKVStore(tmp_path / "store", lapse=lapse)
