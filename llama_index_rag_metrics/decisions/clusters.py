"""What questions belong to: their conversations, or what a key of the metadata says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from llama_index_rag_metrics.files.conversations import conversations_of
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.arrays import IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.mappings import slice_of, unknown_key
from llama_index_rag_metrics.statistics.intervals import number_clusters


def clusters_of(
    key: str | None, query_ids: Sequence[str], metadata: Mapping[str, Mapping[str, Any]]
) -> IntArray | None:
    """(queries,) the number of each question's cluster, from 0; without a key, its conversation."""
    if key is None:
        conversations = conversations_of(query_ids, metadata)
        return None if conversations is None else number_clusters(conversations)
    if not isinstance(key, str):
        raise InvalidInput("clusters", key, "a key of the questions' metadata, a text")
    names = {query_id: slice_of(row[key]) for query_id, row in metadata.items() if key in row}
    if not names:
        raise unknown_key("clusters", key, metadata)
    missing = [query_id for query_id in query_ids if query_id not in names]
    if missing:
        expected = f"one for each of {len(query_ids)} questions"
        raise InvalidInput("clusters", f"none for {join_sorted(missing)}", expected)
    return number_clusters([names[query_id] for query_id in query_ids])


def clusters_in_words(key: str | None, numbers: IntArray) -> str:
    """How many questions there are in how many clusters.

    >>> clusters_in_words(None, np.array([0, 0, 1]))
    '3 questions in 2 conversations'
    """
    noun = "conversations" if key is None else "clusters"
    return f"{questions(len(numbers))} in {len(np.unique(numbers)):,} {noun}"


def join_sorted(query_ids: Iterable[str]) -> str:
    """The first ids in their order, as text."""
    return join_first(sorted(map(str, query_ids)))
