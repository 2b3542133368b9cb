"""Cutoffs by tokens: whole items in rank order, until the first that doesn't fit."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.frames import frame_of
from support.reference import distinct
from support.strategies import NAMES, Query, chosen, queries

from llama_index_rag_metrics import METRICS, Ranking, metric, score_rankings, score_table
from llama_index_rag_metrics.rankings.judging.arrow import judge_table
from llama_index_rag_metrics.rankings.judging.beside import TokenCounter
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.runtime.errors import InvalidInput

CUT = [name for name in NAMES if "tokens" in METRICS[name].parameters]

costs = st.integers(0, 9)


def fitting(query: Query, cost: dict[str, int], budget: int) -> list[str]:
    """The items that fit, one after another, by the definition."""
    items, spent = [], 0
    for item in distinct(query.ranking):
        spent += cost[item]
        if spent > budget:
            break
        items.append(item)
    return items


@pytest.mark.parametrize("name", CUT)
@given(data=st.data())
@examples(60)
def test_tokens_as_a_ranking_of_what_fits(name: str, data: st.DataObject) -> None:
    """The oracle, on a ranking that ends where the budget does."""
    drawn, budget = data.draw(chosen(name)), data.draw(st.integers(1, 60))
    parameters = {
        key: value for key, value in drawn.parameters.items() if key not in ("k", "ideal")
    }
    drawn = replace(drawn, parameters=parameters)
    batch = data.draw(st.lists(queries(), min_size=1, max_size=5))
    cost = data.draw(st.fixed_dictionaries({item: costs for q in batch for item in q.ranking}))
    judged = judge(
        [query.relevance for query in batch],
        [Ranking(query.ranking, tokens=[cost[item] for item in query.ranking]) for query in batch],
        ["tokens"],
    )
    scores = drawn.metric.model_copy(update={"tokens": budget}).score_queries(judged)
    cut = [Query(query.relevance, fitting(query, cost, budget)) for query in batch]
    expected = [drawn.oracle(query) for query in cut]
    assert scores.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-12)
    plenty = drawn.metric.model_copy(update={"tokens": 10**9}).score_queries(judged)
    assert plenty.tobytes() == drawn.metric.score_queries(judged).tobytes()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recall@5tokens", 1 / 3),  # a (3 tokens), b (2): c doesn't fit, d would, but comes behind
        ("precision@5tokens", 1 / 2),  # of the two that fit
        ("precision@2tokens", 0.0),  # none fits
        ("ndcg@5tokens", 1 / (1 + 0.630930)),  # the ideal of two items: 1 + 1/log2(3)
    ],
)
def test_tokens_by_hand(name: str, value: float) -> None:
    ranking = Ranking(["a", "b", "a", "c", "d"], tokens=[3, 2, 3, 4, 1])  # the copy costs nothing
    scores = score_rankings([["a", "c", "d"]], [ranking], name)
    assert scores[name].tolist() == pytest.approx([value], abs=1e-6)


def test_texts_are_counted_where_counts_are_missing() -> None:
    ranking = Ranking(["a", "b"], texts=["three words here", "two words"])
    by_texts = score_rankings([["a", "b"]], [ranking], "recall@4tokens", tokenizer=str.split)
    assert by_texts["recall@4tokens"].tolist() == [0.5]
    texts = ["three words here", "two words"]
    total = sum(TokenCounter().count(texts))
    for budget, recall in ((total, 1.0), (total - 1, 0.5)):
        chosen = metric(f"recall@{budget}tokens")
        assert chosen.compute("", ["a", "b"], ["a", "b"], None, texts).score == recall


@given(st.lists(queries().filter(lambda query: query.relevance.alternatives is None), max_size=6))
@examples(50)
def test_table_gives_what_lists_give(batch: list[Query]) -> None:
    tokens = [[len(item) for item in query.ranking] for query in batch]
    rankings = [
        Ranking(query.ranking, tokens=costs) for query, costs in zip(batch, tokens, strict=True)
    ]
    counted = pl.Series("retrieved_tokens", tokens, pl.List(pl.Int64))
    lists = judge([query.relevance for query in batch], rankings, ["tokens"]).tokens
    table = judge_table(frame_of(batch).with_columns(counted), ["tokens"]).tokens
    assert lists is not None
    assert table is not None
    assert table.tolist() == lists.tolist()


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([[1, 2]], "one for each of the 1 ids"),
        ([[-1]], "from 0 on"),
        ([[0.5]], "whole numbers"),
        ([[None]], "whole numbers"),
    ],
)
def test_counts_that_can_not_be(tokens: list[list[float]], message: str) -> None:
    table = pl.DataFrame({"retrieved_ids": [["a"]], "expected_ids": [["a"]]})
    table = table.with_columns(retrieved_tokens=pl.Series(tokens))
    with pytest.raises(InvalidInput, match=message):
        score_table(table, "recall@5tokens")


def test_tokens_that_are_unknown() -> None:
    with pytest.raises(InvalidInput, match=r"ranking of question '0'.*texts"):
        score_rankings([["a"]], [["a"]], "recall@5tokens")
    table = pl.DataFrame({"retrieved_ids": [["a"]], "expected_ids": [["a"]]})
    with pytest.raises(InvalidInput, match="a column retrieved_tokens"):
        score_table(table, "recall@5tokens")
    with pytest.raises(InvalidInput, match="the tokens or the texts of what was retrieved"):
        metric("recall@5tokens").compute("", ["a"], ["a"])
    with pytest.raises(InvalidInput, match="tokens can't be given with k=3"):
        metric("recall(tokens=5)@3")


@pytest.mark.parametrize("tokenizer", [5, "cl100k_base", str])
def test_tokenizer_that_is_missing(tokenizer: Any) -> None:
    with pytest.raises(InvalidInput, match="a function from a text to its tokens"):
        TokenCounter(tokenizer)


def test_texts_are_counted_once() -> None:
    asked: list[str] = []

    def tokenizer(text: str) -> list[str]:
        asked.append(text)
        return text.split()

    counter = TokenCounter(tokenizer)
    assert counter.count(["a b", "c", "a b"]) == counter.count(["a b", "c", "a b"]) == [2, 1, 2]
    assert asked == ["a b", "c"]
    assert counter.name.endswith("tokenizer")
