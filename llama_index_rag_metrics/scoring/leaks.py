"""What is forbidden for each query, and the ids of what leaked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.judging import BoolArray, forbidden_ids
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
