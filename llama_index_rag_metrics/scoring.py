"""Scoring stored rankings: relevance and runs in, Scores out. No retriever is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, Literal, TypeAlias

import numpy as np
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.judging import FloatArray, JudgedRankings, judge
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.naming import metrics as resolve
from llama_index_rag_metrics.relevance import RelevanceLike
from llama_index_rag_metrics.run import Ranking, Run
from llama_index_rag_metrics.scores import Reason, Scores

NoRelevant: TypeAlias = Literal["exclude", "zero", "error"]
Failed: TypeAlias = Literal["zero", "exclude"]
Metrics: TypeAlias = str | BaseRetrievalMetric | Iterable[str | BaseRetrievalMetric]


def score_rankings(
    expected: Mapping[str, RelevanceLike | None] | Sequence[RelevanceLike | None],
    retrieved: Run | Mapping[str, Ranking | Sequence[str]] | Sequence[Sequence[str]],
    metrics: Metrics,
    *,
    no_relevant: NoRelevant = "exclude",
    failed: Failed = "zero",
    queries: Mapping[str, str] | None = None,
    metadata: Mapping[str, Mapping[str, Any]] | None = None,
    name: str = "",
) -> Scores:
    """Score stored rankings.

    Args:
        expected: what is relevant: a sequence, or a mapping from query id, of ids, {id: grade},
            groups or `Relevance`; None where a query is unjudged.
        retrieved: the rankings, in the same shape: ranked ids, best first, or a `Run`. A judged
            query without a ranking counts as an empty one; a ranking without relevance as unjudged.
        metrics: names, or metrics.
        no_relevant: what to do with a query that has judgements but nothing relevant: leave it out
            of the means and count it, score it 0, or raise.
        failed: whether a query on which the retriever failed scores 0 or is left out.
        queries: query id to its text, for reports.
        metadata: query id to its metadata, for slices.
        name: what to call the scored system in reports.

    Raises:
        InvalidInput: an argument can't be used.
        UnknownMetric: a name isn't known.

    Examples:
        >>> scores = score_rankings([["a"], ["b", "c"]], [["a", "x"], ["x", "b"]], ["mrr", "recall"])
        >>> dict(scores.means)
        {'mrr': 0.75, 'recall': 0.75}
        >>> score_rankings({"q1": {"a": 2, "b": 1}}, {"q1": ["b", "a"]}, "ndcg@10")["ndcg@10"]
        array([0.8597187])
    """
    _one_of("no_relevant", no_relevant, ("exclude", "zero", "error"))
    _one_of("failed", failed, ("zero", "exclude"))
    chosen = [_ranking_metric(one) for one in resolve(metrics)]
    query_ids, relevance, rankings, errors = _align(expected, retrieved)
    judged = judge(relevance, rankings)
    excluded = _excluded(query_ids, relevance, errors, judged, no_relevant, failed)
    kept = np.array([one not in excluded for one in query_ids], np.bool_)
    return Scores(
        list(compress(query_ids, kept)),
        {one.metric_name: one.score_queries(judged)[kept] for one in chosen},
        excluded=excluded,
        failed=errors,
        empty=[query_ids[at] for at in np.flatnonzero(judged.depth == 0) if query_ids[at] not in errors],
        no_relevant=[query_ids[at] for at in np.flatnonzero(kept & (judged.n_gaining == 0))],
        queries=queries,
        metadata=metadata,
        name=name or getattr(retrieved, "name", ""),
        notes=_notes(chosen, judged, kept),
    )


def _align(
    expected: Mapping[str, RelevanceLike | None] | Sequence[RelevanceLike | None],
    retrieved: Mapping[str, Ranking | Sequence[str]] | Sequence[Ranking | Sequence[str]],
) -> tuple[list[str], list[RelevanceLike | None], list[Sequence[str]], dict[str, str]]:
    """Query ids, relevance and rankings in the same order, and the errors of failed queries."""
    if isinstance(expected, Mapping) and isinstance(retrieved, Mapping):
        query_ids = list(dict.fromkeys([*expected, *retrieved]))
        relevance = [expected.get(one) for one in query_ids]
        given = [retrieved.get(one, ()) for one in query_ids]
    elif isinstance(expected, Mapping) or isinstance(retrieved, Mapping):
        raise InvalidInput(
            "retrieved",
            type(retrieved).__name__,
            f"the same shape as expected, which is a {type(expected).__name__}",
            "Give both as mappings from query id, or both as sequences in the same order.",
        )
    else:
        relevance, given = list(expected), list(retrieved)
        query_ids = [str(at) for at in range(len(relevance))]
    errors: dict[str, str] = {}
    if Ranking in set(map(type, given)):
        run = Run(dict(zip(query_ids, given, strict=True)))
        given, errors = [one.ids for one in run.values()], run.failed
    return query_ids, relevance, given, errors


def _excluded(
    query_ids: Sequence[str],
    relevance: Sequence[RelevanceLike | None],
    errors: Mapping[str, str],
    judged: JudgedRankings,
    no_relevant: NoRelevant,
    failed: Failed,
) -> dict[str, Reason]:
    excluded: dict[str, Reason] = {}
    if failed == "exclude":
        excluded |= dict.fromkeys(errors, "failed")
    for at in np.flatnonzero(judged.n_gaining == 0).tolist():
        if relevance[at] is None:
            excluded[query_ids[at]] = "unjudged"
        elif no_relevant == "exclude":
            excluded[query_ids[at]] = "no_relevant"
        elif no_relevant == "error":
            raise InvalidInput(
                f"relevance of query {query_ids[at]!r}",
                relevance[at],
                "a grade above 0",
                "Leave such queries out of the means with no_relevant='exclude'.",
            )
    return excluded


def _notes(chosen: Sequence[RankingMetric], judged: JudgedRankings, kept: FloatArray) -> list[str]:
    notes = []
    for min_grade in sorted({getattr(one, "min_grade", 0.0) for one in chosen} - {0.0}):
        below = kept & (judged.n_gaining > 0) & (judged.count_judgements(min_grade) == 0)
        if n := int(below.sum()):
            notes.append(
                f"{n} of {int(kept.sum())} queries have positive grades but none of at least "
                f"{min_grade:g}: metrics with min_grade={min_grade:g} score them 0"
            )
    return notes


def _ranking_metric(given: BaseRetrievalMetric) -> RankingMetric:
    if not isinstance(given, RankingMetric):
        raise InvalidInput(
            "metrics",
            given,
            "metrics of rankings",
            "A metric of texts needs the query and the texts: use evaluate().",
        )
    return given


def _one_of(argument: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InvalidInput(argument, value, " or ".join(map(repr, choices)))
