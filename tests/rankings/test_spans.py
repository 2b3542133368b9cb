"""Matching by place: spans, the nodes that carry them, and core's AutoMergingRetriever."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document, StorageContext
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceSplitter,
    get_leaf_nodes,
    get_root_nodes,
)
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.storage.docstore import SimpleDocumentStore
from support.examples import examples
from support.retrievers import Scripted, node

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Span,
    evaluate,
    match_run,
)
from llama_index_rag_metrics.evaluation.passages import NodePlaces
from llama_index_rag_metrics.rankings.span import node_span
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning

SENTENCES = [
    f"Sentence number {number} is about the moon called {moon}."
    for number, moon in enumerate(["Io", "Europa", "Titan", "Rhea", "Dione", "Mimas", "Ariel"] * 4)
]
MOONS = Document(doc_id="moons", text=" ".join(SENTENCES))
SHELF = Document(doc_id="shelf", text="สวัสดี ดวงจันทร์ " + " ".join(SENTENCES[::-1]))


def splitter(chunk_size: int) -> SentenceSplitter:
    """Words as tokens, full stops as ends of sentences: nothing is fetched, whatever the core."""
    return SentenceSplitter(
        chunk_size=chunk_size,
        chunk_overlap=0,
        include_metadata=False,
        tokenizer=str.split,
        chunking_tokenizer_fn=lambda text: text.replace(". ", ". \0").split("\0"),
    )


def hierarchy(sizes: Iterable[int] = (80, 40, 20)) -> list[BaseNode]:
    parsers = {f"size {size}": splitter(size) for size in sizes}
    parser = HierarchicalNodeParser(node_parser_ids=list(parsers), node_parser_map=parsers)
    return parser.get_nodes_from_documents([MOONS, SHELF])


class TestNodes:
    def test_chunk_a_document_and_a_node_without_a_place(self) -> None:
        first, second, *_ = splitter(20).get_nodes_from_documents([MOONS])
        assert node_span(first) == Span("moons", 0, len(first.get_content()))
        assert node_span(second).start > len(first.get_content())  # type: ignore[union-attr]
        assert node_span(MOONS) == Span("moons", 0, len(MOONS.text))
        assert node_span(node("n", document="moons").node) is None

    def test_nodes_of_a_hierarchy_are_followed_to_the_document(self) -> None:
        nodes = hierarchy()
        texts = {"moons": MOONS.text, "shelf": SHELF.text}
        places = NodePlaces(nodes)
        assert {node_span(leaf).source for leaf in get_leaf_nodes(nodes)} & set(texts) == set()  # type: ignore[union-attr]
        for leaf in nodes:
            place = places.of_id(leaf.node_id)
            assert place is not None
            assert texts[place.source][place.start : place.end] == leaf.get_content()


class TestMatching:
    def match(self, wanted: Span, retrieved: list[Span | None]) -> list[list[str]]:
        labels = Relevance(["w"], spans={"w": wanted})
        dataset = RetrievalDataset({"q": "?"}, {"q": labels})
        ids = [f"n{number}" for number in range(len(retrieved))]
        return match_run(Run({"q": Ranking(ids, spans=retrieved)}), dataset, "span").stands_for["q"]

    def test_half_of_the_expected_span_decides(self) -> None:
        retrieved = [Span("a", 0, 150), Span("a", 0, 149), Span("b", 100, 200), Span("a", 100, 900)]
        found = self.match(Span("a", 100, 200), [*retrieved, None])
        assert found == [["w"], ["n1"], ["n2"], ["w"], ["n4"]]

    @given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=2, max_size=6))
    @examples(100)
    def test_characters_as_sets(self, edges: list[tuple[int, int]]) -> None:
        wanted, *retrieved = [Span("d", start, start + length) for start, length in edges]
        characters = set(range(wanted.start, wanted.end))
        shares = [
            len(characters & set(range(span.start, span.end))) / len(characters)
            for span in retrieved
        ]
        found = [names == ["w"] for names in self.match(wanted, [*retrieved])]
        assert found == [share >= 0.5 for share in shares]


class TestEvaluator:
    def dataset(self, **parts: Any) -> RetrievalDataset:
        return RetrievalDataset(queries={"q": "?"}, relevance={"q": ["p1", "p2"]}, **parts)

    def chunks(self) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=chunk) for chunk in splitter(30).get_nodes_from_documents([MOONS])
        ]

    def test_spans_of_the_labels(self) -> None:
        chunks = self.chunks()
        middle = node_span(chunks[1].node)
        spans = {"p1": ("moons", middle.start + 5, middle.start + 50), "p2": ("shelf", 0, 9)}  # type: ignore[union-attr]
        labels = Relevance(["p1", "p2"], spans=spans)
        dataset = RetrievalDataset({"q": "?"}, {"q": labels})
        results = evaluate(Scripted({"?": chunks}), dataset, ["mrr", "recall"], matcher="span")
        assert results.scores.means == {"mrr": 0.5, "recall": 0.5}
        matched = results.scores.retrieval.matched["mrr"]  # type: ignore[union-attr]
        assert matched.stands_for["q"][1] == ["p1"]
        assert list(results.run["q"].ids) == [chunk.node.node_id for chunk in chunks]
        assert results.run["q"].spans == [node_span(chunk.node) for chunk in chunks]

    def test_spans_of_the_dataset(self) -> None:
        place = {"ref_doc_id": "moons", "start_char_idx": 0, "end_char_idx": 40}
        dataset = self.dataset(
            corpus={"p1": SENTENCES[0], "p2": SENTENCES[1]}, document_metadata={"p1": place}
        )
        results = evaluate(Scripted({"?": self.chunks()}), dataset, ["recall"], matcher="span")
        assert results.scores.means["recall"] == 0.5
        said = "1 of 2 relevant passages have no span, so span can't find them"
        assert said in results.scores.notes

    def test_spans_that_nobody_has_are_an_error_before_anything_is_asked(self) -> None:
        retriever = Scripted({"?": self.chunks()})
        with pytest.raises(InvalidInput, match="Give labels that have places"):
            evaluate(retriever, self.dataset(), ["recall"], matcher="span")
        assert retriever.asked == []

    def test_spans_survive_the_journal(self, tmp_path: Path) -> None:
        retriever = Scripted({"?": [*self.chunks(), node("x", document="moons")]})
        spans = {"p1": ("moons", 0, 40), "p2": ("moons", 300, 340)}
        dataset = RetrievalDataset({"q": "?"}, {"q": Relevance(list(spans), spans=spans)})
        first, again = (
            evaluate(
                retriever, dataset, ["ndcg"], matcher="span", journal=tmp_path / "journal.jsonl"
            )
            for _ in range(2)
        )
        assert retriever.asked == ["?"]
        assert again.run == first.run
        assert again.run["q"].spans[-1] is None  # type: ignore[index]
        assert again.scores.means == first.scores.means


def test_auto_merging_scores_by_text_what_it_loses_by_id() -> None:
    nodes = hierarchy((80, 20))
    leaves = get_leaf_nodes(nodes)
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    # three leaves of one parent are retrieved, and the parent takes their place
    parent = get_root_nodes(nodes)[0]
    children = [child.node_id for child in parent.child_nodes]  # type: ignore[union-attr]
    retrieved = [
        NodeWithScore(node=leaf, score=1.0) for leaf in leaves if leaf.node_id in children[:3]
    ]
    assert len(retrieved) / len(children) > 0.5
    merging = AutoMergingRetriever(
        Scripted({"?": retrieved}),  # type: ignore[arg-type]
        StorageContext.from_defaults(docstore=docstore),
    )
    dataset = RetrievalDataset(
        queries={"q": "?"},
        relevance={"q": children[:2]},
        corpus={leaf.node_id: leaf.get_content() for leaf in leaves},
    )
    by_leaf = evaluate(Scripted({"?": retrieved}), dataset, ["recall"])
    assert by_leaf.scores.means["recall"] == 1
    with pytest.warns(LabelWarning, match="relevant passages came under other ids"):
        by_id = evaluate(merging, dataset, ["recall"])
    assert by_id.scores.means["recall"] == 0
    results = evaluate(merging, dataset, ["recall", "mrr", "precision"], matcher="text")
    assert list(results.run["q"].ids) == [parent.node_id]
    # the parent covers both leaves, at ranks 1 and 2
    assert results.scores.means == {"recall": 1, "mrr": 1, "precision": 1}
