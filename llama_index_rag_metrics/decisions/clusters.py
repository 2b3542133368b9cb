"""What queries belong to: their conversations, or what a key of the metadata says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.files.conversations import conversations_of
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.arrays import IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.mappings import slice_of, unknown_key
from llama_index_rag_metrics.statistics.intervals import number_clusters

if TYPE_CHECKING:
    from llama_index_rag_metrics.scores import Scores

Clusters: TypeAlias = str
"""A key of the queries' metadata."""


def clusters_of(
    clusters: Clusters | None, query_ids: Sequence[str], metadata: Mapping[str, Mapping[str, Any]]
) -> IntArray | None:
    """(queries,) the number of each query's cluster, from 0; unless given, its conversation."""
    if clusters is None:
        conversations = conversations_of(query_ids, metadata)
        return None if conversations is None else number_clusters(conversations)
    if not isinstance(clusters, str):
        raise InvalidInput("clusters", clusters, "a key of the questions' metadata, a text")
    of_query = {
        query_id: slice_of(row[clusters]) for query_id, row in metadata.items() if clusters in row
    }
    if not of_query:
        raise unknown_key("clusters", clusters, metadata)
    if missing := [query_id for query_id in query_ids if query_id not in of_query]:
        expected = f"one for each of {len(query_ids)} questions"
        raise InvalidInput("clusters", f"none for {join_sorted(missing)}", expected)
    return number_clusters([of_query[query_id] for query_id in query_ids])


def clusters_in_words(clusters: object, of_query: IntArray) -> str:
    """How many questions there are in how many clusters; conversations unless clusters are given.

    >>> clusters_in_words(None, np.array([0, 0, 1]))
    '3 questions in 2 conversations'
    """
    what = "conversations" if clusters is None else "clusters"
    return f"{questions(len(of_query))} in {len(np.unique(of_query)):,} {what}"


def merged_metadata(systems: Iterable[Scores]) -> dict[str, dict[str, Any]]:
    """Query id to its metadata, field by field: where systems differ, those of the first."""
    merged: dict[str, dict[str, Any]] = {}
    for scores in reversed([*systems]):
        for query_id, row in scores.metadata.items():
            merged[query_id] = {**merged.get(query_id, {}), **row}
    return merged


def join_sorted(query_ids: Iterable[str]) -> str:
    return join_first(sorted(map(str, query_ids)))
