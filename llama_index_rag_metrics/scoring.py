"""Scoring stored rankings: relevance and runs in, Scores out. No retriever is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from numbers import Integral
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.judging import BoolArray, FloatArray, JudgedRankings, judge
from llama_index_rag_metrics.matching import BY_ID
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.naming import metrics as resolve
from llama_index_rag_metrics.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.run import Ranking
from llama_index_rag_metrics.scores import Reason, Scores

NoRelevant: TypeAlias = Literal["exclude", "zero", "error"]
Failed: TypeAlias = Literal["zero", "exclude"]
Expected: TypeAlias = "Mapping[str, RelevanceLike | None] | Sequence[RelevanceLike | None]"
Retrieved: TypeAlias = "Mapping[str, Ranking | Sequence[str]] | Sequence[Ranking | Sequence[str]]"
Metrics: TypeAlias = str | BaseRetrievalMetric | Iterable[str | BaseRetrievalMetric]


def score_rankings(
    expected: Expected,
    retrieved: Retrieved,
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
        >>> expected, retrieved = [["a"], ["b", "c"]], [["a", "x"], ["x", "b"]]
        >>> dict(score_rankings(expected, retrieved, ["mrr", "recall"]).means)
        {'mrr': 0.75, 'recall': 0.75}
        >>> score_rankings({"q1": {"a": 2, "b": 1}}, {"q1": ["b", "a"]}, "ndcg@10")["ndcg@10"]
        array([0.8597187])
    """
    return score_with(
        [_ranking_metric(one) for one in resolve(metrics)],
        expected,
        retrieved,
        no_relevant=no_relevant,
        failed=failed,
        queries=queries,
        metadata=metadata,
        name=name,
    )


def score_with(
    metrics: Sequence[RankingMetric],
    expected: Expected,
    retrieved: Retrieved,
    *,
    no_relevant: NoRelevant,
    failed: Failed,
    queries: Mapping[str, str] | None,
    metadata: Mapping[str, Mapping[str, Any]] | None,
    name: str,
    tolerant: bool = False,
    deepest: int | None = None,
) -> Scores:
    """`score_rankings` with metrics that are ready, possibly none.

    Args:
        tolerant: whether a metric that raises has no value, and a note, instead of ending it all.
        deepest: how much was retrieved at most, where the rankings don't say.
    """
    check_options(no_relevant, failed)
    query_ids, relevance, rankings, errors = _align(expected, retrieved)
    judged = judge(relevance, rankings)
    excluded = _excluded(query_ids, relevance, errors, judged, no_relevant, failed)
    bare = [query_ids[at] for at in np.flatnonzero(judged.depth == 0)]
    columns: dict[str, FloatArray] = {}
    details: dict[str, Sequence[dict[str, Any]]] = {}
    failures = []
    for one in metrics:
        try:
            columns[one.metric_name] = one.score_queries(judged)
            if (rows := one.details(judged)) is not None:
                details[one.metric_name] = rows
        except Exception as error:
            if not tolerant:
                raise
            columns[one.metric_name] = np.full(len(judged), np.nan)
            failures.append(f"{one.metric_name} has no value: {type(error).__name__}: {error}")
    kept = ~np.fromiter(map(excluded.__contains__, query_ids), np.bool_, len(query_ids))
    return Scores(
        list(compress(query_ids, kept)),
        {metric: column[kept] for metric, column in columns.items()},
        excluded=excluded,
        failed=errors,
        empty=[one for one in bare if one not in errors],
        no_relevant=[query_ids[at] for at in np.flatnonzero(kept & (judged.n_gaining == 0))],
        queries=queries,
        metadata=metadata,
        details={
            metric: dict(compress(zip(query_ids, rows, strict=True), kept))
            for metric, rows in details.items()
        },
        name=name or getattr(retrieved, "name", ""),
        notes=[*_notes(metrics, judged, kept, deepest), *failures],
    )


def check_options(
    no_relevant: NoRelevant,
    failed: Failed,
    relevance: Mapping[str, Relevance] | None = None,
) -> None:
    """What can be wrong with the options, before any work: they, or the relevance under "error".

    Raises:
        InvalidInput: an option isn't one of its values, or a query has nothing relevant.
    """
    _one_of("no_relevant", no_relevant, ("exclude", "zero", "error"))
    _one_of("failed", failed, ("zero", "exclude"))
    if no_relevant == "error":
        for query_id, one in (relevance or {}).items():
            if not one:
                raise _nothing_relevant(query_id, one)


def _nothing_relevant(query_id: str, relevance: object) -> InvalidInput:
    return InvalidInput(
        f"relevance of query {query_id!r}",
        relevance,
        "a grade above 0",
        "Leave such queries out of the means with no_relevant='exclude'.",
    )


def _align(
    expected: Expected, retrieved: Retrieved
) -> tuple[list[str], list[RelevanceLike | None], list[Sequence[str]], dict[str, str]]:
    """Query ids, relevance and rankings in the same order, and the errors of failed queries."""
    relevance: list[RelevanceLike | None]
    given: list[Ranking | Sequence[str]]
    if isinstance(expected, Mapping) and isinstance(retrieved, Mapping):
        _check_query_ids(expected, retrieved)
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
        if len(relevance) != len(given):
            raise InvalidInput("retrieved", len(given), f"{len(relevance)} rankings, like expected")
        query_ids = list(map(str, range(len(relevance))))
    if Ranking not in set(map(type, given)):
        return query_ids, relevance, cast("list[Sequence[str]]", given), {}
    rankings = [one.ids if isinstance(one, Ranking) else one for one in given]
    errors = {
        query_id: one.error
        for query_id, one in zip(query_ids, given, strict=True)
        if isinstance(one, Ranking) and one.error is not None
    }
    return query_ids, relevance, rankings, errors


def _check_query_ids(expected: Mapping[str, object], retrieved: Mapping[str, object]) -> None:
    """Refuse ids that only the types part: 1 is never "1"."""
    if _kinds(expected) == _kinds(retrieved):
        return
    lonely = (expected.keys() - retrieved.keys(), retrieved.keys() - expected.keys())
    if all(lonely) and not _kinds(lonely[0]) & _kinds(lonely[1]):
        theirs, ours = (
            " or ".join(sorted({type(one).__name__ for one in side})) for side in lonely
        )
        wish = f"query ids of the same type as those of expected, which are {theirs}"
        raise InvalidInput("retrieved", ours, wish, "Convert one side, e.g. with str().")


def _kinds(ids: Iterable[object]) -> set[type]:
    types = set(map(type, ids))
    return {next((kind for kind in (str, Integral) if issubclass(one, kind)), one) for one in types}


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
            raise _nothing_relevant(query_ids[at], relevance[at])
    return excluded


def _notes(
    metrics: Sequence[RankingMetric], judged: JudgedRankings, kept: BoolArray, deepest: int | None
) -> list[str]:
    notes = []
    for min_grade in sorted({getattr(one, "min_grade", 0.0) for one in metrics} - {0.0}):
        below = kept & (judged.n_gaining > 0) & (judged.count_judgements(min_grade) == 0)
        if n := int(below.sum()):
            notes.append(
                f"{n} of {int(kept.sum())} queries have positive grades but none of at least "
                f"{min_grade:g}: metrics with min_grade={min_grade:g} score them 0"
            )
    if deepest is None:
        deepest = int(judged.depth.max(initial=0))
    beyond = sorted({k for one in metrics if (k := getattr(one, "k", None)) and k > deepest})
    if deepest and beyond:
        notes.append(
            f"no ranking is longer than {deepest}, so metrics at "
            f"{', '.join(map(str, beyond))} see no more either: a retriever's similarity_top_k may "
            "be too small"
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
    if given.match not in {None, BY_ID}:
        remedy = "A matcher needs what it compares: use evaluate(), or match_run() on a stored run."
        raise InvalidInput("metrics", given.metric_name, "metrics that compare ids", remedy)
    return given


def _one_of(argument: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InvalidInput(argument, value, " or ".join(map(repr, choices)))
