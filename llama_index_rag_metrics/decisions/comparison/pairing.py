"""Pairing: the scores of several systems brought onto the same questions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, starmap
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better, worst_score
from llama_index_rag_metrics.runtime.containers import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.counts import clusters_of
from llama_index_rag_metrics.scores.label_fit import check_questions
from llama_index_rag_metrics.scores.scores import Scores, name_among
from llama_index_rag_metrics.statistics.differences import Contest, widest_apart
from llama_index_rag_metrics.statistics.intervals import denoised, mean_intervals, number_clusters
from llama_index_rag_metrics.statistics.resampling import Units
from llama_index_rag_metrics.stories.label_view import System

Results: TypeAlias = "EvaluationResults | Scores"
Key: TypeAlias = tuple[str, str, str]  # of a difference: the system, the metric, the baseline


@dataclass(frozen=True)
class Paired:
    """The scores of systems over the same questions: (queries, systems) a metric, NaN for none."""

    systems: tuple[str, ...]
    query_ids: tuple[str, ...]
    columns: Mapping[str, FloatArray]
    clusters: IntArray | None = None

    def values(self, system: str, metric: str, baseline: str | None = None) -> FloatArray:
        """Return (queries,) scores, or differences from the baseline; NaN where there is none."""
        if baseline is not None:
            return denoised(self.values(system, metric) - self.values(baseline, metric))
        if system not in self.systems:
            raise InvalidInput("system", system, " or ".join(map(repr, self.systems)))
        return self.columns[name_among(metric, self.columns)][:, self.systems.index(system)]

    def is_scored(self, metric: str) -> BoolArray:
        return np.asarray(~np.isnan(self.columns[metric]).any(axis=1), np.bool_)

    def scored(self, metric: str) -> tuple[list[str], FloatArray]:
        is_scored = self.is_scored(metric)
        return list(compress(self.query_ids, is_scored)), self.columns[metric][is_scored]

    def contest(self, metric: str) -> Contest:
        """Return the systems' scores of the questions where all have one; more is better."""
        is_scored, clusters = self.is_scored(metric), None
        if self.clusters is not None:
            clusters = number_clusters(self.clusters[is_scored])
        scores, worst = self.columns[metric][is_scored], worst_score(metric)
        if lower_is_better(metric):
            scores, worst = -scores, worst and -worst
        lowest, highest = limits_of(metric)
        return Contest(scores, highest - lowest, worst, clusters)

    def units(self, keys: Iterable[Key]) -> Units:
        return Units.of(np.stack(list(starmap(self.values, keys)), axis=1), self.clusters)

    def widest(self, keys: Iterable[Key]) -> FloatArray:
        """Return (keys,) R, how far two scores of these systems can be apart, by those seen."""
        widest = []
        for system, metric, baseline in keys:
            scores = np.concatenate([self.values(system, metric), self.values(baseline, metric)])
            scores = scores[~np.isnan(scores)]
            if not len(scores):
                scores = np.zeros(1)
            lowest, highest, span = scores.min(), scores.max(), self.span(metric)
            widest.append(float(widest_apart(lowest, highest, span, worst_score(metric))))
        return np.array(widest)

    def possible(self, keys: Sequence[Key], confidence: float) -> FloatArray:
        """Return (keys, 2) the lowest and the highest true difference that there can be.

        A system can't lose more than the baseline has, nor gain more than it lacks. Infinite where
        a metric has no limits, or scores lie beyond them, such as those in per cent.
        """
        baselines, limits = [], []
        for system, metric, baseline in keys:
            is_missing = np.isnan(self.values(system, metric, baseline))
            baselines.append(np.where(is_missing, np.nan, self.values(baseline, metric)))
            limits.append(limits_of(metric))
        scores, clusters = np.stack(baselines, axis=1), self.clusters
        means = mean_intervals(scores, limits=limits, confidence=confidence, clusters=clusters)
        possible = np.tile([-math.inf, math.inf], (len(keys), 1))
        for row, (_, metric, _) in enumerate(keys):
            mean, (lowest, highest) = means[row], limits[row]
            is_limited = self.span(metric) <= highest - lowest < math.inf
            if is_limited and mean.low is not None and mean.high is not None:
                possible[row] = lowest - mean.high, highest - mean.low
        return possible

    def span(self, metric: str) -> float:
        """Return the widest true difference that there can be; infinite without limits."""
        low, high = limits_of(metric)
        scores = self.columns[metric]
        with_zero = np.append(scores[~np.isnan(scores)], 0.0)
        return max(high - low, float(np.ptp(with_zero)))


def scores_of(results: Results, argument: str = "results") -> Scores:
    if isinstance(results, Scores):
        return results
    if isinstance(results, EvaluationResults):
        return results.scores
    raise InvalidInput(argument, results, "results of evaluate() or evaluate_dataset(), or Scores")


def pair(
    systems: Mapping[str, Scores], metrics: Sequence[str] | None = None, clusters: str | None = None
) -> Paired:
    """Return the scores of several systems, paired by question; refuse those that can't be."""
    check_questions(systems, "systems")
    metadata: dict[str, dict[str, Any]] = {}
    for scores in reversed(list(systems.values())):  # where systems differ, the first one counts
        for query_id in scores.query_ids:
            metadata.setdefault(query_id, {}).update(scores.metadata.get(query_id, {}))
    query_ids = sorted(metadata, key=str)
    columns = {}
    for name in _metrics_of(systems, metrics):
        columns[name] = _columns(systems.values(), name, query_ids)
    numbers = clusters_of(clusters, query_ids, metadata)
    return Paired(tuple(systems), tuple(query_ids), columns, numbers)


def _metrics_of(systems: Mapping[str, Scores], metrics: Sequence[str] | None) -> list[str]:
    names = list(metrics or ())
    if metrics is None:
        names, *rivals = map(list, systems.values())
        names = [name for name in names if all(name in rival for rival in rivals)]
    if not names:
        parts = [f"{name} has {', '.join(scores) or 'none'}" for name, scores in systems.items()]
        raise InvalidInput("metrics", "; ".join(parts), "a metric that every system has")
    for scores in systems.values():
        names = [name_among(name, scores.metric_names) for name in names]
    return list(dict.fromkeys(names))


def _columns(systems: Iterable[Scores], metric: str, query_ids: Sequence[str]) -> FloatArray:
    columns = []
    for scores in systems:
        system, by_query = System.of(scores), dict[str, float]()
        if system.mean(metric) is not None:  # which one that isn't valid has not
            by_query = scores.by_query(metric)
        columns.append([by_query.get(query_id, np.nan) for query_id in query_ids])
    by_question: FloatArray = np.ascontiguousarray(np.array(columns, np.float64).T)
    if np.isinf(by_question).any():
        remedy = "Fix the metric, or give such a question no value (NaN)."
        raise InvalidInput(f"scores by {metric}", math.inf, "finite numbers", remedy)
    return by_question
