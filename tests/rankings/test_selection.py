"""Which retrieved items count: judging the shortened rankings gives the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_rag_metrics import Ranking, Relevance, score_rankings
from llama_index_rag_metrics.rankings.judging.judged import Selection
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.runtime.errors import InvalidInput

IDS = list("abcdefgh")
RANKINGS = st.lists(st.lists(st.sampled_from(IDS), unique=True, max_size=8), min_size=1, max_size=4)
GRADES = st.dictionaries(st.sampled_from(IDS), st.integers(-1, 3), min_size=1)
NAMES = ["ap", "ndcg", "precision", "bpref", "group_recall"]


@given(rankings=RANKINGS, data=st.data(), most=st.none() | st.integers(1, 8), judged=st.booleans())
def test_as_if_only_these_had_been_retrieved(
    rankings: list[list[str]], data: st.DataObject, most: int | None, judged: bool
) -> None:
    relevance = [Relevance(data.draw(GRADES)) for _ in rankings]
    if data.draw(st.booleans()):
        relevance[0] = Relevance(groups=[["a", "b"], ["b", "c"]])
    shortened = [
        [item for item in ranking[:most] if not judged or judgements.grades.get(item, -1) >= 0]
        for ranking, judgements in zip(rankings, relevance, strict=True)
    ]
    theirs = score_rankings(relevance, shortened, NAMES, no_relevant="zero")
    ours = score_rankings(
        relevance, rankings, NAMES, no_relevant="zero", max_retrieved=most, judged_only=judged
    )
    assert ours.per_query == theirs.per_query


def test_tokens_go_with_their_items() -> None:
    # a, x, b have 1, 2, 3 tokens, and y has 4; x isn't judged
    rankings = [Ranking(["a", "x", "b"], tokens=[1, 2, 3]), Ranking(["y"], tokens=[4])]
    judged = judge([{"a": 1, "b": 0}, {"y": 1}], rankings, ["tokens"])

    def tokens(selection: Selection) -> list[int]:
        counts = selection.of(judged).tokens
        assert counts is not None
        return [*map(int, counts)]

    assert tokens(Selection(judged_only=True)) == [1, 3, 4]
    assert tokens(Selection(max_retrieved=2)) == [1, 2, 4]
    assert np.array_equal(Selection(2, judged_only=True).of(judged).depth, [1, 1])


def test_at_least_one() -> None:
    with pytest.raises(InvalidInput, match="max_retrieved: expected at least 1, or None for all"):
        score_rankings([["a"]], [["a"]], "ap", max_retrieved=0)
