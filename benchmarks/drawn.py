"""Labels only where the systems differ: how often the gate passes, and intervals cover.

Populations are changes of real retrieval on which nothing was chosen: 472 span questions on five
texts, cut into 700 characters, and Cranfield's graded questions, both with runs that
real_scores.py doesn't have. Beside plain changes (other parameters, no stemming, another retriever,
a hybrid) there are those that touch few rankings: an approximate index that misses one passage in
twenty, an index that lacks one document in fifty or in twenty, and a router that sends one question
in fifteen or in seven to another retriever.

Of 2,000 questions asked (or 300) the changed ones are known, and n of these are drawn and labelled.
A true difference is made by an exponential tilt of the real ones, which keeps their sizes and their
asymmetry; cells in which fewer than a fifth of the questions would be left are skipped.

    python benchmarks/drawn.py build FOLDER   builds drawn_scores.json.gz: numbers alone
    python benchmarks/drawn.py                prints the tables of benchmarks/README.md
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from real_scores import DEPTH, UNIT, bm25, collection, vectors
from real_statistics import tilted

from llama_index_rag_metrics import draw_changed, fuse, score_rankings
from llama_index_rag_metrics.decisions.gate.measuring import COUNTED, REACH
from llama_index_rag_metrics.statistics.differences import pseudo_queries
from llama_index_rag_metrics.statistics.intervals import wilson
from llama_index_rag_metrics.statistics.resampling import Units

Array = npt.NDArray[np.float64]
Rankings = Mapping[str, Sequence[str]]

STORED = Path(__file__).with_name("drawn_scores.json.gz")
CHUNK = 700
METRICS = ("ndcg@10", "mrr@10", "ap@10", "hit_rate@5", "recall@5", "precision@5")
WAYS = {
    "in order, k = 10": {"k": 10},
    "in order, k = 5": {"k": 5},
    "any order, k = 5": {"k": 5, "order": False},
}
DRAWN_BY = {
    **{key: ["in order, k = 10"] for key in METRICS[:3]},
    **{key: ["in order, k = 5", "any order, k = 5"] for key in METRICS[3:]},
}
MARGIN, CONFIDENCE, LEFT, EXACT = 0.02, 0.95, 0.2, 1e-6
SHARES = ((0.0, 0.15), (0.15, 0.5), (0.5, 1.01))


class Change(NamedTuple):
    """(questions, 2) scores by metric, and which questions changed by each way of drawing."""

    name: str
    scores: Mapping[str, Array]
    changed: Mapping[str, npt.NDArray[np.bool_]]


def build(folder: Path) -> list[dict[str, Any]]:
    return [*_spans(folder / "spans"), *_cranfield(folder / "cranfield")]


def _spans(folder: Path) -> Iterator[dict[str, Any]]:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("corpora/*.md")}
    places = {
        f"{source}[{start}]": (source, start, start + CHUNK)
        for source, text in sorted(texts.items())
        for start in range(0, len(text), CHUNK)
    }
    documents = {name: texts[source][a:b] for name, (source, a, b) in places.items()}
    rows = [*csv.DictReader((folder / "questions.csv").open(encoding="utf-8"))]
    relevant = {
        f"q{number}": {
            name: 1
            for part in json.loads(row["references"])
            for name, (source, start, end) in places.items()
            if source == row["corpus_id"]
            and start < part["end_index"]
            and part["start_index"] < end
        }
        for number, row in enumerate(rows)
    }
    questions = {f"q{number}": row["question"] for number, row in enumerate(rows)}
    yield from _changes("spans", relevant, documents, questions, (1.5, 0.75))


def _cranfield(folder: Path) -> Iterator[dict[str, Any]]:
    _, relevant, documents, questions = next(collection(folder))
    yield from _changes("Cranfield", relevant, documents, questions, (1.2, 0.6))


def _changes(
    collected: str,
    relevant: Mapping[str, Mapping[str, int]],
    documents: Mapping[str, str],
    questions: Mapping[str, str],
    parameters: tuple[float, float],
) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(1)
    baseline = bm25(documents, questions, *parameters)
    lsa = vectors(documents, questions, 150)
    fused = fuse({"a": baseline, "b": lsa}, depth=DEPTH)
    others: dict[str, Rankings] = {
        "k1 2, b 1": bm25(documents, questions, 2.0, 1.0),
        "k1 0.9, b 0.4": bm25(documents, questions, 0.9, 0.4),
        "k1 a bit larger": bm25(documents, questions, parameters[0] + 0.1, parameters[1]),
        "no stemming": bm25(documents, questions, *parameters, stemmed=False),
        "lsa": lsa,
        "tf-idf": vectors(documents, questions, None),
        "hybrid": {query_id: list(ranking.ids) for query_id, ranking in fused.items()},
        "approximate": {
            query_id: [item for item in ids if rng.random() > 0.05]
            for query_id, ids in baseline.items()
        },
    }
    for lacks in (50, 20):
        gone = {item for item in documents if rng.random() < 1 / lacks}
        kept = {item: text for item, text in documents.items() if item not in gone}
        found = bm25(kept, questions, *parameters)
        moved = {
            query_id: found[query_id] if gone & set(ids) else ids
            for query_id, ids in baseline.items()
        }
        others[f"one document in {lacks} gone"] = moved
    for name in ("lsa", "tf-idf", "hybrid", "no stemming"):
        for one_in in (15, 7):
            others[f"one question in {one_in} by {name}"] = {
                query_id: others[name][query_id] if rng.random() < 1 / one_in else ids
                for query_id, ids in baseline.items()
            }
    before = score_rankings(relevant, baseline, METRICS)
    for name, run in others.items():
        after = score_rankings(relevant, run, METRICS)
        runs = {"old": baseline, "new": run}
        yield {
            "name": f"{collected}: {name}",
            "scores": {
                metric: np.rint(UNIT * np.stack([before[metric], after[metric]], axis=1))
                .astype(int)
                .tolist()
                for metric in METRICS
            },
            "changed": {
                way: [int(each in draw) for each in before.query_ids]
                for way, options in WAYS.items()
                for draw in [set(draw_changed(runs, **options).changed)]
            },
        }


@cache
def load() -> list[Change]:
    return [
        Change(
            row["name"],
            {metric: np.array(scores) / UNIT for metric, scores in row["scores"].items()},
            {way: np.array(flags, np.bool_) for way, flags in row["changed"].items()},
        )
        for row in json.loads(gzip.decompress(STORED.read_bytes()))
    ]


class Cell(NamedTuple):
    """A change whose questions have weights: the differences, those changed, how far scores are."""

    name: str
    values: Array
    weights: Array
    changed: npt.NDArray[np.bool_]
    apart: float

    @property
    def share(self) -> float:
        return min(1.0, float(self.weights[self.changed].sum()))


def cells(metric: str, way: str, effect: float | None) -> Iterator[Cell]:
    """Every change by a metric with a true difference; None for the real one."""
    for change in load():
        scores, changed = change.scores[metric], change.changed[way]
        values = np.round(scores[:, 1] - scores[:, 0], 4)
        weights = np.full(len(values), 1 / len(values))
        if not values.any() or np.any(values[~changed]):
            continue
        if effect is not None:
            if not values.min() < effect < values.max():
                continue
            weights = tilted(values, effect)
            left = 1 / np.square(weights).sum()
            if left < LEFT * len(values) or abs(weights @ values - effect) > EXACT:
                continue
        yield Cell(change.name, values, weights, changed, float(np.ptp(scores)))


@cache
def ends_of_share(changed: int, asked: int, confidence: float) -> tuple[float, float]:
    return wilson(changed, asked, 2 * confidence - 1)


def drawn_bounds(
    rng: np.random.Generator,
    cell: Cell,
    n: int,
    asked: int,
    data_sets: int,
    confidence: float,
    *,
    cautious: bool,
) -> dict[str, tuple[Array, Array]]:
    """Bounds by the share's own bound, by squares, by its variance, and by its estimate alone."""
    rows = np.flatnonzero(cell.changed)
    among = cell.weights[rows] / cell.weights[rows].sum()
    changed = np.maximum(rng.binomial(asked, cell.share, data_sets), 1)
    sample = cell.values[rng.choice(rows, (n, data_sets), p=among)]
    sample = np.where(np.arange(n)[:, None] < changed, sample, np.nan)
    apart, counted = (REACH * cell.apart, COUNTED) if cautious else (cell.apart, 1)
    found = pseudo_queries(Units.of(sample), apart, counted=counted)
    low, high = found.bounds(confidence)
    share = changed / asked
    ends = np.array([ends_of_share(each, asked, confidence) for each in changed.tolist()]).T
    mean = share * found.mean
    reach = (high - low) / 2
    quantile = reach / found.error
    error = np.sqrt(
        np.square(share * found.error) + np.square(found.centre) * share * (1 - share) / asked
    )
    middle = share * found.centre
    wide = (
        np.minimum(low * np.where(low < 0, ends[1], ends[0]), mean),
        np.maximum(high * np.where(high > 0, ends[1], ends[0]), mean),
    )
    narrow = share * low, share * high
    return {
        "bound": wide,
        "squares": (
            mean - np.hypot(mean - narrow[0], wide[0] - narrow[0]),
            mean + np.hypot(narrow[1] - mean, wide[1] - narrow[1]),
        ),
        "variance": (middle - quantile * error, middle + quantile * error),
        "estimate": narrow,
    }


def undrawn_low(rng: np.random.Generator, cell: Cell, n: int, data_sets: int) -> Array:
    """The gate's bound where n questions are labelled that were drawn from all."""
    sample = cell.values[rng.choice(len(cell.values), (n, data_sets), p=cell.weights)]
    return pseudo_queries(Units.of(sample), cell.apart).bounds(CONFIDENCE)[0]


def gate_table(asked: int, sizes: Sequence[int] = (50, 100), data_sets: int = 2_000) -> list[str]:
    """Markdown: how often the gate passes unchanged systems, and changes at its limit."""
    rng = np.random.default_rng(0)
    lines = []
    for metric, ways in DRAWN_BY.items():
        for way in ways:
            for n in sizes:
                passed: dict[float, list[tuple[float, Array]]] = {0.0: [], -MARGIN: []}
                for effect, rates in passed.items():
                    for cell in cells(metric, way, effect):
                        options = (asked, data_sets, CONFIDENCE)
                        bounds = drawn_bounds(rng, cell, n, *options, cautious=True)
                        once = drawn_bounds(rng, cell, n, *options, cautious=False)["bound"][0]
                        lows = [
                            undrawn_low(rng, cell, n, data_sets),
                            bounds["bound"][0],
                            once,
                            bounds["squares"][0],
                        ]
                        kept = [float(np.mean(low >= -MARGIN - 1e-12)) for low in lows]
                        rates.append((cell.share, np.array(kept)))
                share = np.array([each for each, _ in passed[0.0]])
                same = np.array([rates for _, rates in passed[0.0]])
                wrong = np.array([rates for _, rates in passed[-MARGIN]])
                parts = []
                for low, high in SHARES:
                    rows = same[(share > low) & (share <= high)]
                    shown = f"{rows[:, 0].mean():.0%} → {rows[:, 1].mean():.0%}"
                    parts.append(f"{shown} ({len(rows)})" if len(rows) else "–")
                lines.append(
                    f"| {metric} | {way} | {n} | {same[:, 0].mean():.0%} → {same[:, 1].mean():.0%} "
                    f"({len(same)}) | {' | '.join(parts)} | {wrong[:, 1].mean():.1%} | "
                    f"{wrong[:, 1].max():.1%} | {wrong[:, 2].max():.1%} | {wrong[:, 3].max():.1%} |"
                )
                print(lines[-1], file=sys.stderr, flush=True)
    head = (
        "| metric | drawn by | n | unchanged systems pass | up to 15 % changed | 15 to 50 % | "
        "more | false passes | worst cell | R once | by squares |"
    )
    return [head, "|---|---|---|---|---|---|---|---|---|---|---|", *lines]


def coverage_table(asked: int, data_sets: int = 2_000) -> list[str]:
    """Markdown: how often the interval of a comparison covers the real difference."""
    rng = np.random.default_rng(1)
    lines = []
    for n in (20, 30, 50, 100, 200):
        covered: dict[str, list[float]] = {}
        widths: dict[str, list[float]] = {}
        for metric, ways in DRAWN_BY.items():
            for way in ways:
                for cell in cells(metric, way, None):
                    truth = float(cell.values.mean())
                    bounds = drawn_bounds(
                        rng, cell, n, asked, data_sets, (1 + CONFIDENCE) / 2, cautious=False
                    )
                    narrow = np.median(bounds["estimate"][1] - bounds["estimate"][0])
                    for name, (low, high) in bounds.items():
                        inside = (low - 1e-12 <= truth) & (truth <= high + 1e-12)
                        covered.setdefault(name, []).append(float(inside.mean()))
                        widths.setdefault(name, []).append(float(np.median(high - low) / narrow))
        for name, rates in covered.items():
            lines.append(
                f"| {asked:,} | {n} | {name} | {np.mean(rates):.1%} | {min(rates):.1%} | "
                f"{np.median(widths[name]):.2f} | {max(widths[name]):.2f} |"
            )
            print(lines[-1], file=sys.stderr, flush=True)
    head = "| asked | n | the share by | covered | worst cell | width, median | widest |"
    return [head, "|---|---|---|---|---|---|---|", *lines]


if __name__ == "__main__":
    if sys.argv[1:2] == ["build"]:
        content = json.dumps(build(Path(sys.argv[2])), separators=(",", ":"))
        STORED.write_bytes(gzip.compress(content.encode(), 9, mtime=0))
        for change in load():
            shares = {way: f"{flags.mean():.0%}" for way, flags in change.changed.items()}
            print(change.name, shares)
    else:
        for title, lines in (
            ("Gate, 2,000 asked", gate_table(2_000)),
            ("Gate, 300 asked", gate_table(300, (50,), 1_000)),
            ("Intervals", [*coverage_table(2_000, 1_000), *coverage_table(300, 1_000)[2:]]),
        ):
            print("\n".join((f"\n{title}\n", *lines)))
