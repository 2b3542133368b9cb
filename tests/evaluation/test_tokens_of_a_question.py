"""How many tokens a model has to read, beside the means."""

from __future__ import annotations

from typing import Any

from llama_index.core.schema import NodeWithScore, TextNode

from llama_index_rag_metrics import Ranking, RetrievalDataset, Run, compare, evaluate

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
    options: dict[str, Any] = {"tokenizer": str.split}
    both = evaluate(retrieve, DATASET, ["mrr"], **options)
    results = evaluate(first, DATASET, ["mrr"], **options)
    shown = " ".join(str(both).split())
    assert "system tokens a question" in shown
    assert " score 4 " in shown
    assert both.about["tokens by"] == "str.split"
    compared = compare({"both": both, "one": results}, "both").to_markdown()
    assert "tokens a question" in compared
