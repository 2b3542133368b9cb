"""Pairing: the scores of several systems brought onto the same queries."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.calibration import split
from llama_index_rag_metrics.metrics.metric_names import limits_of
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.statistics.intervals import cleaned, number_clusters
from llama_index_rag_metrics.statistics.prediction_powered import Rectified, rectified

OnMissing: TypeAlias = Literal["error", "intersect"]
Clusters: TypeAlias = "str | Mapping[str, Hashable]"

_TOO_LARGE = 1e100

_LISTED = 5
"""So many query ids are named in a message."""


@dataclass(frozen=True)
class Paired:
    """The scores of several systems over the same queries.

    Attributes:
        query_ids: the queries that at least one system scores, in the baseline's order.
        columns: metric name to (queries, systems) scores; NaN where a system has none.
        clusters: (queries,) the number of each query's cluster, or None.
        notes: what was left out.
        judged: the same by a judge, of these queries and others; None where there is no judge.
    """

    systems: tuple[str, ...]
    query_ids: tuple[str, ...]
    columns: Mapping[str, FloatArray]
    metadata: Mapping[str, Mapping[str, Any]]
    clusters: IntArray | None = None
    notes: tuple[str, ...] = ()
    judged: Paired | None = None

    def column(self, system: str, metric: str) -> FloatArray:
        """(queries,) the scores of one system on one metric."""
        metric = name_among(metric, self.columns)
        if system not in self.systems:
            raise InvalidInput("system", system, " or ".join(map(repr, self.systems)))
        return self.columns[metric][:, self.systems.index(system)]

    def differences(self, system: str, baseline: str, metric: str) -> FloatArray:
        """(queries,) system minus baseline; NaN where one of them has no value."""
        return cleaned(self.column(system, metric) - self.column(baseline, metric))

    def evidence(self, system: str, metric: str, baseline: str | None = None) -> FloatArray:
        """(queries,) scores, or differences, moved by what a judge knows; NaN without a value."""
        values = self._values(system, metric, baseline)
        if self.judged is None:
            return values
        moved = np.full(len(values), np.nan)
        moved[~np.isnan(values)] = self.rectified(system, metric, baseline).values
        return moved

    def rectified(self, system: str, metric: str, baseline: str | None = None) -> Rectified:
        ours, theirs = (
            dict(zip(side.query_ids, side._values(system, metric, baseline).tolist(), strict=True))
            for side in (self, self.judged or self)
        )
        known = {query_id: value for query_id, value in ours.items() if not math.isnan(value)}
        judge = {query_id: value for query_id, value in theirs.items() if not math.isnan(value)}
        return rectified(*split(judge, known))

    def in_order(self, columns: FloatArray) -> tuple[FloatArray, IntArray | None]:
        """Values of the queries, and the clusters, by query id.

        So the same queries, and clusters, are drawn however a file was sorted.
        """
        order = np.argsort(np.array(self.query_ids, np.str_), kind="stable")
        if self.clusters is None:
            return columns[order], None
        return columns[order], number_clusters(self.clusters[order].tolist())

    def _values(self, system: str, metric: str, baseline: str | None) -> FloatArray:
        if baseline is None:
            return self.column(system, metric)
        return self.differences(system, baseline, metric)

    def widest(self, metric: str) -> float:
        """The widest difference that a metric allows; without limits, between 0 and scores seen."""
        low, high = limits_of(metric)
        scores = self.columns[metric]
        seen = float(np.ptp(np.append(scores[~np.isnan(scores)], 0.0))) or 1.0
        return max(high - low, seen) if np.isfinite(high - low) else seen

    def limit(self, metric: str) -> float:
        """The widest true difference that there can be; infinite where a metric has no limits."""
        low, high = limits_of(metric)
        return self.widest(metric) if np.isfinite(high - low) else math.inf

    def slices(self, key: str) -> dict[Hashable, Paired]:
        """The queries apart by a value of their metadata; without the key, under None."""
        if not isinstance(key, str):
            raise InvalidInput("slices", key, "one key of the queries' metadata, a text")
        members: dict[Hashable, list[int]] = {}
        for row, query_id in enumerate(self.query_ids):
            value = self.metadata.get(query_id, {}).get(key)
            members.setdefault(value if isinstance(value, Hashable) else str(value), []).append(row)
        if set(members) <= {None}:
            raise _unknown_key("slices", key, self.metadata)
        judged = {} if self.judged is None else self.judged.slices(key)
        return {
            value: replace(self._rows(rows), judged=judged.get(value))
            for value, rows in members.items()
        }

    def _rows(self, rows: Sequence[int]) -> Paired:
        return Paired(
            self.systems,
            tuple(self.query_ids[row] for row in rows),
            {metric: columns[rows] for metric, columns in self.columns.items()},
            self.metadata,
            None if self.clusters is None else number_clusters(self.clusters[rows].tolist()),
        )


def pair(
    systems: Mapping[str, Scores],
    baseline: str,
    *,
    metrics: Sequence[str] | None = None,
    on_missing: OnMissing = "error",
    clusters: Clusters | None = None,
) -> Paired:
    """Bring the scores of several systems onto the same queries, in the baseline's order.

    A query that one system scores and another leaves out of its means, say because its retriever
    failed there, stays: it has no value for that other system.

    Args:
        metrics: None for those that all systems have.
        on_missing: where the systems know different queries: raise, or keep those all know.
        clusters: a key of the queries' metadata, or query id to cluster.
    """
    notes: list[str] = []
    known = _queries(systems, on_missing, notes)
    names = _metrics(systems, baseline, metrics, notes)
    for scores in systems.values():
        check_finite(scores, names, known)
    first = systems[baseline]
    scored = {query_id for scores in systems.values() for query_id in scores.query_ids} & known
    query_ids = [query_id for query_id in first.query_ids if query_id in scored]
    query_ids += sorted(scored.difference(query_ids), key=str)
    notes += _left_out(systems, known)
    metadata = {
        query_id: row
        for scores in reversed(list(systems.values()))
        for query_id, row in scores.metadata.items()
    }
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
        clusters=None if clusters is None else _clusters(clusters, query_ids, metadata),
        notes=tuple(notes),
    )


def check_finite(
    scores: Scores, metrics: Iterable[str], query_ids: Collection[str] | None = None
) -> None:
    """Refuse scores of these queries, or of all, that are infinite or too large to be squared."""
    for metric in metrics:
        for query_id, score in scores.by_query(metric).items():
            if not abs(score) < _TOO_LARGE and (query_ids is None or query_id in query_ids):
                remedy = "Fix the metric, or give the query no value (NaN)."
                argument = f"score of {query_id!r} by {metric}"
                expected = "a finite number" if math.isinf(score) else f"less than {_TOO_LARGE:g}"
                raise InvalidInput(argument, score, expected, remedy)


def _queries(systems: Mapping[str, Scores], on_missing: str, notes: list[str]) -> set[str]:
    """The queries that every system knows, scored or left out of its means."""
    if on_missing not in {"error", "intersect"}:
        raise InvalidInput("on_missing", on_missing, "'error' or 'intersect'")
    known = {name: {*scores.query_ids, *scores.excluded} for name, scores in systems.items()}
    common, every = set.intersection(*known.values()), set.union(*known.values())
    lacking = [
        f"{name} lacks {len(every - have)} ({_listed(every - have)})"
        for name, have in known.items()
        if every - have
    ]
    if lacking and on_missing == "error":
        remedy = "Evaluate all on the same queries, or pass on_missing='intersect'."
        sentence = f"systems have other queries: {'; '.join(lacking)}."
        raise InvalidInput("systems", lacking, sentence=sentence, remedy=remedy)
    if not common:
        raise InvalidInput("systems", list(systems), sentence="systems have no query in common.")
    if lacking:
        notes.append(
            f"only the {len(common)} queries that all systems have are compared, and means are "
            f"taken over these: {'; '.join(lacking)}"
        )
    return common


def _metrics(
    systems: Mapping[str, Scores],
    baseline: str,
    wanted: Sequence[str] | None,
    notes: list[str],
) -> tuple[str, ...]:
    if wanted is not None:
        chosen = [wanted] if isinstance(wanted, str) else list(wanted)
        for scores in systems.values():
            chosen = [name_among(metric, scores.metric_names) for metric in chosen]
        names = tuple(dict.fromkeys(chosen))
    else:
        every = dict.fromkeys(
            metric for scores in systems.values() for metric in scores.metric_names
        )
        names = tuple(
            metric
            for metric in systems[baseline].metric_names
            if all(metric in scores for scores in systems.values())
        )
        if missing := [metric for metric in every if metric not in names]:
            notes.append(f"not compared, since not every system has them: {', '.join(missing)}")
    if not names:
        held = "; ".join(
            f"{name} has {', '.join(held) or 'none'}" for name, held in systems.items()
        )
        value = held if wanted is None else list(wanted)
        raise InvalidInput("metrics", value, "a metric that every system has")
    return names


def _left_out(systems: Mapping[str, Scores], known: Collection[str]) -> list[str]:
    notes = []
    scored = {name: set(scores.query_ids) & set(known) for name, scores in systems.items()}
    every = set.union(*scores) if (scores := list(scored.values())) else set()
    for name, have in scored.items():
        if missing := every - have:
            reasons = sorted({systems[name].excluded[query_id] for query_id in missing})
            notes.append(
                f"queries that {name} leaves out of its means ({', '.join(reasons)}) aren't "
                f"compared with it: {len(missing)}"
            )
    return notes


def _column(scores: Scores, metric: str, query_ids: Sequence[str]) -> FloatArray:
    by_query = scores.by_query(metric)
    return np.array([by_query.get(query_id, np.nan) for query_id in query_ids], np.float64)


def _clusters(
    clusters: Clusters, query_ids: Sequence[str], metadata: Mapping[str, Mapping[str, Any]]
) -> IntArray:
    if isinstance(clusters, str):
        of = {query_id: row[clusters] for query_id, row in metadata.items() if clusters in row}
        if not of:
            raise _unknown_key("clusters", clusters, metadata)
    elif isinstance(clusters, Mapping):
        of = dict(clusters)
    else:
        expected = "a key of the queries' metadata, or a mapping of query id to cluster"
        raise InvalidInput("clusters", clusters, expected)
    if missing := [query_id for query_id in query_ids if query_id not in of]:
        raise InvalidInput(
            "clusters", f"none for {_listed(missing)}", f"one for each of {len(query_ids)} queries"
        )
    return number_clusters([of[query_id] for query_id in query_ids])


def _unknown_key(
    argument: str, key: str, metadata: Mapping[str, Mapping[str, Any]]
) -> InvalidInput:
    known = sorted({str(key) for row in metadata.values() for key in row})
    return InvalidInput(argument, key, f"a key of the queries' metadata: {known}")


def _listed(query_ids: Collection[str]) -> str:
    ids = sorted(map(str, query_ids))
    more = ", …" if len(ids) > _LISTED else ""
    return ", ".join(ids[:_LISTED]) + more
