"""Scoring stored rankings and single queries, against LlamaIndex core and pytrec_eval."""

from __future__ import annotations

import random

import pytrec_eval
from llama_index.core.evaluation.retrieval import metrics as core
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from measure import best_of
from rich.table import Table

from llama_index_rag_metrics import metrics, score_rankings

NAMES = ["hit_rate", "mrr", "precision", "recall", "ap", "ndcg(ideal=all)"]
PYTREC = {
    "hit_rate": "success_{depth}",
    "mrr": "recip_rank",
    "precision": "set_P",
    "recall": "set_recall",
    "ap": "map",
    "ndcg(ideal=all)": "ndcg",
}
CORE = [
    core.HitRate(),
    core.MRR(),
    core.Precision(),
    core.Recall(),
    core.AveragePrecision(),
    core.NDCG(),
]


def collection(
    n_queries: int, depth: int, n_relevant: int
) -> tuple[list[list[str]], list[list[str]]]:
    """Expected and retrieved ids; three in five relevant items were retrieved."""
    rng = random.Random(7)
    retrieved = [[f"doc{n}" for n in rng.sample(range(10**6), depth)] for _ in range(n_queries)]
    n_found = max(1, n_relevant * 3 // 5)
    expected = [
        rng.sample(ranking, n_found) + [f"missing{n}" for n in range(n_relevant - n_found)]
        for ranking in retrieved
    ]
    return expected, retrieved


def rankings_table(n_queries: int = 10_000, depth: int = 100, n_relevant: int = 5) -> Table:
    """Six metrics over stored rankings; the scores are checked to be the same first."""
    expected, retrieved = collection(n_queries, depth, n_relevant)
    qrels = {str(n): dict.fromkeys(ids, 1) for n, ids in enumerate(expected)}
    run = {
        str(n): {one: float(-at) for at, one in enumerate(ids)} for n, ids in enumerate(retrieved)
    }
    measures = {ours: theirs.format(depth=depth) for ours, theirs in PYTREC.items()}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, set(measures.values()))

    def by_core() -> list[list[float]]:
        pairs = zip(expected, retrieved, strict=True)
        return [[one.compute("", ids, ranking).score for one in CORE] for ids, ranking in pairs]

    scores = score_rankings(expected, retrieved, NAMES)
    peer, core_rows = evaluator.evaluate(run), by_core()
    for at, name in enumerate(NAMES):
        for query, score in enumerate(scores[name]):
            assert abs(score - peer[str(query)][measures[name]]) < 1e-9
            assert abs(score - core_rows[query][at]) < 1e-9

    seconds = best_of(
        {
            "this package, score_rankings on lists": lambda: score_rankings(
                expected, retrieved, NAMES
            ),
            "LlamaIndex core, six compute() a query": by_core,
            "pytrec_eval, on prebuilt dicts": lambda: evaluator.evaluate(run),
        }
    )
    ours = next(iter(seconds.values()))
    table = Table(
        title=f"six metrics, {n_queries:,} queries × {depth} retrieved × {n_relevant} relevant"
    )
    for heading in ("", "seconds", "times ours"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, taken in seconds.items():
        table.add_row(name, f"{taken:.4f}", f"{taken / ours:.2f}")
    return table


def compute_table(n_queries: int = 1_000) -> Table:
    """Six `compute()` calls on one query, as the stock evaluator makes them."""
    table = Table(title="six compute() calls on one query")
    for heading in ("depth", "core µs", "ours µs", "ours / core"):
        table.add_column(heading, justify="right")
    ours = metrics(NAMES)
    for depth in (10, 100):
        expected, retrieved = collection(n_queries, depth, 5)

        def compute(
            chosen: list[BaseRetrievalMetric],
            expected: list[list[str]] = expected,
            retrieved: list[list[str]] = retrieved,
        ) -> None:
            for ids, ranking in zip(expected, retrieved, strict=True):
                for one in chosen:
                    one.compute("", ids, ranking)

        seconds = best_of({"core": lambda: compute(CORE), "ours": lambda: compute(ours)})
        per_query = {name: taken / n_queries * 1e6 for name, taken in seconds.items()}
        table.add_row(
            str(depth),
            f"{per_query['core']:.1f}",
            f"{per_query['ours']:.1f}",
            f"{per_query['ours'] / per_query['core']:.1f}",
        )
    return table
