"""Evaluating a slow retriever with many workers, against the ideal time."""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import ClassVar

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from rich.table import Table

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


def evaluation_table(n_queries: int = 5_000, workers: int = 32) -> Table:
    """Seconds against n × 20 ms / workers, with and without a journal and a limit of time."""
    dataset = RetrievalDataset(
        queries={f"q{n}": f"question {n}" for n in range(n_queries)},
        relevance={f"q{n}": [f"d{n % 20}"] for n in range(n_queries)},
    )
    ideal = n_queries * SECONDS / workers
    table = Table(title=f"evaluate(): {n_queries:,} queries of 20 ms, {workers} workers")
    words = ("retriever", "journal", "timeout")
    for heading in (*words, "seconds", "times the ideal", "peak MiB"):
        table.add_column(heading, justify="left" if heading in words else "right")
    with tempfile.TemporaryDirectory() as folder:
        for retriever in (BlockingRetriever(), AsyncRetriever()):
            paths = (Path(folder) / f"{type(retriever).__name__}{n}.jsonl" for n in range(2))
            for journal, timeout in product((None, paths), (None, 30.0)):
                start = time.perf_counter()
                evaluate(
                    retriever,
                    dataset,
                    workers=workers,
                    journal=journal and next(journal),
                    timeout=timeout,
                )
                taken = time.perf_counter() - start
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                table.add_row(
                    "blocking" if type(retriever) is BlockingRetriever else "asynchronous",
                    "yes" if journal else "no",
                    "yes" if timeout else "no",
                    f"{taken:.2f}",
                    f"{taken / ideal:.2f}",
                    f"{peak:.0f}",
                )
    return table
