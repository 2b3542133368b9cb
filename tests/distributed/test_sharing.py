"""What processes share, without a cluster: the classes of the actors, called directly."""

from __future__ import annotations

import asyncio
import builtins
import inspect
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llama_index_rag_metrics import Cache
from llama_index_rag_metrics.distributed.ray import evaluate, score_dataset
from llama_index_rag_metrics.distributed.ray.sharing import (
    LimiterActor,
    Limiters,
    SharedStore,
    StoreActor,
)
from llama_index_rag_metrics.runtime.digests import Request
from llama_index_rag_metrics.runtime.errors import MissingExtra


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


@pytest.mark.parametrize("kind", ["memory", "SQLite"])
def test_workers_share_what_was_paid_for(kind: str, tmp_path: Path) -> None:
    asked: list[list[int]] = []

    async def ask(positions: list[int]) -> list[str]:
        asked.append(positions)
        return ["A" for _ in positions]

    path = tmp_path / "cache.sqlite" if kind == "SQLite" else None
    actor = StoreActor(Cache(path).store)
    request = Request("capitals", "model", text="a")

    async def of_worker() -> list[Any]:
        return (await Cache.on(SharedStore(Direct(actor))).fetch([request], ask)).values

    assert [asyncio.run(of_worker()) for _ in range(2)] == [["A"], ["A"]]
    assert asked == [[0]]
    assert actor.values() == ({} if path else {request.key: "A"})


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
