"""Pairing: the scores of several systems brought onto the same queries."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions import OnMissing
from llama_index_rag_metrics.decisions.calibration import (
    Calibration,
    describe_worth,
    names_in_all,
    powered,
)
from llama_index_rag_metrics.decisions.clusters import (
    Clusters,
    clusters_of,
    join_sorted,
    merged_metadata,
)
from llama_index_rag_metrics.decisions.draws import Draw
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better, worst_score
from llama_index_rag_metrics.report.numbers import percent, questions, significant
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput, unawaited
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among, rows_by
from llama_index_rag_metrics.statistics import prediction_powered as ppi
from llama_index_rag_metrics.statistics.differences import widest_apart
from llama_index_rag_metrics.statistics.intervals import (
    MeanInterval,
    mean_intervals,
    number_clusters,
    without_noise,
)
from llama_index_rag_metrics.statistics.resampling import Units

Results: TypeAlias = "EvaluationResults | Scores | Calibration"

_TOO_LARGE = 1e100


def scores_of(results: Results, argument: str = "results") -> Scores:
    """The scores of some results; where they were calibrated, people's."""
    if isinstance(results, Scores):
        return results
    if isinstance(results, Calibration):
        return results.human
    if isinstance(results, EvaluationResults):
        return results.scores
    expected = "the results of an evaluation, Scores, or what calibrate() made"
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
    judged: Paired | None = None

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

    def evidence(self, system: str, metric: str, baseline: str | None = None) -> FloatArray:
        """(queries,) the values, moved by what a judge knows; NaN without a value."""
        values = self.values(system, metric, baseline)
        if self.judged is None:
            return values
        moved = np.full(len(values), np.nan)
        moved[~np.isnan(values)] = self.prediction_powered(system, metric, baseline).values
        return moved

    def prediction_powered(
        self, system: str, metric: str, baseline: str | None = None
    ) -> ppi.PredictionPowered:
        judged = self.judged or self
        return powered(
            judged.by_query(system, metric, baseline),
            self.by_query(system, metric, baseline),
            None
            if judged.clusters is None
            else dict(zip(judged.query_ids, judged.clusters.tolist(), strict=True)),
            None if baseline is None else self.widest(system, metric, baseline),
        )

    def calibrated_mean(self, system: str, metric: str, confidence: float = 0.95) -> MeanInterval:
        return ppi.prediction_powered_interval(
            self.prediction_powered(system, metric), confidence=confidence, limits=limits_of(metric)
        )[1]

    def worth(self, system: str, metric: str, baseline: str | None = None) -> str:
        """What people's and the judge's scores are worth together; "" without a judge."""
        if self.judged is None:
            return ""
        return describe_worth(self.prediction_powered(system, metric, baseline))

    @property
    def weight(self) -> float:
        """What a mean of these queries counts for in a difference."""
        return 1.0

    def weighed(self, key: tuple[str, str, str]) -> tuple[FloatArray, FloatArray]:
        """(queries,) the evidence on (system, metric, baseline) and the values, so weighed."""
        return self.weight * self.evidence(*key), self.weight * self.values(*key)

    def weighed_ends(self, interval: MeanInterval, confidence: float) -> MeanInterval:
        """The interval of a weighed difference, with how well the weight is known."""
        return interval

    def units(self, keys: Iterable[tuple[str, str, str]]) -> Units:
        """The differences of (system, metric, baseline), a column each."""
        return self.units_of([self.weighed(key) for key in keys])

    def units_of(self, columns: Iterable[tuple[FloatArray, FloatArray]]) -> Units:
        """The same of columns, each moved by a judge and as it was."""
        evidence, changes = map(self.in_order, zip(*columns, strict=True))
        return Units.of(*evidence, changes[0])

    def in_order(self, columns: Sequence[FloatArray]) -> tuple[FloatArray, IntArray | None]:
        """(queries, columns) values and clusters by query id, however a file was sorted."""
        order = np.argsort(np.array(self.query_ids, np.str_), kind="stable")
        ordered = np.stack(columns, axis=1)[order]
        if self.clusters is None:
            return ordered, None
        return ordered, number_clusters(self.clusters[order].tolist())

    def widest(self, system: str, metric: str, baseline: str) -> float:
        """How far two scores of these systems can be apart, by those seen."""
        seen = [
            part.values(name, metric)
            for part in (self, self.judged)
            if part is not None
            for name in (system, baseline)
        ]
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
        if self.judged is not None:
            means = [self.calibrated_mean(name, metric, confidence) for name, metric, _ in columns]
        else:
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

    def slices(self, key: str) -> dict[str | None, Paired]:
        """The queries by a value of their metadata; those without the key under None."""
        if not isinstance(key, str):
            raise InvalidInput("slices", key, "one key of the questions' metadata, a text")
        judged = {} if self.judged is None else self.judged.slices(key)
        return {
            value: replace(
                self,
                query_ids=tuple(self.query_ids[row] for row in rows),
                columns={metric: columns[rows] for metric, columns in self.columns.items()},
                clusters=None
                if self.clusters is None
                else number_clusters(self.clusters[rows].tolist()),
                notes=(),
                judged=judged.get(value),
            )
            for value, rows in rows_by(key, self.query_ids, self.metadata, "slices").items()
        }


def pair(
    systems: Mapping[str, Scores],
    baseline: str,
    *,
    metrics: Sequence[str] | None = None,
    on_missing: OnMissing = "error",
    clusters: Clusters | None = None,
) -> Paired:
    """Bring the scores of several systems onto the same queries, in the baseline's order."""
    known, notes = _queries(systems, on_missing)
    notes = [*scored_otherwise(systems), *notes]
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


def _queries(systems: Mapping[str, Scores], on_missing: str) -> tuple[set[str], list[str]]:
    """The queries that every system knows, scored or left out of its means; and notes."""
    if on_missing not in {"error", "intersect"}:
        raise InvalidInput("on_missing", on_missing, "'error' or 'intersect'")
    known = {name: {*scores.query_ids, *scores.excluded} for name, scores in systems.items()}
    common, every = set.intersection(*known.values()), set.union(*known.values())
    lacking = [
        f"{name} lacks {len(every - have)} ({join_sorted(every - have)})"
        for name, have in known.items()
        if every - have
    ]
    if lacking and on_missing == "error":
        remedy = "Evaluate all on the same questions, or pass on_missing='intersect'."
        sentence = f"systems have other questions: {'; '.join(lacking)}."
        raise InvalidInput("systems", lacking, sentence=sentence, remedy=remedy)
    if not common:
        raise InvalidInput("systems", list(systems), sentence="systems have no question in common.")
    if not lacking:
        return common, []
    note = (
        f"only the {len(common)} questions that all systems have are compared, and means are "
        f"taken over these: {'; '.join(lacking)}"
    )
    return common, [note]


def _column(scores: Scores, metric: str, query_ids: Sequence[str]) -> FloatArray:
    by_query = scores.by_query(metric) if scores.is_measured else {}
    return np.array([by_query.get(query_id, np.nan) for query_id in query_ids], np.float64)


@dataclass(frozen=True, kw_only=True)
class DrawnPaired(Paired):
    """The scores of two systems over the drawn questions.

    The difference over all questions is the mean of the drawn ones times the share that changed.
    How far an end of the mean's interval moves with the share's own bound is the error of the
    share; it and the error of the mean are independent, and add up as squares (Zou and Donner
    2008). How often that covers, beside other ways: benchmarks/README.md.
    """

    draw: Draw
    grouped_by: Clusters | None
    scores: dict[str, Scores]

    @property
    def weight(self) -> float:
        return self.draw.share

    def weighed_ends(self, interval: MeanInterval, confidence: float) -> MeanInterval:
        mean, low, high = interval.mean, interval.low, interval.high
        if low is None or high is None or not self.weight:
            return interval
        wide = stretched((low, high), self.draw, (1 + confidence) / 2, self.grouped_by)
        return replace(
            interval,
            low=mean - math.hypot(mean - low, wide[0] - low),
            high=mean + math.hypot(high - mean, wide[1] - high),
        )

    def widest(self, system: str, metric: str, baseline: str) -> float:
        return self.weight * super().widest(system, metric, baseline)

    def possible(self, keys: Sequence[tuple[str, str, str]], confidence: float) -> FloatArray:
        possible = super().possible(keys, confidence)
        return self.weight * possible if self.weight else possible

    def slices(self, key: str) -> dict[str | None, Paired]:
        kept = replace(self, metadata=self.draw.metadata)
        parts = super(DrawnPaired, kept).slices(key)
        nothing = {metric: column[:0] for metric, column in self.columns.items()}
        without = replace(kept, query_ids=(), columns=nothing, clusters=None, notes=())
        known = {value: part for value, part in parts.items() if isinstance(part, DrawnPaired)}
        return {
            value: replace(known.get(value, without), draw=self.draw.in_slice(key, value))
            for value in self.draw.slice_values(key)
        }


def stretched(
    ends: tuple[float, float], draw: Draw, confidence: float, clusters: Clusters | None
) -> tuple[float, float]:
    """Ends of a mean times the share that changed, where the share lies at its farther bound."""
    least, most = (end / draw.share for end in draw.share_between(confidence, clusters))
    low, high = ends
    return low * (most if low < 0 else least), high * (most if high > 0 else least)


def drawn_pair(
    systems: Mapping[str, Scores],
    baseline: str,
    draw: Draw,
    metrics: Sequence[str] | None = None,
    clusters: Clusters | None = None,
) -> DrawnPaired:
    """Bring the scores of two systems onto the drawn questions."""
    if len(systems) != 2:
        remedy = "Draw for each pair of systems on its own."
        raise InvalidInput("systems", list(systems), "the two that were drawn from", remedy)
    if not draw.changed:
        sentence = f"{draw.found}: there is nothing to compare."
        raise InvalidInput("drawn", str(draw), sentence=sentence)
    other = next(name for name in systems if name != baseline)
    notes = [means_note(draw)]
    notes += check_rankings(draw, {name: systems[name].rankings for name in (baseline, other)})
    wanted, unfit = _determined(systems, baseline, draw, metrics)
    if unfit:
        notes.append(f"not compared: {'; '.join(unfit)}")
    scores = {name: drawn_scores(each, draw, name, wanted) for name, each in systems.items()}
    notes += irrelevant_note(draw, systems.values())
    paired = pair(scores, baseline, metrics=wanted, clusters=clusters)
    return DrawnPaired(
        systems=paired.systems,
        query_ids=paired.query_ids,
        columns=paired.columns,
        metadata=paired.metadata,
        clusters=paired.clusters,
        notes=(*notes, *paired.notes),
        draw=draw,
        grouped_by=clusters,
        scores=scores,
    )


def means_note(draw: Draw) -> str:
    """How means and differences belong together."""
    return (
        f"means are those of the {questions(len(draw.drawn))} drawn; a difference is that of the "
        f"means times the share that changed, {percent(significant(draw.share))}"
    )


def _determined(
    systems: Mapping[str, Scores], baseline: str, draw: Draw, metrics: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """The metrics that the first k passages determine, and why others are left out."""
    if metrics is not None:
        for name in metrics:
            check_metric(draw, name)
        return list(metrics), []
    shared = [
        name for name in systems[baseline] if all(name in scores for scores in systems.values())
    ]
    reasons = {name: draw.unseen_by(name) or _valueless(systems, draw, name) for name in shared}
    fit = [name for name, reason in reasons.items() if not reason]
    if shared and not fit:
        check_metric(draw, shared[0])
    return fit, [f"{name}, since {reason}" for name, reason in reasons.items() if reason]


def _valueless(systems: Mapping[str, Scores], draw: Draw, name: str) -> str:
    """Why a metric of which less is better can't take questions without anything relevant."""
    lacks = any(
        scores.excluded.get(query_id) == "no_relevant" and query_id not in by_query
        for scores in systems.values()
        for by_query in [scores.by_query(name)]
        for query_id in draw.drawn
    )
    return "it has no value where nothing is relevant" if lacks and lower_is_better(name) else ""


def check_metric(draw: Draw, name: str) -> None:
    """Refuse a metric that may differ where nothing else was retrieved."""
    if reason := draw.unseen_by(name):
        sentence = f"{name} can't be decided by this draw: {reason}."
        raise InvalidInput("metrics", name, sentence=sentence)


def check_rankings(draw: Draw, rankings: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Refuse other rankings than those drawn from; a note where they aren't known."""
    (first, before), (second, after) = rankings.items()
    found = {
        query_id: (before.get(query_id, ""), after.get(query_id, "")) for query_id in draw.asked
    }
    known = {query_id: both for query_id, both in found.items() if all(both)}
    if not known and not draw.drawn:
        expected = "scores that say what was retrieved for questions of the draw"
        raise InvalidInput("drawn", str(draw), expected)
    if not known:
        return ["the scores don't say what was retrieved, so it isn't checked against the draw"]
    there = {query_id for query_id, both in known.items() if both == draw.rankings[query_id]}
    back = {query_id for query_id, both in known.items() if both[::-1] == draw.rankings[query_id]}
    wrong = known.keys() - (there if len(there) >= len(back) else back)
    if wrong:
        remedy = "Score the very runs that were drawn from, or draw again."
        names = " and ".join(map(repr, draw.systems))
        sentence = (
            f"{first} and {second} aren't what was drawn from ({names}): they retrieve something "
            f"else for {join_first(sorted(wrong))}."
        )
        raise InvalidInput("drawn", sorted(wrong), sentence=sentence, remedy=remedy)
    return []


def drawn_scores(scores: Scores, draw: Draw, name: str, metrics: Sequence[str]) -> Scores:
    """The scores of the drawn questions alone; 0 where nothing relevant was found."""
    chosen = [name_among(metric, scores.metric_names) for metric in metrics]
    columns = {}
    for metric in chosen:
        by_query = scores.by_query(metric)
        if not lower_is_better(metric):
            nothing = {
                query_id: 0.0
                for query_id in draw.drawn
                if scores.excluded.get(query_id) == "no_relevant"
            }
            by_query = {**nothing, **by_query}
        if missing := [query_id for query_id in draw.drawn if query_id not in by_query]:
            reasons = {scores.excluded.get(query_id) for query_id in missing}
            remedy = "Label these questions, and score both systems again."
            if reasons == {"failed"}:
                remedy = "Score failed questions as 0: failed='zero'."
            elif reasons == {"no_relevant"}:
                remedy = "Nothing is relevant there: leave this metric out."
            sentence = (
                f"{name} has no {metric} for {len(missing):,} of the {len(draw.drawn):,} drawn "
                f"questions: {join_first(missing)}."
            )
            raise InvalidInput("drawn", missing, sentence=sentence, remedy=remedy)
        columns[metric] = [by_query[query_id] for query_id in draw.drawn]
    selected = scores.select(draw.drawn)
    metadata = {
        query_id: {**selected.metadata.get(query_id, {}), **draw.metadata.get(query_id, {})}
        for query_id in draw.drawn
    }
    return selected.replace(query_ids=draw.drawn, columns=columns, excluded={}, metadata=metadata)


def irrelevant_note(draw: Draw, systems: Iterable[Scores]) -> list[str]:
    """How many drawn questions count as no difference, since nothing relevant was found."""
    excluded = [scores.excluded for scores in systems]
    n = sum(
        all(each.get(query_id) == "no_relevant" for each in excluded) for query_id in draw.drawn
    )
    what = "drawn questions without anything relevant, which count as no difference"
    return [f"{what}: {n:,}"] if n else []
