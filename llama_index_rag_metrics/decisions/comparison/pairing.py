"""Pairing: the scores of several systems brought onto the same questions."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.clusters import clusters_of, join_sorted
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults
from llama_index_rag_metrics.metrics.metric_names import limits_of, worst_score
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.statistics.differences import widest_apart
from llama_index_rag_metrics.statistics.intervals import mean_intervals, without_noise
from llama_index_rag_metrics.statistics.resampling import Units

Results: TypeAlias = "EvaluationResults | Scores"
Key: TypeAlias = tuple[str, str, str]
"""A system, a metric and the baseline: what a difference is of."""

_TOO_LARGE = 1e100


def scores_of(results: Results, argument: str = "results") -> Scores:
    """Return the scores of an evaluation's results, or the scores themselves."""
    if isinstance(results, Scores):
        return results
    if isinstance(results, EvaluationResults):
        return results.scores
    expected = "the results of an evaluation, or Scores"
    raise InvalidInput(argument, results, expected)


@dataclass(frozen=True)
class Paired:
    """The scores of several systems over the same questions, in the order of their ids.

    `columns` has a (queries, systems) array of each metric, with NaN where there is no score.
    """

    systems: tuple[str, ...]
    query_ids: tuple[str, ...]
    columns: Mapping[str, FloatArray]
    clusters: IntArray | None = None
    notes: tuple[str, ...] = ()

    def values(self, system: str, metric: str, baseline: str | None = None) -> FloatArray:
        """Return (queries,) scores, or differences from the baseline; NaN where there is none."""
        if baseline is not None:
            return without_noise(self.values(system, metric) - self.values(baseline, metric))
        metric = name_among(metric, self.columns)
        if system not in self.systems:
            raise InvalidInput("system", system, " or ".join(map(repr, self.systems)))
        return self.columns[metric][:, self.systems.index(system)]

    def by_query(self, system: str, metric: str, baseline: str | None = None) -> dict[str, float]:
        """Return query id to the same, of questions with a value."""
        values = self.values(system, metric, baseline).tolist()
        pairs = zip(self.query_ids, values, strict=True)
        return {query_id: value for query_id, value in pairs if not math.isnan(value)}

    def units(self, keys: Iterable[Key]) -> Units:
        """Return the differences of these keys, a column each."""
        differences = [self.values(*key) for key in keys]
        return Units.of(np.stack(differences, axis=1), self.clusters)

    def widest(self, system: str, metric: str, baseline: str) -> float:
        """Return how far two scores of these systems can be apart, by those seen."""
        scores = np.concatenate([self.values(system, metric), self.values(baseline, metric)])
        scores = scores[~np.isnan(scores)]
        if not len(scores):
            scores = np.zeros(1)
        limit, worst = self.limit(metric), worst_score(metric)
        return float(widest_apart(scores.min(), scores.max(), limit, worst))

    def limit(self, metric: str) -> float:
        """Return the widest true difference that there can be; infinite without limits."""
        low, high = limits_of(metric)
        scores = self.columns[metric]
        with_zero = np.append(scores[~np.isnan(scores)], 0.0)
        return max(high - low, float(np.ptp(with_zero)))

    def possible(self, keys: Sequence[Key], confidence: float) -> FloatArray:
        """Return (keys, 2) the lowest and the highest true difference that there can be.

        A system can't lose more than the baseline has, nor gain more than it lacks. The baseline's
        mean is known within its own interval, over the questions that both score; a cut by the
        system's, too, would call systems alike of which one question in fifty fails. Infinite where
        a metric has no limits, or scores lie beyond them, such as those in per cent.
        """
        baselines: dict[tuple[str, bytes], FloatArray] = {}
        names = []
        for system, metric, baseline in keys:
            is_missing = np.isnan(self.values(system, metric, baseline))
            name = metric, is_missing.tobytes()
            names.append(name)
            baselines[name] = np.where(is_missing, np.nan, self.values(baseline, metric))
        intervals = mean_intervals(
            np.stack([*baselines.values()], axis=1),
            limits=[limits_of(metric) for metric, _ in baselines],
            confidence=confidence,
            clusters=self.clusters,
        )
        mean_of = dict(zip(baselines, intervals, strict=True))
        possible = np.tile([-math.inf, math.inf], (len(keys), 1))
        for row, name in enumerate(names):
            lowest, highest = limits_of(name[0])
            low, high = mean_of[name].low, mean_of[name].high
            is_limited = self.limit(name[0]) <= highest - lowest < math.inf
            if is_limited and low is not None and high is not None:
                possible[row] = lowest - high, highest - low
        return possible


def pair(
    systems: Mapping[str, Scores],
    baseline: str,
    *,
    metrics: Sequence[str] | None = None,
    clusters: str | None = None,
) -> Paired:
    """Return the scores of several systems, paired by question.

    Raises:
        InvalidInput: the systems have different questions, no metric in common, or a score that
            isn't finite.
        UnknownMetric: a system has no scores by a metric that is wanted.
    """
    known = _same_queries(systems)
    names, notes = _same_metrics(systems, baseline, metrics)
    for scores in systems.values():
        check_finite(scores, names, known)
    scored = {name: set(scores.query_ids) & known for name, scores in systems.items()}
    all_queries = set.union(*scored.values())
    notes = [*scored_otherwise(systems), *notes]
    for name, query_ids in scored.items():
        missing = all_queries - query_ids
        if missing:
            reasons = sorted({systems[name].excluded[query_id] for query_id in missing})
            notes.append(
                f"questions that {name} leaves out of its means ({', '.join(reasons)}) aren't "
                f"compared with it: {len(missing)}"
            )
    ordered = sorted(all_queries, key=str)
    return Paired(
        systems=tuple(systems),
        query_ids=tuple(ordered),
        columns={metric: _columns(systems.values(), metric, ordered) for metric in names},
        clusters=clusters_of(clusters, ordered, _metadata(systems.values())),
        notes=tuple(notes),
    )


def names_in_all(wanted: Sequence[str], sides: Iterable[Scores]) -> tuple[str, ...]:
    """Return the metrics that are wanted, each once, which all sides must have."""
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    for side in sides:
        names = [name_among(name, side.metric_names) for name in names]
    return tuple(dict.fromkeys(names))


def scored_otherwise(systems: Mapping[str, Scores]) -> list[str]:
    """Return a note where systems were scored on different parts of their rankings."""
    notes = []
    for option in ("max_retrieved", "judged_only"):
        values = {name: getattr(scores.selection, option) for name, scores in systems.items()}
        if len(set(values.values())) > 1:
            parts = ", ".join(f"{value} for {name}" for name, value in values.items())
            notes.append(f"not the same passages count: {option} is {parts}")
    return notes


def check_finite(
    scores: Scores, metrics: Iterable[str], query_ids: Collection[str] | None = None
) -> None:
    """Refuse scores of these queries, or of all, that are infinite or too large to be squared."""
    for metric in metrics:
        for query_id, score in scores.by_query(metric).items():
            is_compared = query_ids is None or query_id in query_ids
            if is_compared and not abs(score) < _TOO_LARGE:
                remedy = "Fix the metric, or give the question no value (NaN)."
                argument = f"score of {query_id!r} by {metric}"
                expected = "a finite number" if math.isinf(score) else f"less than {_TOO_LARGE:g}"
                raise InvalidInput(argument, score, expected, remedy)


def _same_queries(systems: Mapping[str, Scores]) -> set[str]:
    """Return the queries of all systems, with those left out of means, which must be the same."""
    queries_of = {name: {*scores.query_ids, *scores.excluded} for name, scores in systems.items()}
    all_queries = set.union(*queries_of.values())
    lacking = []
    for name, query_ids in queries_of.items():
        missing = all_queries - query_ids
        if missing:
            lacking.append(f"{name} lacks {len(missing)} ({join_sorted(missing)})")
    if lacking:
        remedy = "Evaluate all on the same questions, or scores.select() those in common."
        sentence = f"systems have other questions: {'; '.join(lacking)}."
        raise InvalidInput("systems", lacking, sentence=sentence, remedy=remedy)
    return all_queries


def _same_metrics(
    systems: Mapping[str, Scores], baseline: str, wanted: Sequence[str] | None
) -> tuple[tuple[str, ...], list[str]]:
    """Return the metrics to compare, and a note on those that not every system has."""
    if wanted is not None:
        names = names_in_all(wanted, systems.values())
        if not names:
            raise InvalidInput("metrics", list(wanted), "a metric that every system has")
        return names, []
    shared = set.intersection(*(set(scores) for scores in systems.values()))
    names = tuple(metric for metric in systems[baseline] if metric in shared)
    if not names:
        parts = [f"{name} has {', '.join(scores) or 'none'}" for name, scores in systems.items()]
        raise InvalidInput("metrics", "; ".join(parts), "a metric that every system has")
    further = [metric for metric in dict.fromkeys(chain(*systems.values())) if metric not in shared]
    if not further:
        return names, []
    return names, [f"not compared, since not every system has them: {', '.join(further)}"]


def _columns(systems: Iterable[Scores], metric: str, query_ids: Sequence[str]) -> FloatArray:
    """Return (queries, systems) scores; NaN where a system has none."""
    columns = []
    for scores in systems:
        by_query = scores.by_query(metric) if scores.is_measured else {}
        columns.append([by_query.get(query_id, np.nan) for query_id in query_ids])
    by_question: FloatArray = np.ascontiguousarray(np.array(columns, np.float64).T)
    return by_question


def _metadata(systems: Iterable[Scores]) -> dict[str, dict[str, Any]]:
    """Return query id to metadata, field by field: where systems differ, those of the first."""
    metadata: dict[str, dict[str, Any]] = {}
    for scores in reversed([*systems]):
        for query_id, row in scores.metadata.items():
            metadata[query_id] = {**metadata.get(query_id, {}), **row}
    return metadata
