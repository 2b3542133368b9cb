"""compare(): is one system better than another, by how much, and how sure is that?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from llama_index_rag_metrics.decisions import OnMissing
from llama_index_rag_metrics.decisions.clusters import Clusters, clusters_in_words
from llama_index_rag_metrics.decisions.comparison.comparison import (
    Comparison,
    ComparisonSettings,
    Difference,
    Test,
    with_verdict,
)
from llama_index_rag_metrics.decisions.comparison.pairing import Paired, pair, scores_of
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.statistics import corrections, intervals
from llama_index_rag_metrics.statistics.differences import (
    difference_intervals,
    randomisation_p,
    t_p,
    wilcoxon_p,
)
from llama_index_rag_metrics.statistics.resampling import NOISE, Units
from llama_index_rag_metrics.statistics.sample_size import detectable_differences


def compare(
    systems: Mapping[str, EvaluationResults | Scores],
    baseline: str,
    *,
    metrics: Sequence[str] | None = None,
    primary: str | None = None,
    confidence: float = 0.95,
    correction: corrections.Correction | None = None,
    test: Test = "t",
    resamples: int = intervals.RESAMPLES,
    seed: int = intervals.SEED,
    on_missing: OnMissing = "error",
    clusters: Clusters | None = None,
    slices: str | None = None,
    alike: float | None = None,
) -> Comparison:
    """Compare systems with a baseline, paired by query.

    A system is better or worse where the interval of its difference leaves out 0, alike where the
    interval lies within a margin; otherwise these queries can't tell.

    Args:
        systems: two or more, by name: the results of an evaluation, or bare scores.
        baseline: the name of the system that the others are compared with.
        metrics: names of metrics; None takes those that all systems have.
        primary: the metric that a decision is about; None for the first. Its p values are corrected
            over systems alone, so that looking at more metrics costs it nothing; those of all other
            metrics are corrected among themselves. So are the intervals.
        confidence: of the intervals; the tests' level is 1 - confidence.
        correction: of p values and intervals: "max-t" (Westfall and Young's, the default), "holm"
            (the default for Wilcoxon's test), "benjamini-hochberg" or "none".
        test: whose p values are corrected: "t", "randomisation" or "wilcoxon". All three are
            reported beside the intervals, which decide.
        resamples: random flips of signs.
        seed: of the random numbers: the same seed gives the same numbers.
        on_missing: what to do if the systems have different queries: raise ("error"), or keep those
            that all of them have ("intersect").
        clusters: what queries belong to, such as the document that they were made from: a key of
            their metadata, or query id to cluster. Whole clusters are then flipped. By default the
            conversations of the queries, where their metadata have `conversation`.
        slices: a key of the queries' metadata; each of its values is compared on its own, and p
            values and intervals are corrected for all slices together.
        alike: a difference too small to matter; None is 0.02 for metrics from 0 to 1 and none for
            others, 0 none for all.

    Raises:
        InvalidInput: the systems have different queries, a score is infinite, or an argument can't
            be used.
        UnknownMetric: a system has no scores by a metric that is wanted.

    Examples:
        >>> a = Scores(["q1", "q2", "q3"], {"mrr": [1.0, 0.5, 0.0]})
        >>> b = Scores(["q1", "q2", "q3"], {"mrr": [1.0, 1.0, 0.5]})
        >>> found = compare({"bm25": a, "hybrid": b}, "bm25")["hybrid", "mrr"]
        >>> round(found.difference, 4), found.wins, found.ties, found.losses, found.outcome
        (0.3333, 2, 1, 0, "can't tell")
    """
    if not isinstance(systems, Mapping):
        expected = "a mapping of name to results or scores"
        raise InvalidInput("systems", systems, expected, 'For example {"bm25": a, "hybrid": b}.')
    scores = {name: scores_of(system, f"system {name!r}") for name, system in systems.items()}
    if len(scores) < 2:
        raise InvalidInput("systems", list(scores), "two systems or more")
    if not isinstance(baseline, str) or baseline not in scores:
        raise InvalidInput("baseline", baseline, " or ".join(map(repr, scores)))
    paired = pair(scores, baseline, metrics=metrics, on_missing=on_missing, clusters=clusters)
    settings = ComparisonSettings(
        confidence=confidence,
        correction=correction or ("holm" if test == "wilcoxon" else "max-t"),
        test=test,
        resamples=resamples,
        seed=seed,
        on_missing=on_missing,
        clusters=clusters if clusters is None or isinstance(clusters, str) else "given",
        slices=slices,
        primary=primary_of(primary, [*paired.columns]),
        alike=alike,
    )
    results = {
        name: system if isinstance(system, EvaluationResults) else None
        for name, system in systems.items()
    }

    def compared(part: Paired) -> Comparison:
        """Everything but corrections and verdicts."""
        means = _means(part, settings)
        return Comparison(
            systems=scores,
            results=results,
            baseline=baseline,
            metric_names=tuple(part.columns),
            query_ids=part.query_ids,
            means=means,
            differences=tuple(_differences(part, baseline, means, settings)),
            slices={},
            notes=_notes(part, settings),
            settings=settings,
            paired=part,
        )

    whole = compared(paired)
    parts = {} if slices is None else paired.slices(slices)
    sliced = {value: compared(part) for value, part in parts.items()}
    decided = _with_verdicts([whole], paired)[0]
    return replace(
        decided, slices=dict(zip(sliced, _with_verdicts([*sliced.values()], paired), strict=True))
    )


def primary_of(wanted: str | None, names: Sequence[str]) -> str:
    """The name of the metric that decides: the first, or the one wanted, perhaps by an alias."""
    try:
        return names[0] if wanted is None else name_among(wanted, names)
    except UnknownMetric:
        raise InvalidInput("primary", wanted, " or ".join(map(repr, names))) from None


def _means(
    paired: Paired, settings: ComparisonSettings
) -> Mapping[tuple[str, str], intervals.MeanInterval]:
    keys = [(name, metric) for name in paired.systems for metric in paired.columns]
    columns, clusters = paired.in_order([paired.values(*key) for key in keys])
    means = intervals.mean_intervals(
        columns,
        limits=[limits_of(metric) for _, metric in keys],
        confidence=settings.confidence,
        clusters=clusters,
    )
    return dict(zip(keys, means, strict=True))


def _differences(
    paired: Paired,
    baseline: str,
    means: Mapping[tuple[str, str], intervals.MeanInterval],
    settings: ComparisonSettings,
) -> Iterator[Difference]:
    """The differences from the baseline, without intervals, neither corrected nor decided yet."""
    keys = [(name, metric) for name, metric in means if name != baseline]
    units = paired.units((*key, baseline) for key in keys)
    p_values = {
        "randomisation": randomisation_p(units, settings.resamples, settings.seed),
        "t": t_p(units),
        "wilcoxon": wilcoxon_p(units),
    }
    for position, (system, metric) in enumerate(keys):
        column = paired.values(system, metric, baseline)
        both = ~np.isnan(column)
        values, differences = column[both], units.values[:, position]
        baseline_mean, mean = (
            intervals.exact_mean(paired.values(name, metric)[both]) for name in (baseline, system)
        )
        gains = -values if lower_is_better(metric) else values
        yield Difference(
            system=system,
            baseline=baseline,
            metric=metric,
            n=len(values),
            baseline_mean=baseline_mean,
            mean=mean,
            difference=intervals.exact_mean(differences[~np.isnan(differences)]),
            low=None,
            high=None,
            method="",
            p_randomisation=float(p_values["randomisation"][position]),
            p_t=float(p_values["t"][position]),
            p_wilcoxon=float(p_values["wilcoxon"][position]),
            p_corrected=1.0,
            significant=False,
            effect_size=_effect_size(values),
            wins=int((gains > 0).sum()),
            ties=int((values == 0).sum()),
            losses=int((gains < 0).sum()),
            detectable=None,
            primary=metric == settings.primary,
        )


def _effect_size(differences: FloatArray) -> float | None:
    if not differences.any():
        return 0.0
    if len(differences) < 2 or float(np.ptp(differences)) <= NOISE:
        return None
    # sorted, so that rounding doesn't depend on the order of the queries
    return intervals.exact_mean(differences) / float(np.sort(differences).std(ddof=1))


def _notes(paired: Paired, settings: ComparisonSettings) -> tuple[str, ...]:
    notes = list(paired.notes)
    if settings.test == "wilcoxon":
        notes.append("Wilcoxon's test is of symmetry about 0, not of the mean")
    if paired.clusters is not None:
        notes.append(
            f"{clusters_in_words(settings.clusters, paired.clusters)}: these are flipped as a "
            "whole, t is cluster-robust, and Wilcoxon's test takes their means"
        )
    return tuple(notes)


def _with_verdicts(parts: Sequence[Comparison], paired: Paired) -> list[Comparison]:
    """Comparisons with verdicts; those on the primary metric are one family, others another."""
    differences = [(part.paired, difference) for part in parts for difference in part]
    if not differences:
        return list(parts)
    decided = iter(_decide(differences, paired, parts[0].settings))
    return [replace(part, differences=tuple(next(decided) for _ in part)) for part in parts]


def _decide(
    differences: Sequence[tuple[Paired, Difference]], paired: Paired, settings: ComparisonSettings
) -> Iterator[Difference]:
    columns = [_column(part, each.key, paired) for part, each in differences]
    units = Units.of(*paired.in_order(columns))
    primary = np.array([difference.primary for _, difference in differences])
    families = [np.flatnonzero(primary), np.flatnonzero(~primary)]
    p_values = np.array([difference.p_of(settings.test) for _, difference in differences])
    corrected, levels = _corrected(p_values, families, units, settings)
    widest = np.array([paired.widest(*difference.key) for _, difference in differences])
    comparisons, detectable = np.ones(len(differences), np.int64), np.full(len(differences), None)
    confidence, possible = np.ones(len(differences)), np.ones((len(differences), 2))
    for family, level in zip(families, levels, strict=True):
        if settings.correction != "none":
            is_max_t = settings.correction == "max-t"
            counted = corrections.distinct_columns(units, family) if is_max_t else family
            comparisons[family] = len(counted)
        of_family = units.columns(family)
        detectable[family] = detectable_differences(of_family, widest[family], alpha=level)
        confidence[family] = 1 - level
        for _, rows in groupby(family.tolist(), key=lambda row: id(differences[row][0])):
            of_part = [*rows]
            part, keys = differences[of_part[0]][0], [differences[row][1].key for row in of_part]
            possible[of_part] = part.possible(keys, 1 - level)
    found = difference_intervals(units, widest=widest, confidence=confidence, possible=possible)
    for position, (_, difference) in enumerate(differences):
        interval = found[position]
        yield with_verdict(
            replace(
                difference,
                low=interval.low,
                high=interval.high,
                method=interval.method,
                p_corrected=float(corrected[position]),
                significant=bool(corrected[position] <= settings.alpha),
                detectable=detectable[position],
                comparisons=int(comparisons[position]),
                note=interval.note or difference.note,
            ),
            settings,
        )


def _column(part: Paired, key: tuple[str, str, str], paired: Paired) -> FloatArray:
    """(queries,) the differences; NaN outside the part."""
    rows = {query_id: row for row, query_id in enumerate(paired.query_ids)}
    whole = np.full(len(rows), np.nan)
    whole[[rows[query_id] for query_id in part.query_ids]] = part.values(*key)
    return whole


def _corrected(
    p_values: FloatArray, families: Sequence[IntArray], units: Units, settings: ComparisonSettings
) -> corrections.MaxT:
    """Corrected p values, and for each family the level of a difference alone."""
    if settings.correction == "max-t":
        options = {"resamples": settings.resamples, "seed": settings.seed}
        return corrections.max_t(units, p_values, families, alpha=settings.alpha, **options)
    corrected = p_values.copy()
    levels = []
    for family in families:
        corrected[family] = corrections.correct(p_values[family], settings.correction)
        shares = {
            "holm": 1,
            "benjamini-hochberg": max(1, int((corrected[family] <= settings.alpha).sum())),
            "none": len(family),
        }
        levels.append(settings.alpha * shares[settings.correction] / max(1, len(family)))
    return corrections.MaxT(corrected, levels)
