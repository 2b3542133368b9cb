"""Blocking calls: quick ones share a thread, others have their own, and none waits for ever."""

import asyncio
import gc
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from random import Random
from typing import Any
from unittest.mock import Mock
from weakref import WeakSet

import pytest

from llama_index_rag_metrics import RetrievalDataset, evaluate, evaluate_stages
from llama_index_rag_metrics.runtime import sync
from llama_index_rag_metrics.runtime.errors import RagMetricsError
from llama_index_rag_metrics.runtime.sync import in_thread


def calls_in_threads(*calls: Callable[[], Any], quick: int = 0) -> list[Any]:
    """What calls return that are made at once, after so many quick ones."""

    async def main() -> list[Any]:
        for _ in range(quick):
            await in_thread(int)
        return await asyncio.wait_for(asyncio.gather(*map(in_thread, calls)), 60)

    return asyncio.run(main())


def test_waiting_for_a_thread_is_no_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    # after the first eight, one thread makes all calls: seven wait while one is made
    monkeypatch.setattr(sync, "_QUICK", 60.0)
    monkeypatch.setattr(sync, "_MOST_QUEUED", 60.0)
    seconds: dict[str, float] = {}

    def retrieve(query: str) -> list[str]:
        begin = time.perf_counter()
        time.sleep(0.02)
        seconds[query] = time.perf_counter() - begin
        return ["a"]

    dataset = RetrievalDataset({f"q{n}": f"{n}?" for n in range(24)})
    for door in (evaluate, lambda *of: evaluate_stages(of[0], {}, *of[1:])["retriever"]):
        run = door(retrieve, dataset, ["judged"]).run
        latencies = [ranking.latency or 0.0 for ranking in run.values()]
        spent = [seconds[query] for query in dataset.queries.values()]
        waited = [whole - own for whole, own in zip(latencies, spent, strict=True)]
        assert 0 < max(waited) < 0.02


def test_quick_calls_share_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "_QUICK", 60.0)
    monkeypatch.setattr(sync, "_MOST_QUEUED", 60.0)
    made: list[tuple[int, int]] = []
    begin = Mock(side_effect=sync._jobs_of_thread)
    monkeypatch.setattr(sync, "_jobs_of_thread", begin)

    def call(number: int) -> None:
        made.append((number, threading.get_ident()))

    calls_in_threads(*[partial(call, number) for number in range(50)], quick=1)
    assert [number for number, _ in made] == list(range(50))
    assert len({thread for _, thread in made}) == begin.call_count == 1


def test_calls_that_are_not_quick_have_threads_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sync, "_QUICK", 0.0)
    monkeypatch.setattr(sync, "_MOST_QUEUED", 60.0)
    barrier = threading.Barrier(9, timeout=60)
    assert sorted(calls_in_threads(*[barrier.wait] * 9, quick=3)) == list(range(9))


def test_call_that_is_not_quick_ends_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "_QUICK", 60.0)
    monkeypatch.setattr(sync, "_MOST_QUEUED", 60.0)
    barrier = threading.Barrier(9, timeout=60)
    slow = partial(monkeypatch.setattr, sync, "_QUICK", 0.0)  # it is, as soon as it is over
    outcomes = calls_in_threads(int, slow, *[barrier.wait] * 9, quick=1)
    assert sorted(outcomes[2:]) == list(range(9))


def test_calls_queued_behind_one_that_is_not_quick_get_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sync, "_QUICK", 60.0)
    # one thread made these one after another: the first would wait for ever for the others
    barrier = threading.Barrier(9, timeout=60)
    waiting = [barrier.wait] * 9
    assert sorted(calls_in_threads(*waiting, quick=3)) == list(range(9))
    released = threading.Event()
    ended = calls_in_threads(int, int, lambda: released.wait(60), int, released.set, quick=3)
    assert ended == [0, 0, True, 0, None]


def test_call_that_hangs_holds_up_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "_QUICK", 60.0)
    released = threading.Event()

    async def main() -> list[int]:
        await in_thread(int)
        hung = asyncio.ensure_future(in_thread(released.wait, 60))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(hung), 0.05)
        later = [await in_thread(int) for _ in range(20)]
        released.set()  # its thread, which nobody waits for, comes back between later calls
        assert await hung
        return later + [await in_thread(int) for _ in range(20)]

    assert asyncio.run(main()) == [0] * 40


def test_outcomes_come_in_order_of_the_calls_whatever_the_mix() -> None:
    random = Random(7)

    def call(number: int) -> int:
        time.sleep(random.choice([0, 0, 0, 0.0002, 0.002, 0.008]))
        if number % 7 == 0:
            raise ValueError(number)
        return number

    async def main() -> list[Any]:
        calls = [in_thread(call, number) for number in range(300)]
        return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = [
        error.args[0] if isinstance(error, ValueError) else error for error in asyncio.run(main())
    ]
    assert outcomes == list(range(300))


def test_no_call_is_lost_that_is_put_as_the_queue_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "_QUICK", 60.0)

    async def main() -> None:
        await in_thread(int)
        for _ in range(20):
            made = threading.Event()
            first = asyncio.ensure_future(in_thread(made.set))
            for _ in range(3):
                await asyncio.sleep(0)
            assert made.wait(60)
            time.sleep(0.001)  # its thread ends, of which the loop hasn't heard yet
            assert await in_thread(int) == 0
            await first
        queued = asyncio.ensure_future(in_thread(int))
        await asyncio.sleep(0)
        # the watch on a queue that has ended in the meantime
        getattr(asyncio.get_running_loop(), sync._CALLS)._watch(deque())
        assert await asyncio.wait_for(queued, 60) == 0

    asyncio.run(main())


def test_errors_contexts_and_calls_that_nobody_waits_for_trouble_no_loop() -> None:
    name = ContextVar("name", default="")
    problems: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: problems.append(context)
        )
        released = threading.Event()
        hung = asyncio.ensure_future(in_thread(released.wait, 60))
        await asyncio.sleep(0)
        hung.cancel()
        released.set()
        for function in (sys.exit, partial(next, iter(()))):  # would end more than the call
            with pytest.raises(RagMetricsError):
                await in_thread(function)
        name.set("moons")
        assert await in_thread(name.get) == "moons"
        await in_thread(time.sleep, 0.05)

    asyncio.run(main())
    assert problems == []


@pytest.mark.parametrize("quick", [0, 1])
def test_threads_and_loops_go_though_calls_outlive_them(quick: int) -> None:
    before, loops, released = threading.active_count(), WeakSet[Any](), threading.Event()

    async def main() -> None:
        loops.add(asyncio.get_running_loop())
        await asyncio.gather(*[in_thread(int) for _ in range(quick)])
        hung = [asyncio.ensure_future(in_thread(released.wait, 60)) for _ in range(4)]
        await asyncio.wait(hung, timeout=0.001)
        for task in hung:
            task.cancel()

    for _ in range(5):
        asyncio.run(main())
        calls_in_threads(*[threading.Barrier(4, timeout=60).wait] * 4)
    released.set()
    deadline = time.monotonic() + 60
    while (threading.active_count() > before or loops) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert threading.active_count() <= before
    assert not loops
