"""The Cohere metric against LlamaIndex core's own, on a server on loopback, in one run.

`python benchmarks/cohere_rerank.py` needs the `test` extra. The server runs in a process of its
own, so that it takes no time from the contestants. What was imported is kept out of Python's
garbage collection, which would stop the loop for as long as it takes to look through LlamaIndex.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from llama_index.core.evaluation import RetrieverEvaluator as CoreEvaluator
from llama_index.core.evaluation.retrieval.metrics import CohereRerankRelevancyMetric as CoreMetric
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from measure import Row, Spread, console_table
from rich.console import Console

from llama_index_rag_metrics import CohereRerankRelevancy, RetrievalDataset, aevaluate

SERVER = """
import sys, threading
from support.cohere_server import cohere_server
with cohere_server() as server:
    server.seconds = float(sys.argv[1])
    print(server.base_url, flush=True)
    sys.stdin.read()
"""


class Retriever(BaseRetriever):
    """Ten passages of its own for every query, at once."""

    def __init__(self, n_texts: int) -> None:
        super().__init__()
        self._n_texts = n_texts

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query = query_bundle.query_str
        return [
            NodeWithScore(
                node=TextNode(id_=f"d{n}", text=f"passage {n} of {query} " * 20), score=-n
            )
            for n in range(self._n_texts)
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._retrieve(query_bundle)


async def watched(run: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Seconds that it took, and the longest time for which the event loop stood still."""
    start = last = time.perf_counter()
    longest = 0.0
    task = asyncio.ensure_future(run())
    while not task.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    await task
    return time.perf_counter() - start, longest


def cohere_rows(
    n_queries: int = 200,
    n_texts: int = 10,
    seconds: float = 0.05,
    workers: int = 32,
    rounds: int = 3,
) -> list[Row]:
    """Core's metric in its own evaluator against ours; also how long the loop stands still."""
    queries = {f"q{n}": f"question number {n}" for n in range(n_queries)}
    retriever = Retriever(n_texts)
    with _server(seconds) as base_url:
        os.environ.update({"COHERE_API_KEY": "none", "CO_API_URL": base_url})

        async def ours() -> None:
            metric = CohereRerankRelevancy(base_url=base_url)
            results = await aevaluate(
                retriever, RetrievalDataset(queries), [metric], workers=workers
            )
            assert results.scores.n(metric.metric_name) == n_queries

        async def core() -> None:
            metric = CoreMetric(model="rerank-v3.5")
            evaluator = CoreEvaluator(metrics=[metric], retriever=retriever)
            slots = asyncio.Semaphore(workers)

            async def reranked(query: str) -> object:
                async with slots:
                    return await evaluator.aevaluate(query, expected_ids=["d0"])

            assert len(await asyncio.gather(*map(reranked, queries.values()))) == n_queries

        gc.collect()
        gc.freeze()
        pairs = [(asyncio.run(watched(core)), asyncio.run(watched(ours))) for _ in range(rounds)]
    task = f"Cohere: {n_queries} queries × {n_texts} texts, {seconds * 1000:.0f} ms an answer"
    slower, longer = (
        Spread(tuple(theirs[figure] / own[figure] for theirs, own in pairs)) for figure in (0, 1)
    )
    evaluator = "LlamaIndex core's metric in its evaluator"
    return [Row(task, evaluator, slower), Row(task, f"{evaluator}, longest stall", longer)]


@contextmanager
def _server(seconds: float) -> Iterator[str]:
    tests = Path(__file__).resolve().parent.parent / "tests"
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tests,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate("")


def main() -> None:
    console = Console(width=120)
    console.print(", ".join(f"{name} {version(name)}" for name in ("llama-index-core", "cohere")))
    console.print(console_table("times as long as this package", cohere_rows()))


if __name__ == "__main__":
    main()
