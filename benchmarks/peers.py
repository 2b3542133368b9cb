"""The same metrics on the same stored rankings: this package and its peers, side by side.

    python benchmarks/peers.py

Every contestant's scores are compared, query by query, before anything is timed. What a peer needs
beforehand (dicts, its own objects, compiling itself) is made before the clock starts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version

import ir_measures
import pyarrow as pa
import pytrec_eval
import ranx
from llama_index.core.evaluation.retrieval import metrics as core
from measure import Row, console_table, rounds_of, times
from rich.console import Console

from llama_index_rag_metrics import score_rankings, score_table

NAMES = ["hit_rate", "mrr", "precision", "recall", "ap", "ndcg(ideal=all)"]
PACKAGES = (
    "llama-index-rag-metrics",
    "llama-index-core",
    "pytrec_eval-terrier",
    "ranx",
    "ir_measures",
    "numpy",
    "polars",
    "pyarrow",
)
CORE = [
    core.HitRate(),
    core.MRR(),
    core.Precision(),
    core.Recall(),
    core.AveragePrecision(),
    core.NDCG(),
]
RANX = ["hit_rate", "mrr", "precision", "recall", "map", "ndcg"]

SHAPES = ((10_000, 100, 5), (100_000, 20, 3), (20_000, 1_000, 20))
"""Queries, retrieved, relevant."""

LISTS = "this package, score_rankings on lists"
ARROW = "this package, score_table on Arrow"
CORE_LOOP = "LlamaIndex core, six compute() a query"
PYTREC = "pytrec_eval, on prebuilt dicts"
RANX_RUN = "ranx, on its own prebuilt objects, all threads"
IR_MEASURES = "ir_measures, on prebuilt dicts"

Columns = Mapping[str, Sequence[float]]
"""Metric name to the scores of the queries, in order."""


@dataclass
class Stored:
    """Expected and retrieved ids of some queries, in every form that a contestant wants."""

    expected: list[list[str]]
    retrieved: list[list[str]]

    @classmethod
    def random(cls, n_queries: int, depth: int, n_relevant: int) -> Stored:
        """Three in five relevant items were retrieved."""
        rng = random.Random(7)
        retrieved = [[f"doc{n}" for n in rng.sample(range(10**6), depth)] for _ in range(n_queries)]
        n_found = max(1, n_relevant * 3 // 5)
        expected = [
            rng.sample(ranking, n_found) + [f"missing{n}" for n in range(n_relevant - n_found)]
            for ranking in retrieved
        ]
        return cls(expected, retrieved)

    @property
    def depth(self) -> int:
        return len(self.retrieved[0])

    @cached_property
    def table(self) -> pa.Table:
        return pa.table({"retrieved_ids": self.retrieved, "expected_ids": self.expected})

    @cached_property
    def qrels(self) -> dict[str, dict[str, int]]:
        return {str(number): dict.fromkeys(ids, 1) for number, ids in enumerate(self.expected)}

    @cached_property
    def run(self) -> dict[str, dict[str, float]]:
        return {
            str(number): {item: float(-rank) for rank, item in enumerate(ids)}
            for number, ids in enumerate(self.retrieved)
        }

    def by_lists(self, names: Sequence[str] = NAMES) -> Columns:
        scores = score_rankings(self.expected, self.retrieved, names)
        return {name: scores[name] for name in names}

    def by_arrow(self, names: Sequence[str] = NAMES) -> Columns:
        scored = score_table(self.table, names)
        return {name: scored[name].to_numpy() for name in names}

    def by_core(self) -> Columns:
        columns: dict[str, list[float]] = {name: [] for name in NAMES}
        for ids, ranking in zip(self.expected, self.retrieved, strict=True):
            for name, metric in zip(NAMES, CORE, strict=True):
                columns[name].append(metric.compute("", ids, ranking).score)
        return columns

    @cached_property
    def pytrec_names(self) -> dict[str, str]:
        measures = (f"success_{self.depth}", "recip_rank", "set_P", "set_recall", "map", "ndcg")
        return dict(zip(NAMES, measures, strict=True))

    @cached_property
    def pytrec_evaluator(self) -> pytrec_eval.RelevanceEvaluator:
        return pytrec_eval.RelevanceEvaluator(self.qrels, set(self.pytrec_names.values()))

    def by_pytrec(self) -> Columns:
        rows = self.pytrec_evaluator.evaluate(self.run)
        return {
            ours: [rows[query][theirs] for query in self.qrels]
            for ours, theirs in self.pytrec_names.items()
        }

    @cached_property
    def ranx_objects(self) -> tuple[ranx.Qrels, ranx.Run]:
        return ranx.Qrels(self.qrels), ranx.Run(self.run)

    def by_ranx(self) -> Columns:
        qrels, run = self.ranx_objects
        scores = ranx.evaluate(qrels, run, RANX, return_mean=False, save_results_in_run=False)
        order = {query: place for place, query in enumerate(run.keys())}
        places = [order[query] for query in self.qrels]
        return {ours: scores[theirs][places] for ours, theirs in zip(NAMES, RANX, strict=True)}

    @cached_property
    def ir_measures_names(self) -> dict[str, ir_measures.Measure]:
        measures = (
            ir_measures.Success @ self.depth,
            ir_measures.RR,
            ir_measures.SetP,
            ir_measures.SetR,
            ir_measures.AP,
            ir_measures.nDCG,
        )
        return dict(zip(NAMES, measures, strict=True))

    def by_ir_measures(self) -> Columns:
        measures = self.ir_measures_names
        scores: dict[object, dict[str, float]] = {measure: {} for measure in measures.values()}
        evaluator = ir_measures.evaluator(list(measures.values()), self.qrels)
        for measured in evaluator.iter_calc(self.run):
            scores[measured.measure][measured.query_id] = measured.value
        return {
            ours: [scores[measure][query] for query in self.qrels]
            for ours, measure in measures.items()
        }

    @property
    def contestants(self) -> dict[str, Callable[[], object]]:
        """What is timed; of peers, the evaluation alone, without the columns made of it."""
        qrels, run = self.ranx_objects
        evaluator = ir_measures.evaluator(list(self.ir_measures_names.values()), self.qrels)
        return {
            LISTS: lambda: score_rankings(self.expected, self.retrieved, NAMES),
            ARROW: lambda: score_table(self.table, NAMES),
            CORE_LOOP: self.by_core,
            PYTREC: lambda: self.pytrec_evaluator.evaluate(self.run),
            RANX_RUN: lambda: ranx.evaluate(
                qrels, run, RANX, return_mean=False, save_results_in_run=False
            ),
            IR_MEASURES: lambda: list(evaluator.iter_calc(self.run)),
        }

    def check_agreement(self) -> None:
        """Every contestant gives every query the same six scores.

        Raises:
            AssertionError: one differs by more than 1e-9.
        """
        ours = self.by_lists()
        others = (self.by_arrow, self.by_core, self.by_pytrec, self.by_ranx, self.by_ir_measures)
        for other in others:
            for name, column in other().items():
                worst = max(abs(a - b) for a, b in zip(ours[name], column, strict=True))
                assert worst < 1e-9, f"{other.__name__} differs in {name} by {worst}"


def peers_rows(shapes: Sequence[tuple[int, int, int]] = SHAPES, rounds: int = 5) -> list[Row]:
    """Every contestant against `score_rankings` on the first shape, `score_table` on the others."""
    rows = []
    for shape in shapes:
        stored = Stored.random(*shape)
        stored.check_agreement()
        seconds = rounds_of(stored.contestants, rounds)
        queries, depth, relevant = shape
        ours = LISTS if shape == shapes[0] else ARROW
        task = f"{ours.split(', ')[1]}: six metrics, {queries:,} queries × {depth:,} × {relevant}"
        peers = [name for name in seconds if name not in (LISTS, ARROW)]
        rows += [Row(task, name, times(seconds, name, ours)) for name in peers]
    return rows


def main() -> None:
    console = Console(width=110)
    console.print(", ".join(f"{name} {version(name)}" for name in PACKAGES))
    console.print(console_table("times as long as this package", peers_rows()))


if __name__ == "__main__":
    main()
