"""Tokens in an evaluation: what each node would cost in a prompt, counted and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from llama_index_rag_metrics import RetrievalDataset, RetrieverEvaluator, evaluate
from llama_index_rag_metrics.rankings.matching.matched import carry_costs
from llama_index_rag_metrics.runtime.errors import InvalidInput, JournalMismatch


class Words:
    """A tokenizer that counts its calls: a word is a token."""

    name = "words"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode(self, text: str) -> list[str]:
        self.texts.append(text)
        return text.split()


def node(item: str, text: str, **metadata: str) -> NodeWithScore:
    return NodeWithScore(node=TextNode(id_=item, text=text, metadata=metadata), score=1.0)


NODES = [
    node("a", "one two three", title="moons of Jupiter"),
    node("b", "four five"),
    node("c", "six seven eight nine"),
    node("d", "ten"),
]
# What a prompt holds of "a" begins with "title: moons of Jupiter": 4 words beside its own 3.
COSTS = [7, 2, 4, 1]
DATASET = RetrievalDataset({"q1": "x?", "q2": "y?"}, {"q1": ["a", "c"], "q2": ["b", "d"]})


def retrieve(query: str) -> list[NodeWithScore]:
    return NODES


def test_the_cost_of_a_node_is_that_of_what_a_prompt_holds() -> None:
    words = Words()
    results = evaluate(retrieve, DATASET, ["recall@9tokens"], tokenizer=words)
    assert list(results.run["q1"].tokens or ()) == COSTS
    # within 9: a and b, so one of two each
    assert results.scores.means == {"recall@9tokens": 0.5}
    assert results.about["tokens by"] == "words"
    prompts = [hit.node.get_content(MetadataMode.LLM) for hit in NODES]
    assert sorted(words.texts) == sorted(prompts), "each distinct text is counted once"


def test_nothing_is_counted_where_nobody_asks() -> None:
    results = evaluate(retrieve, DATASET, ["recall@2"])
    assert results.run["q1"].tokens is None
    assert "tokens by" not in results.about


def test_one_query_and_a_dataset_agree() -> None:
    evaluator = RetrieverEvaluator.from_metric_names(["recall@25tokens"], retriever=retrieve)
    alone = evaluator.evaluate("x?", ["a", "c"]).metric_vals_dict
    whole = evaluator.evaluate_dataset(DATASET)
    assert alone == {"recall@25tokens": whole.scores.by_query("recall@25tokens")["q1"]}


def test_a_journal_keeps_what_was_counted(tmp_path: Path) -> None:
    journal, words = tmp_path / "run.jsonl", Words()
    options: dict[str, Any] = {"journal": journal, "run": "fixed"}
    first = evaluate(retrieve, DATASET, ["recall@9tokens"], tokenizer=words, **options)
    rows = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert [row["retrieved_tokens"] for row in rows] == [COSTS, COSTS]
    n_counted = len(words.texts)
    again = evaluate(retrieve, DATASET, ["recall@9tokens"], tokenizer=words, **options)
    assert again.scores.means == first.scores.means
    assert len(words.texts) == n_counted, "what the journal holds isn't counted again"
    with pytest.raises(JournalMismatch, match="tokenizer"):
        evaluate(retrieve, DATASET, ["recall@9tokens"], tokenizer=str.split, **options)


def test_bare_ids_cost_what_the_corpus_says() -> None:
    corpus = {"a": "one two three", "b": "four five", "c": "six seven eight nine"}
    dataset = RetrievalDataset({"q": "x?"}, {"q": ["c"]}, corpus=corpus)
    metrics = ["recall@8tokens"]
    results = evaluate(lambda query: ["a", "b", "c"], dataset, metrics, tokenizer=str.split)
    assert list(results.run["q"].tokens or ()) == [3, 2, 4]
    assert results.scores.means == {"recall@8tokens": 0.0}


def test_a_bare_id_without_a_text_is_no_text_of_no_length() -> None:
    with pytest.raises(InvalidInput, match=r"retrieved 'a'.*a text"):
        evaluate(lambda query: ["a"], DATASET, ["recall@9tokens"], tokenizer=str.split)


def test_a_matcher_spends_the_budget_on_whole_chunks() -> None:
    """Three chunks: the first covers both passages, the second only repeats one, the third is new.

    Costs 3, 3 and 2. So "Io" and "Titan" come with 3 tokens, and "Rhea" comes with 8, not with 5.
    """
    chunks = [
        node("n1", "Io. Titan. Both"),
        node("n2", "Titan. once more"),
        node("n3", "Rhea. icy"),
    ]
    dataset = RetrievalDataset({"q": "?"}, expected_texts={"q": ["Io.", "Titan.", "Rhea."]})
    names = ["recall@2tokens", "recall@3tokens", "recall@7tokens", "recall@8tokens"]
    results = evaluate(lambda query: chunks, dataset, names, matcher="text", tokenizer=Words())
    assert list(results.scores.means.values()) == pytest.approx([0, 2 / 3, 2 / 3, 1])


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True),
            st.integers(0, 9),
            st.integers(0, 5),
        ),
        max_size=8,
    ),
    st.integers(0, 40),
)
def test_exactly_the_chunks_that_fit_count(
    retrieved: list[tuple[list[str], int, int]], budget: int
) -> None:
    """The oracle cuts the chunks first and flattens what is left."""
    cost = {own: own + tokens for _, tokens, own in reversed(retrieved)}
    stands_for = [items for items, _, _ in retrieved]
    own_ids = [str(own) for *_, own in retrieved]
    costs = carry_costs(stands_for, own_ids, [cost[own] for *_, own in retrieved])
    expected: list[str] = []
    spent, paid = 0, set()
    for items, _, own in retrieved:
        spent += 0 if own in paid else cost[own]
        paid.add(own)
        if spent > budget:
            break
        expected += items
    flat = [item for names in stands_for for item in names]
    first = {item: position for position, item in reversed(list(enumerate(flat)))}
    fitting = set()
    spent = 0
    for item, position in sorted(first.items(), key=lambda pair: pair[1]):
        spent += costs[position]
        if spent > budget:
            break
        fitting.add(item)
    assert fitting == set(expected)
