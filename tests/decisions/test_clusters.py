"""Queries that belong together are taken as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compared import N, scores, three_systems
from support.intervals import width

from llama_index_rag_metrics import Scores, compare
from llama_index_rag_metrics.runtime.errors import InvalidInput


@pytest.fixture(scope="module")
def systems() -> dict[str, Scores]:
    return three_systems()


def documents_of(number_of: Callable[[int], int], n: int = N) -> dict[str, dict[str, Any]]:
    """The metadata of queries by the number of their document."""
    return {f"q{number}": {"document": number_of(number)} for number in range(n)}


class TestClusters:
    def test_a_key_of_the_metadata(self) -> None:
        metadata = documents_of(lambda number: number // 3)
        systems = {"a": scores(1, metadata=metadata), "b": scores(3, 0.05)}
        named = compare(systems, "a", clusters="document")
        assert "120 questions in 40 clusters" in named.notes[-1]
        assert named.clusters == "document"

    def test_copied_questions_are_no_evidence(self) -> None:
        # three copies of each of 40 questions
        rng = np.random.default_rng(6)
        base, changed = rng.random(40), rng.random(40) + 0.2
        ids = [f"q{number}" for number in range(120)]
        pair = {
            "a": Scores(
                ids, {"m": np.repeat(base, 3)}, metadata=documents_of(lambda number: number // 3)
            ),
            "b": Scores(ids, {"m": np.repeat(changed, 3)}),
        }
        # variances of the mean differ by a factor of 3, standard errors by 1.73
        naive = compare(pair, "a")["b", "m"]
        honest = compare(pair, "a", clusters="document")["b", "m"]
        assert naive.detectable is not None
        assert honest.detectable is not None
        assert naive.detectable < honest.detectable / 1.7
        assert width(honest) > 1.6 * width(naive)

    def test_it_is_clusters_that_are_too_few(self) -> None:
        metadata = documents_of(lambda number: number // 20)
        pair = {"a": scores(1, metadata=metadata), "b": scores(3, 0.001)}
        difference = compare(pair, "a", clusters="document")["b", "ndcg@10"]
        assert difference.detectable is None
        assert difference.verdict.startswith("b may be ")
        assert difference.verdict.endswith(" better than a on ndcg@10: 120 questions can't tell.")

    def test_every_query_needs_one(self, systems: dict[str, Scores]) -> None:
        one = {**systems, "bm25": systems["bm25"].replace(metadata={"q0": {"document": 1}})}
        with pytest.raises(InvalidInput, match="none for q1, q10, q100, q101, q102 and 114 more"):
            compare(one, "bm25", clusters="document")
        with pytest.raises(InvalidInput, match="a key of the questions' metadata"):
            compare(systems, "bm25", clusters="document")
