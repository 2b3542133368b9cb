"""What a model has to read, and what that costs, beside the means."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index_rag_metrics import Ranking, RetrievalDataset, Run, compare, evaluate
from llama_index_rag_metrics.runtime.errors import InvalidInput

DATASET = RetrievalDataset(
    {"q1": "a", "q2": "b"}, {"q1": ["n1"], "q2": ["n2"]}, {"n1": "x", "n2": "y"}
)


def retrieve(query: str) -> list[NodeWithScore]:
    nodes = [TextNode(id_="n1", text="one two three"), TextNode(id_="n2", text="four")]
    return [NodeWithScore(node=node) for node in nodes]


def first(query: str) -> list[NodeWithScore]:
    return retrieve(query)[:1]


def test_tokens_of_a_run() -> None:
    # the copy of a costs nothing, the failed query isn't counted: (3 + 2 + 1) / 2
    run = Run(
        {
            "q1": Ranking(["a", "b", "a"], tokens=[3, 2, 3]),
            "q2": Ranking(["c"], tokens=[1]),
            "q3": Ranking(error="refused"),
        }
    )
    assert run.mean_tokens == 3
    assert Run({"q1": ["a"]}).mean_tokens is None
    assert Run({}).mean_tokens is None


def test_beside_the_means_and_in_comparisons() -> None:
    options: dict[str, Any] = {"tokenizer": str.split, "price_per_million": 500.0}
    both = evaluate(retrieve, DATASET, ["mrr"], **options)
    results = evaluate(first, DATASET, ["mrr"], **options)
    # 4 words a query: 1,000 queries read 4,000 of a million tokens at 500
    shown = " ".join(str(both).split())
    assert "tokens a question 4 price of 1,000 questions 2.0000" in shown
    assert both.about["tokens by"] == "str.split"
    compared = compare({"both": both, "one": results}, "both").to_markdown()
    assert "| tokens a question | 4 | 3 |" in compared
    assert "| price of 1,000 questions | 2.0000 | 1.5000 |" in compared


def test_nothing_is_counted_unasked() -> None:
    assert "tokens a question" not in str(evaluate(retrieve, DATASET, ["mrr"]))
    assert "price" not in str(evaluate(retrieve, DATASET, ["mrr", "tokens"], tokenizer=str.split))


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf"), "1"])
def test_what_is_no_price(price: Any) -> None:
    with pytest.raises(InvalidInput, match="a price from 0 on"):
        evaluate(retrieve, DATASET, ["mrr"], price_per_million=price)
