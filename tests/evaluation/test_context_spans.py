"""Span metrics of an evaluation: real splitters, any chunking by the same labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceSplitter,
    TokenTextSplitter,
    get_leaf_nodes,
)
from llama_index.core.schema import BaseNode, Document, NodeWithScore, TextNode

from llama_index_rag_metrics import RetrievalDataset, evaluate, metric
from llama_index_rag_metrics.rankings.relevance import Relevance

TEXT = " ".join(f"Sentence number {n} tells of the moon number {n}." for n in range(60))
DATASET = RetrievalDataset(
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
def test_a_splitter_that_keeps_offsets(size: int, overlap: int) -> None:
    nodes = chunks(size, overlap)[1:6]
    results = evaluate(lambda query: nodes, DATASET, NAMES)
    places = [(node.start_char_idx, node.end_char_idx) for node in nodes]  # type: ignore[attr-defined]
    assert results.scores.means == pytest.approx(oracle(places), abs=1e-12)


def test_offsets_that_weren_t_kept_are_searched() -> None:
    nodes = chunks(60, 20)[1:6]
    places = [(node.start_char_idx, node.end_char_idx) for node in nodes]  # type: ignore[attr-defined]
    for node in nodes:
        node.start_char_idx = node.end_char_idx = None  # type: ignore[attr-defined]
    nodes[0].set_content("What the document doesn't have.")
    results = evaluate(lambda query: nodes, DATASET, NAMES[:4])
    expected = oracle(places[1:])
    assert results.scores.means == pytest.approx({name: expected[name] for name in NAMES[:4]})
    assert any("1 of 5 retrieved passages have no place" in note for note in results.scores.notes)


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


def test_one_query() -> None:
    from llama_index_rag_metrics import RetrieverEvaluator

    nodes = chunks(60, 20)[1:6]
    evaluator = RetrieverEvaluator.from_metric_names(NAMES, retriever=lambda query: nodes)
    scores = evaluator.evaluate("?", DATASET.relevance["q"]).metric_vals_dict
    assert scores == evaluate(lambda query: nodes, DATASET, NAMES).scores.means
    span = metric("span_recall").compute(
        expected_ids=DATASET.relevance["q"],
        retrieved_ids=["n"],
        retrieved_spans=[("moons", 300, 360)],
    )
    assert span.score == 0.5


def test_a_journal_keeps_places(tmp_path: Path) -> None:
    nodes = [TextNode(id_=chunk.node_id, text=chunk.get_content()) for chunk in chunks(60, 0)[:1]]
    options: dict[str, Any] = {"journal": tmp_path / "run.jsonl", "run": "fixed"}
    first = evaluate(lambda query: nodes, DATASET, ["span_recall"], **options)
    again = evaluate(lambda query: [], DATASET, ["span_recall"], **options)
    assert again.run == first.run


def test_offsets_in_a_text_with_its_title_are_brought_to_the_document() -> None:
    """A node of a document with a title holds one line more than the document's text."""
    text = "Enceladus has geysers. " * 3 + "Triton is cold."
    start = text.index("Triton")
    label = Relevance(spans=[("moons", start, len(text))])
    dataset = RetrievalDataset(
        {"q": "Triton"}, {"q": label}, {"moons": text}, titles={"moons": "M"}
    )
    (whole,) = dataset.to_nodes()
    splitter = TokenTextSplitter(chunk_size=12, chunk_overlap=0)
    chunks = splitter.get_nodes_from_documents([Document(doc_id="moons", text=whole.text)])
    for nodes in ([whole], chunks):
        hits = [NodeWithScore(node=node, score=1.0) for node in nodes]
        results = evaluate(lambda query, hits=hits: hits, dataset, ["span_recall"])
        assert results.scores.means["span_recall"] == 1.0
        for span in results.run["q"].spans or ():
            assert span is None or span.end <= len(text)


def test_of_a_document_that_was_cut_only_what_was_retrieved_counts() -> None:
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
        lost = any(
            "1 of 1 retrieved passages have no place" in note for note in results.scores.notes
        )
        assert lost == (values == [0, 0])
