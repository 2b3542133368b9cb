"""Several coroutines at once: what becomes of those that fail, and of the others."""

from __future__ import annotations

import asyncio

import pytest

from llama_index_rag_metrics.runtime.sync import each, settled


async def odd_fails(number: int) -> int:
    if number % 2:
        raise ValueError(number)
    return number


def test_a_failure_is_an_outcome() -> None:
    first, second, third = asyncio.run(settled(odd_fails(number) for number in range(3)))
    assert (first, third) == (0, 2)
    assert isinstance(second, ValueError)


def test_a_cancellation_is_none() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(settled([cancelled()]))


def test_every_job_is_done_once_and_so_many_at_once() -> None:
    done: list[int] = []
    under_way: set[int] = set()
    most = 0

    async def do(job: int) -> None:
        nonlocal most
        under_way.add(job)
        most = max(most, len(under_way))
        await asyncio.sleep(0)
        under_way.remove(job)
        done.append(job)

    asyncio.run(each(iter(range(10)), do, 3))
    assert sorted(done) == list(range(10))
    assert most == 3


def test_a_job_that_fails_ends_the_others() -> None:
    begun: list[int] = []

    async def do(job: int) -> None:
        begun.append(job)
        await odd_fails(job)
        await asyncio.sleep(60)

    with pytest.raises(ValueError, match="1"):
        asyncio.run(each(range(10), do, 2))
    assert begun == [0, 1]
