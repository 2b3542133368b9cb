"""Whatever has no order is no ranking: a set's MRR would be another one in every process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llama_index_rag_metrics import (
    MRR,
    CohereRerankRelevancy,
    RetrievalDataset,
    Run,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.errors import InvalidInput

DATASET = RetrievalDataset({"q": "who?"}, {"q": ["b"]})
COHERE = CohereRerankRelevancy(api_key="key")

PLACES: dict[str, Callable[[Any], Any]] = {
    "compute": lambda ids: MRR().compute(expected_ids=["b"], retrieved_ids=ids),
    "text metric": lambda ids: COHERE.compute("who?", retrieved_texts=ids),
    "score_rankings": lambda ids: score_rankings({"q": ["b"]}, {"q": ids}, "mrr"),
    "Run": lambda ids: Run({"q": ids}),
    "Ranking": Ranking,
    "Ranking, scores": lambda ids: Ranking(["a", "b"], scores=ids),
    "evaluate": lambda ids: evaluate(lambda _: ids, DATASET, "mrr", raise_on_error=True),
}
each_place = pytest.mark.parametrize("rank", PLACES.values(), ids=PLACES)


@each_place
@pytest.mark.parametrize(
    "unordered", [{"a", "b"}, frozenset("ab"), {"a": 1, "b": 2}, {"a": 1, "b": 2}.items() | set()]
)
def test_what_has_no_order_is_refused(rank: Callable[[Any], Any], unordered: Any) -> None:
    with pytest.raises(Exception, match=r"best first|a list of (nodes|texts)"):
        rank(unordered)


def test_scores_by_document_are_read_by_another_function() -> None:
    with pytest.raises(InvalidInput, match="read_run"):
        Run({"q": {"a": 0.1, "b": 0.9}})  # type: ignore[dict-item]
