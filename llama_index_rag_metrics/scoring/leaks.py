"""What is forbidden for each query, and the ids of what leaked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.judging import BoolArray, forbidden_ids
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.run import Ranking

ForbiddenIds: TypeAlias = "Mapping[str, Collection[str] | None] | Sequence[Collection[str] | None]"
"""Query id to the ids that its asker may not see, or one collection of ids a query."""


def forbidden_by_query(
    query_ids: Sequence[str],
    rankings: Sequence[Ranking | Sequence[str]],
    forbidden: ForbiddenIds | None,
) -> list[frozenset[str]] | None:
    """The forbidden ids of each query: those given, and those that its ranking marks.

    Returns:
        None where nobody says what is forbidden.

    Raises:
        InvalidInput: not one collection a query, or about a query that isn't there.
    """
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
    """Of how much that was retrieved nobody knows whether the asker may see it."""
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
    """What a metric says beside its scores, by query, with the ids at forbidden ranks."""
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
