"""Several coroutines at once: what becomes of those that fail, and of the others."""

from __future__ import annotations

import asyncio

import pytest

from llama_index_rag_metrics.runtime.sync import each


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
        if job == 1:
            raise ValueError(job)
        await asyncio.sleep(60)

    with pytest.raises(ValueError, match="1"):
        asyncio.run(each(range(10), do, 2))
    assert begun == [0, 1]
