"""Pairing: the scores of several systems brought onto the same queries."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.clusters import (
    Clusters,
    clusters_of,
    join_sorted,
    merged_metadata,
)
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.metrics.metric_names import limits_of, worst_score
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput, unawaited
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.statistics.differences import widest_apart
from llama_index_rag_metrics.statistics.intervals import (
    mean_intervals,
    number_clusters,
    without_noise,
)
from llama_index_rag_metrics.statistics.resampling import Units

Results: TypeAlias = "EvaluationResults | Scores"

_TOO_LARGE = 1e100


def scores_of(results: Results, argument: str = "results") -> Scores:
    """The scores of some results."""
    if isinstance(results, Scores):
        return results
    if isinstance(results, EvaluationResults):
        return results.scores
    expected = "the results of an evaluation, or Scores"
    raise InvalidInput(argument, results, expected, unawaited(results))


@dataclass(frozen=True)
class Paired:
    """The scores of several systems over the same queries; columns are (queries, systems)."""

    systems: tuple[str, ...]
    query_ids: tuple[str, ...]
    columns: Mapping[str, FloatArray]
    metadata: Mapping[str, Mapping[str, Any]]
    clusters: IntArray | None = None
    notes: tuple[str, ...] = ()

    def values(self, system: str, metric: str, baseline: str | None = None) -> FloatArray:
        """(queries,) scores, or differences from the baseline; NaN where there is none."""
        if baseline is not None:
            return without_noise(self.values(system, metric) - self.values(baseline, metric))
        metric = name_among(metric, self.columns)
        if system not in self.systems:
            raise InvalidInput("system", system, " or ".join(map(repr, self.systems)))
        return self.columns[metric][:, self.systems.index(system)]

    def by_query(self, system: str, metric: str, baseline: str | None = None) -> dict[str, float]:
        """Query id to the same, of queries with a value."""
        column = self.values(system, metric, baseline).tolist()
        pairs = zip(self.query_ids, column, strict=True)
        return {query_id: value for query_id, value in pairs if not math.isnan(value)}

    def units(self, keys: Iterable[tuple[str, str, str]]) -> Units:
        """The differences of (system, metric, baseline), a column each."""
        return Units.of(*self.in_order([self.values(*key) for key in keys]))

    def in_order(self, columns: Sequence[FloatArray]) -> tuple[FloatArray, IntArray | None]:
        """(queries, columns) values and clusters by query id, however a file was sorted."""
        order = np.argsort(np.array(self.query_ids, np.str_), kind="stable")
        ordered = np.stack(columns, axis=1)[order]
        if self.clusters is None:
            return ordered, None
        return ordered, number_clusters(self.clusters[order].tolist())

    def widest(self, system: str, metric: str, baseline: str) -> float:
        """How far two scores of these systems can be apart, by those seen."""
        seen = [self.values(name, metric) for name in (system, baseline)]
        scores = np.concatenate(seen)
        scores = scores[~np.isnan(scores)] if not np.isnan(scores).all() else np.zeros(1)
        limit, worst = self.limit(metric), worst_score(metric)
        return float(widest_apart(scores.min(), scores.max(), limit, worst))

    def limit(self, metric: str) -> float:
        """The widest true difference that there can be; infinite where a metric has no limits."""
        low, high = limits_of(metric)
        scores = self.columns[metric]
        return max(high - low, float(np.ptp(np.append(scores[~np.isnan(scores)], 0.0))))

    def possible(self, keys: Sequence[tuple[str, str, str]], confidence: float) -> FloatArray:
        """(keys, 2) the lowest and the highest true difference of (system, metric, baseline).

        Who has little can't lose more than that, nor gain more than is left who is good. The
        baseline's mean is known within its own interval, over the queries that both score; a cut by
        the system's, too, would call systems alike of which one question in fifty fails. Infinite
        where a metric has no limits, or scores lie beyond them, such as those in per cent.
        """
        columns: dict[tuple[str, str, bytes], FloatArray] = {}
        bases = []
        for system, metric, baseline in keys:
            lacks = np.isnan(self.values(system, metric, baseline))
            bases.append((baseline, metric, lacks.tobytes()))
            columns[bases[-1]] = np.where(lacks, np.nan, self.values(baseline, metric))
        limits = [limits_of(metric) for _, metric, _ in columns]
        ordered, clusters = self.in_order([*columns.values()])
        means = mean_intervals(ordered, limits=limits, confidence=confidence, clusters=clusters)
        mean_of = dict(zip(columns, means, strict=True))
        possible = np.tile([-math.inf, math.inf], (len(keys), 1))
        for row, base in enumerate(bases):
            lowest, highest = limits_of(base[1])
            low, high = mean_of[base].low, mean_of[base].high
            is_limited = self.limit(base[1]) <= highest - lowest < math.inf
            if is_limited and low is not None and high is not None:
                possible[row] = lowest - high, highest - low
        return possible


def pair(
    systems: Mapping[str, Scores],
    baseline: str,
    *,
    metrics: Sequence[str] | None = None,
    clusters: Clusters | None = None,
) -> Paired:
    """Bring the scores of several systems onto the same queries, in the baseline's order."""
    known, notes = _queries(systems), scored_otherwise(systems)
    if metrics is not None:
        names = names_in_all(metrics, systems.values())
    else:
        names = tuple(
            metric
            for metric in systems[baseline]
            if all(metric in scores for scores in systems.values())
        )
        all_names = dict.fromkeys(chain(*systems.values()))
        if left := ", ".join(metric for metric in all_names if metric not in names):
            notes.append(f"not compared, since not every system has them: {left}")
    if not names:
        held = "; ".join(
            f"{name} has {', '.join(each) or 'none'}" for name, each in systems.items()
        )
        value = held if metrics is None else list(metrics)
        raise InvalidInput("metrics", value, "a metric that every system has")
    for scores in systems.values():
        check_finite(scores, names, known)
    scored = {name: set(scores.query_ids) & known for name, scores in systems.items()}
    every = set.union(*scored.values())
    for name, have in scored.items():
        if missing := every - have:
            reasons = sorted({systems[name].excluded[query_id] for query_id in missing})
            notes.append(
                f"questions that {name} leaves out of its means ({', '.join(reasons)}) aren't "
                f"compared with it: {len(missing)}"
            )
    query_ids = [query_id for query_id in systems[baseline].query_ids if query_id in every]
    query_ids += sorted(every.difference(query_ids), key=str)
    metadata = merged_metadata(systems.values())
    return Paired(
        systems=tuple(systems),
        query_ids=tuple(query_ids),
        columns={
            metric: np.stack(
                [_column(scores, metric, query_ids) for scores in systems.values()], axis=1
            )
            for metric in names
        },
        metadata=metadata,
        clusters=clusters_of(clusters, query_ids, metadata),
        notes=tuple(notes),
    )


def names_in_all(wanted: Sequence[str], sides: Iterable[Scores]) -> tuple[str, ...]:
    """The metrics that are wanted, each once, which all sides must have."""
    chosen = [wanted] if isinstance(wanted, str) else list(wanted)
    for side in sides:
        chosen = [name_among(metric, side.metric_names) for metric in chosen]
    return tuple(dict.fromkeys(chosen))


def scored_otherwise(systems: Mapping[str, Scores]) -> list[str]:
    """That not the same part of rankings counted in all systems, if so."""
    notes = []
    for option in ("max_retrieved", "judged_only"):
        values = {name: getattr(scores, option) for name, scores in systems.items()}
        if len({*values.values()}) > 1:
            each = ", ".join(f"{value} for {name}" for name, value in values.items())
            notes.append(f"not the same passages count: {option} is {each}")
    return notes


def check_finite(
    scores: Scores, metrics: Iterable[str], query_ids: Collection[str] | None = None
) -> None:
    """Refuse scores of these queries, or of all, that are infinite or too large to be squared."""
    for metric in metrics:
        for query_id, score in scores.by_query(metric).items():
            if not abs(score) < _TOO_LARGE and (query_ids is None or query_id in query_ids):
                remedy = "Fix the metric, or give the question no value (NaN)."
                argument = f"score of {query_id!r} by {metric}"
                expected = "a finite number" if math.isinf(score) else f"less than {_TOO_LARGE:g}"
                raise InvalidInput(argument, score, expected, remedy)


def _queries(systems: Mapping[str, Scores]) -> set[str]:
    """The queries of all systems, scored or left out of their means, which must be the same."""
    known = {name: {*scores.query_ids, *scores.excluded} for name, scores in systems.items()}
    every = set.union(*known.values())
    lacking = [
        f"{name} lacks {len(every - have)} ({join_sorted(every - have)})"
        for name, have in known.items()
        if every - have
    ]
    if lacking:
        remedy = "Evaluate all on the same questions, or scores.select() those in common."
        sentence = f"systems have other questions: {'; '.join(lacking)}."
        raise InvalidInput("systems", lacking, sentence=sentence, remedy=remedy)
    return every


def _column(scores: Scores, metric: str, query_ids: Sequence[str]) -> FloatArray:
    by_query = scores.by_query(metric) if scores.is_measured else {}
    return np.array([by_query.get(query_id, np.nan) for query_id in query_ids], np.float64)
