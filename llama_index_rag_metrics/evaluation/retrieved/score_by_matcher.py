"""Scoring the rankings of an evaluation, each metric by its matcher."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.evaluation.retrieved.places import Places, unplaced_note
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.rankings.judging import JudgedSpans, columns_for
from llama_index_rag_metrics.rankings.matching import BY_ID, Matched, Matcher, named_matcher
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.scoring import ScoringOptions, score_with

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset


def matcher_of(metric: RankingMetric, default: Matcher[Any] | None) -> Matcher[Any] | None:
    """The matcher of a metric in an evaluation with this default; None stands for ids."""
    if not metric.recognises:
        return None
    if metric.match is None or (default is not None and metric.match == default.name):
        return default
    return named_matcher(metric.match)


def group_by_matcher(
    metrics: Iterable[BaseRetrievalMetric], default: Matcher[Any] | None
) -> dict[str, tuple[Matcher[Any] | None, list[RankingMetric]]]:
    """Group the metrics of rankings by their matcher's name, the default first.

    The default has a group without metrics where no metric is matched at all.
    """
    groups: dict[str, tuple[Matcher[Any] | None, list[RankingMetric]]] = {
        _name(default): (default, [])
    }
    for metric in metrics:
        if isinstance(metric, RankingMetric):
            matcher = matcher_of(metric, default)
            groups.setdefault(_name(matcher), (matcher, []))[1].append(metric)
    return {name: group for name, group in groups.items() if group[1]} or groups


def matcher_names(
    metrics: Iterable[BaseRetrievalMetric], default: Matcher[Any] | None
) -> dict[str, str]:
    """Metric's name to its matcher's, the default's for metrics of texts; without those by id."""
    matchers = {
        metric.metric_name: matcher_of(metric, default)
        if isinstance(metric, RankingMetric)
        else default
        for metric in metrics
    }
    return {metric: matcher.name for metric, matcher in matchers.items() if matcher is not None}


def score_by_matcher(
    metrics: Iterable[BaseRetrievalMetric],
    default: Matcher[Any] | None,
    dataset: RetrievalDataset,
    run: Run,
    matched: Mapping[str, Matched],
    scoring: ScoringOptions,
    forbidden: Mapping[str, Collection[str]] | None = None,
) -> Scores:
    """Score all metrics of rankings, each by its matcher.

    Counts and exclusions are those of the default matcher, or else of the first metric's. A metric
    has no value for a query on which its matcher failed.
    """
    parts: list[Scores] = []
    columns: dict[str, dict[str, float]] = {}
    unplaced: list[str] = []
    for name, (_, members) in group_by_matcher(metrics, default).items():
        recognised = matched.get(name)
        relevance = dict(dataset.relevance if recognised is None else recognised.relevance)
        if not any(metric.recognises for metric in members) and _name(default) in matched:
            # what knows no items counts the queries that the others count
            relevance = {**matched[_name(default)].relevance, **relevance}
        if JudgedSpans in columns_for(members):
            places = Places(dataset.corpus, default)
            relevance = {
                query_id: places.of_relevance(judged) for query_id, judged in relevance.items()
            }
            unplaced = unplaced_note(run)
        part = score_with(
            members,
            {query_id: relevance.get(query_id) for query_id in dataset.queries},
            run if recognised is None else recognised.run,
            scoring,
            queries=dataset.queries,
            metadata=dataset.metadata,
            name=run.name,
            documents=dataset.corpus,
            forbidden=forbidden,
            # one that stands for several makes it longer, repetitions make it shorter
            deepest=None
            if recognised is None
            else max((len(ranking.ids) for ranking in run.values()), default=0),
        )
        parts.append(part)
        columns |= _columns(part, {} if recognised is None else recognised.errors)
    notes = [note for part in parts for note in part.notes]
    notes += unplaced
    notes += [note for name in matched for note in matched[name].notes]
    scores = parts[0].join(columns, order=list(columns))
    return scores.replace(
        details={metric: rows for part in parts for metric, rows in part.details.items()},
        # a matcher that failed leaves no ranking, but something was retrieved
        empty=[query_id for query_id in scores.empty if not run[query_id].ids],
        notes=dict.fromkeys(notes),
    )


def _columns(scores: Scores, errors: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Metric to its scores by query, without queries that have an error."""
    return {
        metric: {
            query_id: score
            for query_id, score in scores.by_query(metric).items()
            if query_id not in errors
        }
        for metric in scores
    }


def _name(matcher: Matcher[Any] | None) -> str:
    return BY_ID if matcher is None else matcher.name
