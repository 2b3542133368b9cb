"""compare(): is one system better than another, by how much, and how sure is that?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from llama_index_rag_metrics.decisions.clusters import Clusters, clusters_in_words
from llama_index_rag_metrics.decisions.comparison.comparison import (
    Comparison,
    ComparisonSettings,
    Difference,
    with_verdict,
)
from llama_index_rag_metrics.decisions.comparison.pairing import Paired, pair, scores_of
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.label_fit import check_comparable
from llama_index_rag_metrics.statistics import intervals
from llama_index_rag_metrics.statistics.corrections import joint_levels
from llama_index_rag_metrics.statistics.differences import difference_intervals
from llama_index_rag_metrics.statistics.sample_size import detectable_differences


def compare(
    systems: Mapping[str, EvaluationResults | Scores],
    baseline: str,
    *,
    metrics: Sequence[str] | None = None,
    confidence: float = 0.95,
    margin: float | None = None,
    clusters: Clusters | None = None,
) -> Comparison:
    """Compare systems with a baseline, paired by query.

    A system is better or worse where the interval of its difference leaves out 0, alike where the
    interval lies within a margin; otherwise these queries can't tell.

    Args:
        systems: two or more, by name: the results of an evaluation, or bare scores.
        baseline: the name of the system that the others are compared with.
        metrics: names of metrics, of which the first decides; None takes those that all systems
            have. The intervals of the first hold together over systems alone, so that looking at
            more metrics costs it nothing; those of all other metrics hold together by themselves.
        confidence: of the intervals.
        margin: a difference too small to matter; None is 0.02 for metrics from 0 to 1 and none for
            others, 0 none for all.
        clusters: a key of the queries' metadata that says what they belong to, such as the document
            that they were made from; clusters count as a whole. By default the conversations of the
            queries, where their metadata have `conversation`.

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
    check_comparable(scores, baseline)
    paired = pair(scores, baseline, metrics=metrics, clusters=clusters)
    settings = ComparisonSettings(confidence, clusters, next(iter(paired.columns)), margin)
    results = {
        name: system if isinstance(system, EvaluationResults) else None
        for name, system in systems.items()
    }
    return Comparison(
        systems=scores,
        results=results,
        baseline=baseline,
        metric_names=tuple(paired.columns),
        query_ids=paired.query_ids,
        means=_means(paired, settings),
        differences=tuple(_differences(paired, baseline, settings)),
        notes=_notes(paired, settings),
        settings=settings,
        paired=paired,
    )


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
    paired: Paired, baseline: str, settings: ComparisonSettings
) -> Iterator[Difference]:
    """The differences from the baseline, with their verdicts.

    Those on the metric that decides are one family, all others another.
    """
    others = [name for name in paired.systems if name != baseline]
    keys = [(name, metric, baseline) for name in others for metric in paired.columns]
    units = paired.units(keys)
    is_primary = np.array([metric == settings.primary for _, metric, _ in keys])
    families = [rows for rows in map(np.flatnonzero, (is_primary, ~is_primary)) if len(rows)]
    levels = joint_levels(units, families, alpha=settings.alpha)
    widest = np.array([paired.widest(*key) for key in keys])
    confidence, possible = np.ones(len(keys)), np.ones((len(keys), 2))
    detectable = np.full(len(keys), None)
    for family, level in zip(families, levels, strict=True):
        confidence[family] = 1 - level
        possible[family] = paired.possible([keys[row] for row in family.tolist()], 1 - level)
        of_family = units.columns(family)
        detectable[family] = detectable_differences(of_family, widest[family], alpha=level)
    found = difference_intervals(units, widest=widest, confidence=confidence, possible=possible)
    for position, (system, metric, _) in enumerate(keys):
        interval = found[position]
        column = paired.values(system, metric, baseline)
        both = ~np.isnan(column)
        values = column[both]
        gains = -values if lower_is_better(metric) else values
        difference = Difference(
            system=system,
            baseline=baseline,
            metric=metric,
            n=len(values),
            baseline_mean=intervals.exact_mean(paired.values(baseline, metric)[both]),
            mean=intervals.exact_mean(paired.values(system, metric)[both]),
            difference=interval.mean,
            low=interval.low,
            high=interval.high,
            method=interval.method,
            wins=int((gains > 0).sum()),
            ties=int((values == 0).sum()),
            losses=int((gains < 0).sum()),
            detectable=detectable[position],
            note=interval.note,
            primary=metric == settings.primary,
        )
        yield with_verdict(difference, settings)


def _notes(paired: Paired, settings: ComparisonSettings) -> tuple[str, ...]:
    if paired.clusters is None:
        return paired.notes
    words = clusters_in_words(settings.clusters, paired.clusters)
    return (*paired.notes, f"{words}: these are flipped as a whole, and t is cluster-robust")
