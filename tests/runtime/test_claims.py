"""What processes share, without a cluster: the classes of the actors, called directly."""

from __future__ import annotations

import asyncio
import builtins
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from llama_index.core.storage.kvstore import SimpleKVStore

from llama_index_rag_metrics import Cache, SQLiteKVStore
from llama_index_rag_metrics.distributed.ray import evaluate, score_dataset
from llama_index_rag_metrics.distributed.ray.sharing import LimiterActor, Limiters, SharedStore
from llama_index_rag_metrics.runtime.cache.stores import SharedStoreActor
from llama_index_rag_metrics.runtime.digests import Request
from llama_index_rag_metrics.runtime.errors import CacheWarning, MissingExtra


class Direct:
    """An actor's handle, without an actor: a call runs in this loop."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.actor, name)

        def remote(*arguments: Any) -> Any:
            outcome = method(*arguments)
            return asyncio.ensure_future(outcome) if inspect.iscoroutine(outcome) else outcome

        return SimpleNamespace(remote=remote)


class Process:
    """One of several processes with a cache on the same store."""

    def __init__(self, keeper: SharedStoreActor, owner: str, asked: list[str]) -> None:
        self.cache = Cache(SharedStore(Direct(keeper), owner))
        self.asked = asked
        self.fails = False

    async def get(self, *texts: str, batch_size: int | None = None) -> list[Any]:
        async def ask(positions: list[int]) -> list[str]:
            self.asked += [texts[position] for position in positions]
            await asyncio.sleep(0.02)
            if self.fails:
                raise RuntimeError("no answer")
            return [texts[position].upper() for position in positions]

        requests = [Request("capitals", "model", text=text) for text in texts]
        return (await self.cache.fetch(requests, ask, batch_size=batch_size)).values


@pytest.fixture(params=["memory", "SQLite"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> SharedStoreActor:
    made: Callable[[], Any] = SimpleKVStore
    if request.param == "SQLite":
        made = lambda: SQLiteKVStore(tmp_path / "store.sqlite")  # noqa: E731
    return SharedStoreActor(made)


@pytest.mark.parametrize("batch_size", [None, 1])
def test_what_several_processes_want_is_asked_once(
    keeper: SharedStoreActor, batch_size: int | None
) -> None:
    asked: list[str] = []

    async def run() -> list[list[str]]:
        processes = [Process(keeper, f"p{n}", asked) for n in range(4)]
        wanted = [["a", "b", "c"], ["c", "a"], ["d", "b"], ["d"]]
        pairs = zip(processes, wanted, strict=True)
        return await asyncio.gather(*(p.get(*w, batch_size=batch_size) for p, w in pairs))  # type: ignore[no-any-return]

    assert asyncio.run(run()) == [["A", "B", "C"], ["C", "A"], ["D", "B"], ["D"]]
    assert sorted(asked) == ["a", "b", "c", "d"]


def test_when_one_fails_another_asks(keeper: SharedStoreActor) -> None:
    asked: list[str] = []

    async def run() -> Any:
        first, second = Process(keeper, "first", asked), Process(keeper, "second", asked)
        first.fails = True
        return await asyncio.gather(first.get("a"), second.get("a"), return_exceptions=True)

    failure, values = asyncio.run(run())
    assert isinstance(failure, RuntimeError)
    assert (values, asked) == (["A"], ["a", "a"])


def test_who_is_gone_holds_nobody_up(keeper: SharedStoreActor) -> None:
    asked: list[str] = []

    async def run() -> list[str]:
        gone, waiting = Process(keeper, "gone", asked), Process(keeper, "waiting", asked)
        key = Request("capitals", "model", text="a").key
        assert await gone.cache.store.aclaim([key], "rag_metrics") == ({}, [])  # type: ignore[attr-defined]
        assert await waiting.cache.store.aclaim([key], "rag_metrics") == ({}, [key])  # type: ignore[attr-defined]
        waits = asyncio.create_task(waiting.get("a"))
        await asyncio.sleep(0.02)
        assert not waits.done()
        keeper.forget("gone")
        return await waits

    assert asyncio.run(run()) == ["A"]


def test_a_store_that_fails_holds_nobody_up() -> None:
    class Broken(SimpleKVStore):
        async def aput_all(self, *_: Any, **__: Any) -> None:
            raise OSError("the disk is full")

    asked: list[str] = []

    async def run() -> list[list[str]]:
        keeper = SharedStoreActor(Broken)
        first, second = Process(keeper, "first", asked), Process(keeper, "second", asked)
        return await asyncio.gather(first.get("a"), second.get("a"))  # type: ignore[no-any-return]

    with pytest.warns(CacheWarning, match="the disk is full"):
        assert asyncio.run(run()) == [["A"], ["A"]]


def test_who_loses_the_store_asks_alone_and_holds_nobody_up(keeper: SharedStoreActor) -> None:
    asked: list[str] = []

    async def run() -> Any:
        first, second = Process(keeper, "first", asked), Process(keeper, "second", asked)
        fetched = asyncio.create_task(first.get("a"))
        await asyncio.sleep(0.01)
        waits = asyncio.create_task(second.get("a"))
        first.cache.store._actor = Direct(object())  # type: ignore[attr-defined]
        first.cache.store.release = lambda keys: keeper.release("first", keys)  # type: ignore[attr-defined]
        return await fetched, await first.get("b"), await waits

    with pytest.warns(CacheWarning, match="AttributeError"):
        assert asyncio.run(run()) == (["A"], ["B"], ["A"])
    assert sorted(asked) == ["a", "a", "b"]


def test_an_owner_may_claim_again(keeper: SharedStoreActor) -> None:
    async def run() -> Any:
        store = SharedStore(Direct(keeper), "owner")
        await store.aclaim(["k"], "c")
        return await store.aclaim(["k"], "c"), await store.aclaim(["k"], "c", wait=True)

    assert asyncio.run(run()) == (({}, []), ({}, []))


def test_the_store_of_a_worker_is_a_store_of_llama_index(keeper: SharedStoreActor) -> None:
    async def run() -> Any:
        store = SharedStore(Direct(keeper), "worker")
        await store.aput("k", {"v": 1}, "c")
        rows = (await store.aget("k", "c"), await store.aget_all("c"))
        return *rows, await store.adelete("k", "c"), await store.aget("k", "c")

    assert asyncio.run(run()) == ({"v": 1}, {"k": {"v": 1}}, True, None)


def test_requests_wait_until_the_driver_admits_them() -> None:
    class Limiter:
        def __init__(self) -> None:
            self.tokens: list[int] = []
            self.opened = asyncio.Event()

        async def async_acquire(self, tokens: int = 0) -> None:
            self.tokens.append(tokens)
            await self.opened.wait()

    async def run() -> list[int]:
        limiters = object.__new__(Limiters)
        limiter, limiter_actor = Limiter(), LimiterActor()
        limiters.kept, limiters.actor = [limiter], Direct(limiter_actor)
        serving = asyncio.create_task(limiters.serve())
        asking = [asyncio.create_task(limiter_actor.acquire(0, tokens)) for tokens in ((), (7,))]
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in asking)
        limiter.opened.set()
        await asyncio.gather(*asking)
        serving.cancel()
        return limiter.tokens

    assert asyncio.run(run()) == [0, 7]


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_ray(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "ray":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    dataset: Any = {"queries": {"q": "?"}, "corpus": {}, "relevant_docs": {"q": ["d"]}}
    for call in (lambda: evaluate(dataset, list), lambda: score_dataset(dataset, "mrr")):  # type: ignore[arg-type]
        with pytest.raises(MissingExtra, match=r"needs an extra: .*\[ray\]"):
            call()
