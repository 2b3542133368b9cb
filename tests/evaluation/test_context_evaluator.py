"""Tokens in an evaluation: counted, kept and shown; span metrics of any chunking."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceSplitter,
    TokenTextSplitter,
    get_leaf_nodes,
)
from llama_index.core.schema import BaseNode, Document, MetadataMode, NodeWithScore, TextNode

from llama_index_rag_metrics import RetrievalDataset, RetrieverEvaluator, compare, evaluate, metric
from llama_index_rag_metrics.rankings.matching.matched import costs_of
from llama_index_rag_metrics.rankings.relevance import Relevance
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


def test_cost_of_a_node_is_that_of_what_a_prompt_holds() -> None:
    words = Words()
    results = evaluate(retrieve, DATASET, ["recall@9tokens"], tokenizer=words)
    assert list(results.run["q1"].tokens or ()) == COSTS
    # within 9: a and b, so one of two each
    assert results.scores.means == {"recall@9tokens": 0.5}
    assert results.about["tokens by"] == "words"
    prompts = [hit.node.get_content(MetadataMode.LLM) for hit in NODES]
    assert sorted(words.texts) == sorted(prompts), "each distinct text is counted once"


def test_tokens_are_not_counted_where_nobody_asks() -> None:
    results = evaluate(retrieve, DATASET, ["recall@2"])
    assert results.run["q1"].tokens is None
    assert "tokens by" not in results.about


def test_journal_keeps_what_was_counted(tmp_path: Path) -> None:
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


def test_bare_id_without_a_text_is_no_text_of_no_length() -> None:
    with pytest.raises(InvalidInput, match=r"retrieved 'a'.*a text"):
        evaluate(lambda query: ["a"], DATASET, ["recall@9tokens"], tokenizer=str.split)


def test_matcher_spends_the_budget_on_whole_chunks() -> None:
    """Three chunks: the first covers both passages, the second only repeats one, the third is new.

    Costs 3, 3 and 2. So "Io" and "Titan" come with 3 tokens, and "Rhea" comes with 8, not with 5.
    """
    texts = {"n1": "Io. Titan. Both", "n2": "Titan. once more", "n3": "Rhea. icy"}
    chunks = [node(name, text) for name, text in texts.items()]
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
def test_chunks_that_fit_count(retrieved: list[tuple[list[str], int, int]], budget: int) -> None:
    """The oracle cuts the chunks first and flattens what is left."""
    cost = {own: own + tokens for _, tokens, own in reversed(retrieved)}
    stands_for = [items for items, _, _ in retrieved]
    own_ids = [str(own) for *_, own in retrieved]
    costs = costs_of(stands_for, own_ids, [cost[own] for *_, own in retrieved])
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


TWO = RetrievalDataset({"q1": "a", "q2": "b"}, {"q1": ["n1"], "q2": ["n2"]}, {"n1": "x", "n2": "y"})


def both_nodes(query: str) -> list[NodeWithScore]:
    nodes = [TextNode(id_="n1", text="one two three"), TextNode(id_="n2", text="four")]
    return [NodeWithScore(node=node) for node in nodes]


def first(query: str) -> list[NodeWithScore]:
    return both_nodes(query)[:1]


def test_beside_the_means_and_in_comparisons() -> None:
    options: dict[str, Any] = {"tokenizer": str.split}
    both = evaluate(both_nodes, TWO, ["mrr"], **options)
    results = evaluate(first, TWO, ["mrr"], **options)
    shown = " ".join(str(both).split())
    assert "system tokens a question" in shown
    assert " this run 4 " in f"{shown} "
    assert both.about["tokens by"] == "str.split"
    compared = compare({"both": both, "one": results}, "both").to_markdown()
    assert "tokens a question" in compared


TEXT = " ".join(f"Sentence number {n} tells of the moon number {n}." for n in range(60))
MOONS = RetrievalDataset(
    {"q": "which moon?"}, {"q": Relevance(spans=[("moons", 300, 420)])}, corpus={"moons": TEXT}
)
NAMES = ["span_recall", "span_precision", "span_f1", "span_iou", "span_recall@1"]


def oracle(places: list[tuple[int, int]]) -> dict[str, float]:
    """Every character is an element of a set."""
    wanted = set(range(300, 420))

    def covered(chosen: list[tuple[int, int]]) -> set[int]:
        return {position for start, end in chosen for position in range(start, end)}

    characters = covered(places)
    both = len(wanted & characters)
    return {
        "span_recall": both / len(wanted),
        "span_precision": both / len(characters),
        "span_f1": 2 * both / (len(wanted) + len(characters)),
        "span_iou": both / len(wanted | characters),
        "span_recall@1": len(wanted & covered(places[:1])) / len(wanted),
    }


def chunks(size: int, overlap: int) -> list[BaseNode]:
    splitter = SentenceSplitter(chunk_size=size, chunk_overlap=overlap)
    return splitter.get_nodes_from_documents([Document(id_="moons", text=TEXT)])


@pytest.mark.parametrize(("size", "overlap"), [(40, 0), (60, 20), (120, 30)])
def test_splitter_that_keeps_offsets(size: int, overlap: int) -> None:
    nodes = chunks(size, overlap)[1:6]
    results = evaluate(lambda query: nodes, MOONS, NAMES)
    places = [(node.start_char_idx, node.end_char_idx) for node in nodes]  # type: ignore[attr-defined]
    assert results.scores.means == pytest.approx(oracle(places), abs=1e-12)


def test_offsets_that_weren_t_kept_are_searched() -> None:
    nodes = chunks(60, 20)[1:6]
    places = [(node.start_char_idx, node.end_char_idx) for node in nodes]  # type: ignore[attr-defined]
    for node in nodes:
        node.start_char_idx = node.end_char_idx = None  # type: ignore[attr-defined]
    nodes[0].set_content("What the document doesn't have.")
    results = evaluate(lambda query: nodes, MOONS, NAMES[:4])
    expected = oracle(places[1:])
    assert results.scores.means == pytest.approx({name: expected[name] for name in NAMES[:4]})
    assert any("1 of 5 passages have no place" in note for note in results.scores.notes)


def test_nodes_cut_from_nodes() -> None:
    """A leaf counts from the beginning of its parent; two paragraphs apart, so that it matters."""
    parser = HierarchicalNodeParser.from_defaults(chunk_sizes=[200, 50], chunk_overlap=0)
    nodes = parser.get_nodes_from_documents([Document(id_="moons", text=TEXT)])
    leaves = get_leaf_nodes(nodes)
    wanted = [leaf for leaf in leaves if TEXT.find(leaf.get_content()) > len(TEXT) // 2][:2]
    start = TEXT.find(wanted[0].get_content())
    end = TEXT.find(wanted[1].get_content()) + len(wanted[1].get_content())
    labels = Relevance(spans=[("moons", start, end)])
    by_text = RetrievalDataset({"q": "?"}, {"q": labels}, corpus={"moons": TEXT})
    searched = evaluate(lambda query: wanted, by_text, NAMES[:1])
    # the blank between the two chunks belongs to neither
    expected = sum(len(leaf.get_content()) for leaf in wanted) / (end - start)
    assert searched.scores.means["span_recall"] == pytest.approx(expected)


def test_query_alone() -> None:
    by_tokens = RetrieverEvaluator.from_metric_names(["recall@25tokens"], retriever=retrieve)
    alone = by_tokens.evaluate("x?", ["a", "c"]).metric_vals_dict
    whole = by_tokens.evaluate_dataset(DATASET)
    assert alone == {"recall@25tokens": whole.scores.by_query("recall@25tokens")["q1"]}
    nodes = chunks(60, 20)[1:6]
    evaluator = RetrieverEvaluator.from_metric_names(NAMES, retriever=lambda query: nodes)
    scores = evaluator.evaluate("?", MOONS.relevance["q"]).metric_vals_dict
    assert scores == evaluate(lambda query: nodes, MOONS, NAMES).scores.means
    span = metric("span_recall").compute(
        expected_ids=MOONS.relevance["q"],
        retrieved_ids=["n"],
        retrieved_spans=[("moons", 300, 360)],
    )
    assert span.score == 0.5


def test_offsets_in_a_text_with_its_title_are_brought_to_the_document() -> None:
    """A node of a document with a title holds one line more than the document's text."""
    text = "Enceladus has geysers. " * 3 + "Triton is cold."
    start = text.index("Triton")
    label = Relevance(spans=[("moons", start, len(text))])
    dataset = RetrievalDataset({"q": "?"}, {"q": label}, {"moons": text}, titles={"moons": "M"})
    (whole,) = dataset.to_nodes()
    splitter = TokenTextSplitter(chunk_size=12, chunk_overlap=0)
    chunks = splitter.get_nodes_from_documents([Document(doc_id="moons", text=whole.text)])
    for nodes in ([whole], chunks):
        hits = [NodeWithScore(node=node, score=1.0) for node in nodes]
        results = evaluate(lambda query, hits=hits: hits, dataset, ["span_recall"])
        assert results.scores.means["span_recall"] == 1.0
        for span in results.run["q"].spans or ():
            assert span is None or span.end <= len(text)


def test_document_that_was_cut_counts_as_it_was_retrieved() -> None:
    label = Relevance(spans=[("moons", 100, 200)])
    dataset = RetrievalDataset({"q": "?"}, {"q": label}, {"moons": TEXT})
    names = ["span_recall", "span_precision"]
    # of characters 100 to 199 those from 138 on; another text is nowhere; an id is all of it
    for text, values in (
        (TEXT[138:219], [62 / 100, 62 / 81]),
        ("Rewritten by a model.", [0, 0]),
        ("", [1, 100 / len(TEXT)]),
    ):
        node = TextNode(id_="moons", text=text)
        results = evaluate(lambda query, node=node: [node], dataset, names)
        assert list(results.scores.means.values()) == pytest.approx(values)
        lost = any("1 of 1 passages have no place" in note for note in results.scores.notes)
        assert lost == (values == [0, 0])
