"""Whether what was labelled was retrieved under other ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from llama_index_rag_metrics.evaluation.retrieved.run_matching import Matching, knows_texts
from llama_index_rag_metrics.matching import ContainmentMatcher
from llama_index_rag_metrics.run import Run
from llama_index_rag_metrics.running.sync import in_thread

if TYPE_CHECKING:
    from llama_index_rag_metrics.dataset import RetrievalDataset

_MOST_QUERIES = 500
"""Comparing texts takes about a millisecond a query; that many say what is the matter."""


async def count_by_text(dataset: RetrievalDataset, run: Run) -> tuple[int, int]:
    """How many expected passages are recognised by their texts, and of how many.

    A passage that several queries expect counts once. Of a long run, the first 500 queries count.
    """
    with_texts = (
        query_id
        for query_id in dataset.queries
        if run[query_id].texts and knows_texts(dataset, query_id)
    )
    asked = list(islice(with_texts, _MOST_QUERIES))
    if not asked:
        return 0, 0
    matching = Matching(ContainmentMatcher(), dataset.select(asked))
    for query_id in asked:
        await matching.match(query_id, run[query_id], in_thread)
    matched = matching.finish(run.select(asked))
    expected = _named(dataset, matched.relevance)
    named = _named(dataset, {query_id: ranking.ids for query_id, ranking in matched.run.items()})
    return len(expected & named), len(expected)


def _named(
    dataset: RetrievalDataset, ids: Mapping[str, Sequence[str]]
) -> set[str | tuple[str, str]]:
    """The ids of all queries; one that the dataset doesn't have means something else in each."""
    return {
        item if item in dataset.relevance.get(query_id, ()) else (query_id, item)
        for query_id, items in ids.items()
        for item in items
    }
