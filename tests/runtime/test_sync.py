"""One loop for all synchronous calls: several at once, Ctrl-C, forks; what isn't needed goes."""

import asyncio
import contextvars
import gc
import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Any

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from support.processes import start

from llama_index_rag_metrics import (
    BM25Similarity,
    RetrievalDataset,
    aevaluate,
    evaluate,
    evaluate_stages,
)
from llama_index_rag_metrics.decisions.stages import aevaluate_stages
from llama_index_rag_metrics.runtime.containers import collection_paused
from llama_index_rag_metrics.runtime.errors import UnknownMetric
from llama_index_rag_metrics.runtime.sync import each, run_sync

pytestmark = pytest.mark.servers

QUERIES = {f"q{n}": f"question {n}" for n in range(20)}
DATASET = RetrievalDataset(queries=QUERIES, relevance={query_id: ["d0"] for query_id in QUERIES})


class BoundToItsLoop(BaseRetriever):
    """Has a client that works in the loop of its first use only, as those of Milvus and gRPC do."""

    loop: asyncio.AbstractEventLoop | None = None

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise AssertionError("the asynchronous method exists")

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        self.loop = self.loop or loop
        if self.loop is not loop:
            raise RuntimeError("attached to a different loop")
        return [NodeWithScore(node=TextNode(id_="d0", text=""))]


def test_threads_share_the_loop() -> None:
    retriever = BoundToItsLoop()
    failed: list[Mapping[str, str]] = []

    def work() -> None:
        failed.append(evaluate(retriever, DATASET, ["recall"]).scores.failed)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failed == [{}] * 3


def test_synchronous_call_inside_an_asynchronous_retriever() -> None:
    async def ask(query: str) -> list[str]:
        similarity = BM25Similarity(corpus=["a", "b"]).compute("a", retrieved_texts=["b"]).score
        assert run_sync(asyncio.sleep(0, similarity)) == similarity
        return ["d0"]

    assert evaluate(ask, DATASET, ["recall"]).scores.failed == {}


def test_context_of_the_caller_is_there() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("of the caller")

    async def read() -> str:
        return variable.get()

    assert run_sync(read()) == "of the caller"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), OSError()])
def test_errors_of_a_coroutine_come_out_and_the_loop_goes_on(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    raised = RuntimeError if isinstance(error, StopIteration) else type(error)
    with pytest.raises(raised):
        run_sync(fail())
    assert run_sync(asyncio.sleep(0, "well")) == "well"


def test_error_has_a_short_traceback() -> None:
    with pytest.raises(UnknownMetric, match="ndcg@10") as raised:
        evaluate(lambda query: ["d"], DATASET, ["ngcd@10"])
    lines = "".join(traceback.format_exception(raised.value)).splitlines()
    assert "another exception" not in "".join(lines)
    assert "no running event loop" not in "".join(lines)
    assert len(traceback.extract_tb(raised.value.__traceback__)) <= 9


FORKING = """
import asyncio, multiprocessing, sys
from llama_index_rag_metrics.runtime.sync import run_sync

def work(number):
    return run_sync(asyncio.sleep(0.01, number))

assert work(1) == 1
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(work, range(6), chunksize=1) == list(range(6))
assert work(2) == 2
print("well")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_has_its_own_loop_and_the_parent_keeps_its() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("well\n", "", 0)


BLOCKED = """
import asyncio, os, sys, threading, time
from llama_index_rag_metrics import RetrievalDataset, evaluate
from llama_index_rag_metrics.runtime import sync

waited, wait = [], sync.wait
sync.wait = lambda outcomes, seconds: waited.append(seconds) or wait(outcomes, seconds)

def say_blocked():
    os.write(1, b"blocked\\n")  # whole, whichever thread prints at the same time

def blocking(query):
    if query == "0":
        say_blocked()
        threading.Event().wait()
    return ["d"]

async def blocking_the_loop(query):
    say_blocked()
    time.sleep(3600)

async def deaf(query):
    say_blocked()
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

dataset = RetrievalDataset(queries={str(n): str(n) for n in range(9)},
                           relevance={str(n): ["d"] for n in range(9)})
retriever = globals()[sys.argv[1]]
try:
    if sys.argv[2] == "in a loop":
        async def main():
            evaluate(retriever, dataset, ["recall"], workers=3)
        asyncio.run(main())
    else:
        evaluate(retriever, dataset, ["recall"], workers=3)
except KeyboardInterrupt:
    # Ctrl-C comes before the first wait, during the wait before the last, or ends it
    took = sum(waited[-2:])
    print("interrupted within 0.8 s" if took < 0.81 else f"after up to {took} s", flush=True)
    print(evaluate(lambda query: ["d"], dataset, ["recall"]).scores.means["recall"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
@pytest.mark.parametrize("where", ["in a script", "in a loop"])
@pytest.mark.parametrize("kind", ["blocking", "blocking_the_loop", "deaf"])
def test_ctrl_c_answers_within_a_second(kind: str, where: str) -> None:
    process = start([sys.executable, "-c", BLOCKED, kind, where])
    assert process.stdout is not None
    hanging = threading.Timer(60, process.kill)
    hanging.start()
    assert process.stdout.readline() == "blocked\n"
    process.send_signal(signal.SIGINT)
    # the package goes on working, and nothing holds up the end of the process
    output, errors = process.communicate()
    hanging.cancel()
    lines = [line for line in output.splitlines() if line != "blocked"]
    assert lines == ["interrupted within 0.8 s", "1.0"], errors
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("twin", "asynchronous"), [(evaluate, aevaluate), (evaluate_stages, aevaluate_stages)]
)
def test_twin_has_the_signature_and_the_words_of_the_other(twin: Any, asynchronous: Any) -> None:
    assert inspect.signature(twin) == inspect.signature(asynchronous)
    assert f"a{twin.__name__}" == asynchronous.__name__
    assert twin.__doc__ == asynchronous.__doc__
    assert not inspect.iscoroutinefunction(twin)
    assert pickle.loads(pickle.dumps(twin)) is twin


def test_ctrl_c_while_handing_over_leaves_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code may block the loop by then: the next call has another thread."""
    released = threading.Event()

    async def block() -> None:
        released.wait()

    hand_over = asyncio.run_coroutine_threadsafe

    def interrupted(*arguments: Any) -> Any:
        hand_over(*arguments)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_sync(block())
    assert run_sync(asyncio.sleep(0, "well")) == "well"
    released.set()


def test_jobs_are_done_once_and_so_many_at_once() -> None:
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


def test_job_that_fails_ends_the_others() -> None:
    begun: list[int] = []

    async def do(job: int) -> None:
        begun.append(job)
        if job == 1:
            raise ValueError(job)
        await asyncio.sleep(60)

    with pytest.raises(ValueError, match="1"):
        asyncio.run(each(range(10), do, 2))
    assert begun == [0, 1]


def test_caller_who_turned_collection_off_finds_it_off() -> None:
    gc.disable()
    try:
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_pauses_nest() -> None:
    with collection_paused():
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
