"""Scoring stored rankings: relevance and runs in, Scores out. No retriever is needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from numbers import Integral
from typing import Any, TypeAlias, cast

import numpy as np

from llama_index_rag_metrics.files.runs.read_runs import read_qrels, read_run
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.metrics.costs import CallMetric
from llama_index_rag_metrics.rankings.judging import Selection, forbidden_ids, judge, judge_calls
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.rankings.tokens import DocumentTokens, TokenCounter, Tokenizer
from llama_index_rag_metrics.runtime.arrays import BoolArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import shorten
from llama_index_rag_metrics.scores import Reason, Scores
from llama_index_rag_metrics.scores.mappings import lazy_digests
from llama_index_rag_metrics.scores.scoring.batches import (
    REASONS,
    Metrics,
    ScoredBatch,
    ranking_metrics,
    score_batch,
)
from llama_index_rag_metrics.scores.scoring.remarks import Sides
from llama_index_rag_metrics.scores.scoring.scoring_options import (
    Failed,
    NoRelevant,
    ScoringOptions,
    nothing_relevant,
)

ForbiddenIds: TypeAlias = "Mapping[str, Collection[str] | None] | Sequence[Collection[str] | None]"
"""Query id to the ids that its asker may not see, or one collection of ids a query."""


def forbidden_by_query(
    query_ids: Sequence[str],
    rankings: Sequence[Ranking | Sequence[str]],
    forbidden: ForbiddenIds | None,
) -> list[frozenset[str]] | None:
    """The forbidden ids of each query, given or marked in its ranking; None if nothing says so."""
    marks = [ranking.forbidden if isinstance(ranking, Ranking) else None for ranking in rankings]
    if forbidden is None and not any(mark is not None for mark in marks):
        return None
    by_query = _aligned(query_ids, forbidden or {})
    listed: list[frozenset[str]] = []
    for query_id, *sides in zip(query_ids, by_query, marks, strict=True):
        both = [forbidden_ids(query_id, ids or ()) for ids in sides]
        listed.append(both[0] | both[1])
    return listed


def unknown_notes(
    metrics: Sequence[RankingMetric],
    query_ids: Sequence[str],
    rankings: Sequence[Ranking | Sequence[str]],
    forbidden: Sequence[frozenset[str]] | None,
) -> list[str]:
    """Notes on retrieved items of which nobody knows whether the asker may see them."""
    if forbidden is None:
        return []
    pairs = zip(query_ids, rankings, forbidden, strict=True)
    unknown = [
        (query_id, item)
        for query_id, ranking, known in pairs
        if isinstance(ranking, Ranking)
        for item in dict.fromkeys(ranking.ids)
        if item in (ranking.forbidden_unknown or ()) and item not in known
    ]
    if not unknown:
        return []
    retrieved = sum(
        len(set(ranking.ids if isinstance(ranking, Ranking) else ranking)) for ranking in rankings
    )
    names = [metric.metric_name for metric in metrics if metric.needs_forbidden]
    query_id, item = unknown[0]
    return [
        f"{', '.join(names)}: {len(unknown):,} of {retrieved:,} retrieved passages are unknown and "
        "don't count as forbidden, since neither they nor their documents in the dataset have the "
        f"metadata key, such as {item!r} for {query_id!r}"
    ]


def details_of(
    rows: Sequence[dict[str, Any]],
    query_ids: Sequence[str],
    rankings: Sequence[Sequence[str]],
    has_value: BoolArray,
) -> dict[str, dict[str, Any]]:
    """The metric's details by query, with the ids at forbidden ranks."""
    queries = zip(query_ids, rows, rankings, has_value.tolist(), strict=True)
    return {query_id: _named(row, ids) for query_id, row, ids, has in queries if has and row}


def _named(row: dict[str, Any], ranking: Sequence[str]) -> dict[str, Any]:
    ranks = row.get("forbidden_ranks")
    if ranks is None:
        return row
    distinct = list(dict.fromkeys(ranking))
    return {**row, "forbidden_ids": [distinct[rank - 1] for rank in ranks]}


def _aligned(query_ids: Sequence[str], forbidden: ForbiddenIds) -> list[Collection[str] | None]:
    if isinstance(forbidden, Mapping):
        known = set(query_ids)
        unknown = [query_id for query_id in forbidden if query_id not in known]
        if unknown:
            raise InvalidInput("forbidden", unknown, "only ids of the queries that are scored")
        return [forbidden.get(query_id) for query_id in query_ids]
    listed = list(forbidden)
    if isinstance(forbidden, (str, bytes)) or len(listed) != len(query_ids):
        expected = f"{len(query_ids)} collections of ids, one a query, or {{query id: ids}}"
        raise InvalidInput("forbidden", forbidden, expected)
    return listed


Expected: TypeAlias = "Mapping[str, RelevanceLike | None] | Sequence[RelevanceLike | None]"
Retrieved: TypeAlias = "Mapping[str, Ranking | Sequence[str]] | Sequence[Ranking | Sequence[str]]"


def score_rankings(
    expected: Expected,
    retrieved: Retrieved,
    metrics: Metrics,
    *,
    no_relevant: NoRelevant = "exclude",
    failed: Failed = "zero",
    max_retrieved: int | None = None,
    judged_only: bool = False,
    queries: Mapping[str, str] | None = None,
    metadata: Mapping[str, Mapping[str, Any]] | None = None,
    name: str = "",
    tokenizer: Tokenizer | None = None,
    documents: Mapping[str, str] | None = None,
    forbidden: ForbiddenIds | None = None,
) -> Scores:
    """Score stored rankings.

    Args:
        expected: what is relevant: a sequence, or a mapping from query id, of ids, {id: grade},
            groups or `Relevance`; None where a query is unjudged.
        retrieved: the rankings, in the same shape: ranked ids, best first, or a `Run`. A judged
            query without a ranking counts as an empty one; a ranking without relevance as unjudged.
            Both may be ranx's, `Qrels` and `Run`.
        metrics: names, or metrics.
        no_relevant: what to do with a query that has judgements but nothing relevant: leave it out
            of the means and count it, score it 0, or raise.
        failed: whether a query on which the retriever failed scores 0 or is left out.
        max_retrieved: how many items of each ranking count, best first; None: all.
        judged_only: only items with a judgement count, and the ranks close up, as in Sakai's
            condensed lists: for judgements with holes.
        queries: query id to its text, for reports; by default those of the run.
        metadata: query id to its metadata, for slices.
        name: what to call the scored system in reports.
        tokenizer: counts the tokens of rankings that have texts but no token counts, for cutoffs by
            tokens, and those of documents; LlamaIndex's `get_tokenizer()` unless given.
        documents: document id to text, for span metrics with `unit=tokens`.
        forbidden: what the asker of a query may not see, for `leak`, `leaked` and
            `permitted_recall`: query id to ids, or one collection of ids per query. Nothing is
            forbidden for a query that is missing or None.

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
        ranking_metrics(metrics),
        expected,
        retrieved,
        ScoringOptions(no_relevant, failed, Selection(max_retrieved, judged_only), tokenizer),
        queries=queries,
        metadata=metadata,
        name=name,
        documents=documents,
        forbidden=forbidden,
        keep_digests=True,
    )


def score_with(
    metrics: Sequence[RankingMetric],
    expected: Expected,
    retrieved: Retrieved,
    options: ScoringOptions,
    *,
    queries: Mapping[str, str] | None = None,
    metadata: Mapping[str, Mapping[str, Any]] | None = None,
    name: str = "",
    deepest: int | None = None,
    documents: Mapping[str, str] | None = None,
    forbidden: ForbiddenIds | None = None,
    keep_digests: bool = False,
) -> Scores:
    """`score_rankings` with metrics that are ready, possibly none.

    Args:
        deepest: how much was retrieved at most, where the rankings don't say.
        keep_digests: whether the scores keep digests of the rankings, for the gate.
    """
    query_ids, relevance, aligned = _align(expected, retrieved)
    rankings = [ranking.ids if isinstance(ranking, Ranking) else ranking for ranking in aligned]
    errors = _errors(query_ids, aligned)
    needs = _needs(metrics, query_ids, aligned, options.tokenizer, documents, forbidden)
    try:
        judged = judge(relevance, rankings, **needs)
    except InvalidInput:
        if not options.tolerant or needs.get("ruler") is None:
            raise
        # a document whose text isn't known costs the metrics that need it, and no other
        judged = judge(relevance, rankings, **{**needs, "ruler": None})
    if any(isinstance(metric, CallMetric) for metric in metrics):
        judged = replace(judged, calls=judge_calls(relevance, aligned))
    scored = score_batch(
        judged,
        metrics,
        options,
        is_judged=_mask(query_ids, [judgements is not None for judgements in relevance]),
        is_failed=_mask(query_ids, map(errors.__contains__, query_ids)),
        sides=Sides(query_ids.__getitem__, lambda row: (relevance[row], rankings[row]))
        if options.checks_ids
        else None,
    )
    remarks = scored.remarks if deepest is None else replace(scored.remarks, deepest=deepest)
    scores = Scores(
        list(compress(query_ids, scored.is_scored)),
        {
            metric: column[scored.is_scored]
            for metric, column in scored.columns.items()
            if metric not in scored.own
        },
        excluded=_excluded(scored, query_ids, relevance, options.no_relevant),
        failed=errors,
        empty=list(compress(query_ids, scored.is_empty)),
        no_relevant=list(compress(query_ids, scored.has_no_relevant)),
        queries=getattr(retrieved, "queries", None) if queries is None else queries,
        metadata=metadata,
        details={
            metric: details_of(rows, query_ids, rankings, scored.has_value(metric))
            for metric, rows in scored.details.items()
        },
        name=name or str(getattr(retrieved, "name", None) or ""),
        rankings=lazy_digests(zip(query_ids, rankings, strict=True)) if keep_digests else None,
        notes=[
            *getattr(retrieved, "notes", ()),
            *(scored.counts.notes if metrics else ()),
            *remarks.notes(),
            *unknown_notes(metrics, query_ids, aligned, needs.get("forbidden")),
            *(f"{metric} has no value: {error}" for metric, error in scored.errors.items()),
        ],
    )
    if not scored.own:
        return scores
    further = {
        metric: dict(
            compress(zip(query_ids, scored.columns[metric].tolist(), strict=True), has_value)
        )
        for metric, has_value in scored.own.items()
    }
    return scores.join(further, order=list(scored.columns))


def _needs(
    metrics: Sequence[RankingMetric],
    query_ids: Sequence[str],
    rankings: Sequence[Ranking | Sequence[str]],
    tokenizer: Tokenizer | TokenCounter | None,
    documents: Mapping[str, str] | None,
    forbidden: ForbiddenIds | None,
) -> dict[str, Any]:
    """The arguments of `judge` that any of the metrics needs."""
    needs: dict[str, Any] = {}
    if any(metric.needs_tokens for metric in metrics):
        count = _counting(tokenizer)
        needs["tokens"] = [_tokens(*pair, count) for pair in zip(query_ids, rankings, strict=True)]
    if any(metric.needs_spans for metric in metrics):
        needs["spans"] = [_spans(*pair) for pair in zip(query_ids, rankings, strict=True)]
    if any(metric.needs_forbidden for metric in metrics):
        needs["forbidden"] = forbidden_by_query(query_ids, rankings, forbidden)
    if documents is not None and any(metric.needs_documents for metric in metrics):
        needs["ruler"] = DocumentTokens(documents, tokenizer)
    return needs


def _excluded(
    scored: ScoredBatch,
    query_ids: Sequence[str],
    relevance: Sequence[RelevanceLike | None],
    no_relevant: NoRelevant,
) -> dict[str, Reason]:
    """Query id to reason; no_relevant="error" raises for a query with nothing relevant."""
    positions = np.flatnonzero(~scored.is_scored).tolist()
    reasons = {position: cast(Reason, REASONS[scored.reason[position]]) for position in positions}
    if no_relevant == "error":
        for position, reason in reasons.items():
            if reason == "no_relevant":
                raise nothing_relevant(query_ids[position], relevance[position])
    return {query_ids[position]: reason for position, reason in reasons.items()}


def _mask(query_ids: Sequence[str], values: Iterable[bool]) -> BoolArray:
    return np.fromiter(values, np.bool_, len(query_ids))


def _align(
    expected: Expected, retrieved: Retrieved
) -> tuple[list[str], list[RelevanceLike | None], list[Ranking | Sequence[str]]]:
    """Query ids, relevance and rankings in the same order."""
    if _is_of_ranx(expected):
        expected = read_qrels(expected)
    if _is_of_ranx(retrieved):
        retrieved = read_run(retrieved)
    relevance: list[RelevanceLike | None]
    rankings: list[Ranking | Sequence[str]]
    if isinstance(expected, Mapping) and isinstance(retrieved, Mapping):
        _check_query_ids(expected, retrieved)
        query_ids = list(dict.fromkeys([*expected, *retrieved]))
        relevance = [expected.get(query_id) for query_id in query_ids]
        rankings = [retrieved.get(query_id, ()) for query_id in query_ids]
    elif isinstance(expected, Mapping) or isinstance(retrieved, Mapping):
        raise InvalidInput(
            "retrieved",
            type(retrieved).__name__,
            f"the same shape as expected, which is a {type(expected).__name__}",
            "Give both as mappings from query id, or both as sequences in the same order.",
        )
    else:
        relevance, rankings = list(expected), list(retrieved)
        if len(relevance) != len(rankings):
            remedy = ""
            if any(isinstance(item, str) for item in (*relevance, *rankings)):
                remedy = "Of one query, too, give lists of lists: [[id, …]]."
            raise InvalidInput(
                "retrieved",
                len(rankings),
                f"as many rankings as expected has, {len(relevance)}",
                remedy,
            )
        _check_labels(expected, retrieved)
        query_ids = list(map(str, range(len(relevance))))
    return query_ids, relevance, rankings


def _is_of_ranx(side: object) -> bool:
    """Whether this is ranx's Qrels or Run, which are no mappings and can't be iterated over."""
    return type(side).__module__.partition(".")[0] == "ranx" and hasattr(side, "to_dict")


def _check_labels(expected: object, retrieved: object) -> None:
    """Refuse columns of pandas that have labels in common, but at other places."""
    ours: Any
    theirs: Any
    ours, theirs = (getattr(column, "index", None) for column in (expected, retrieved))
    if not (hasattr(ours, "equals") and hasattr(theirs, "equals")) or ours.equals(theirs):
        return
    if not ours.isin(theirs).any():
        return
    remedy = (
        "Give mappings, paired by query id: expected.to_dict(), retrieved.to_dict(); or, where "
        "both have the same order, lists: expected.tolist(), retrieved.tolist()."
    )
    wanted = f"rows labelled like those of expected, {shorten(ours.tolist())}"
    raise InvalidInput("retrieved", theirs.tolist(), wanted, remedy)


def _errors(
    query_ids: Sequence[str], rankings: Sequence[Ranking | Sequence[str]]
) -> dict[str, str]:
    return {
        query_id: ranking.error
        for query_id, ranking in zip(query_ids, rankings, strict=True)
        if isinstance(ranking, Ranking) and ranking.error is not None
    }


def _tokens(
    query_id: str,
    ranking: Ranking | Sequence[str],
    count: Callable[[Sequence[str]], Sequence[int]],
) -> Sequence[int]:
    """The tokens of each retrieved item, counted where they aren't known."""
    tokens, texts = (getattr(ranking, name, None) for name in ("tokens", "texts"))
    ids = ranking.ids if isinstance(ranking, Ranking) else ranking
    if tokens is None and texts is None and len(ids):
        remedy = "Give Ranking(ids, tokens=...) or texts, or use a cutoff by rank, such as @10."
        wanted = "the tokens or the texts of what was retrieved"
        where = f"ranking of query {query_id!r}"
        raise InvalidInput(where, ids, wanted, remedy, lacks="tokens")
    return count(texts or ()) if tokens is None else tokens


def _counting(
    tokenizer: Tokenizer | TokenCounter | None,
) -> Callable[[Sequence[str]], Sequence[int]]:
    """A counter of tokens that loads LlamaIndex's tokenizer when it is needed."""
    counter: TokenCounter | None = None

    def count(texts: Sequence[str]) -> Sequence[int]:
        nonlocal counter
        if not texts:
            return ()
        counter = counter or TokenCounter.of(tokenizer)
        return counter.count(texts)

    return count


def _spans(query_id: str, ranking: Ranking | Sequence[str]) -> Sequence[Span | None]:
    ids = ranking.ids if isinstance(ranking, Ranking) else ranking
    spans = getattr(ranking, "spans", None)
    if spans is None and len(ids):
        wanted = "the spans of what was retrieved"
        remedy = "Give Ranking(ids, spans=...)."
        where = f"ranking of query {query_id!r}"
        raise InvalidInput(where, ids, wanted, remedy, lacks="spans")
    return spans or ()


def _check_query_ids(expected: Mapping[str, object], retrieved: Mapping[str, object]) -> None:
    """Refuse ids that only the types part: 1 is never "1"."""
    if _kinds(expected) == _kinds(retrieved):
        return
    lonely = (expected.keys() - retrieved.keys(), retrieved.keys() - expected.keys())
    if all(lonely) and not _kinds(lonely[0]) & _kinds(lonely[1]):
        theirs, ours = (
            " or ".join(sorted({type(query_id).__name__ for query_id in side})) for side in lonely
        )
        wanted = f"query ids of the same type as those of expected, which are {theirs}"
        raise InvalidInput("retrieved", ours, wanted, "Convert one side, e.g. with str().")


def _kinds(ids: Iterable[object]) -> set[type]:
    types = set(map(type, ids))
    return {
        next((kind for kind in (str, Integral) if issubclass(type_, kind)), type_)
        for type_ in types
    }
