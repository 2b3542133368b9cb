"""Evaluating a slow retriever with many workers, against the ideal time."""

from __future__ import annotations

import asyncio
import tempfile
import time
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import ClassVar

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from measure import Row, Spread, console_table, rounds_of

from llama_index_rag_metrics import RetrievalDataset, evaluate

SECONDS = 0.02


class BlockingRetriever(BaseRetriever):
    """Only a `_retrieve` that sleeps, as a client without asynchronous calls does."""

    _nodes: ClassVar[list[NodeWithScore]] = [
        NodeWithScore(node=TextNode(id_=f"d{n}", text=f"passage {n}"), score=-n) for n in range(10)
    ]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        time.sleep(SECONDS)
        return self._nodes


class AsyncRetriever(BlockingRetriever):
    """A native asynchronous method."""

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(SECONDS)
        return self._nodes


def evaluation_rows(n_queries: int = 5_000, workers: int = 32, rounds: int = 3) -> list[Row]:
    """Against n × 20 ms / workers, with and without a journal and a limit of time."""
    dataset = RetrievalDataset(
        queries={f"q{n}": f"question {n}" for n in range(n_queries)},
        relevance={f"q{n}": [f"d{n % 20}"] for n in range(n_queries)},
    )
    ideal = n_queries * SECONDS / workers
    kinds = {"blocking": BlockingRetriever(), "asynchronous": AsyncRetriever()}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        paths = (Path(folder, f"{n}.jsonl") for n in count())

        def asked(retriever: BaseRetriever, journaled: bool, timeout: float | None) -> None:
            journal = next(paths) if journaled else None
            evaluate(retriever, dataset, workers=workers, journal=journal, timeout=timeout)

        contestants = {
            f"{kind}{', journal' * journaled}{', timeout' * bool(timeout)}": partial(
                asked, retriever, journaled, timeout
            )
            for (kind, retriever), journaled, timeout in product(
                kinds.items(), (False, True), (None, 30.0)
            )
        }
        for name, seconds in rounds_of(contestants, rounds).items():
            task = f"{n_queries:,} queries of 20 ms, {workers} workers, {name}"
            against = "the ideal, queries × 20 ms / workers"
            rows.append(Row(task, against, Spread(tuple(taken / ideal for taken in seconds))))
    return rows


if __name__ == "__main__":
    from rich.console import Console

    Console(width=120).print(console_table("evaluate()", evaluation_rows()))
