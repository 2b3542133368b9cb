"""Latency: how many queries were asked at once stands beside it."""

from __future__ import annotations

import threading
import time
from typing import Any

from llama_index_rag_metrics import RetrievalDataset, evaluate

N = 12
DATASET = RetrievalDataset(
    queries={f"q{n}": f"query {n}" for n in range(N)}, relevance={f"q{n}": ["a"] for n in range(N)}
)
SECONDS = 0.05


class OneDesk:
    """Serves one query at a time, so that the others wait."""

    def __init__(self) -> None:
        self.desk = threading.Lock()
        self.waiting: set[str] = set()
        self.at_once: list[int] = []

    def __call__(self, query: str) -> list[str]:
        self.waiting.add(query)
        self.at_once.append(len(self.waiting))
        with self.desk:
            time.sleep(SECONDS)
        self.waiting.remove(query)
        return ["a"]


def test_reports_name_how_many_queries_were_asked_at_once() -> None:
    results = evaluate(OneDesk(), DATASET, ["mrr"], workers=4)
    latency = results.run.latency
    assert latency is not None
    assert latency.concurrency == 4
    # a query waits for the three before it
    assert latency.p50 > 2 * SECONDS
    assert "(4 at once)" in str(results)
    assert "(4 at once)" in results._repr_html_()


def test_a_journal_keeps_how_many_were_asked_at_once(tmp_path: Any) -> None:
    for workers in (2, 5):
        results = evaluate(
            OneDesk(), DATASET, ["mrr"], workers=workers, journal=tmp_path / "run.jsonl"
        )
        assert results.run.latency is not None
        assert results.run.latency.concurrency == 2
