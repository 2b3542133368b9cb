"""Labels moved to new nodes: by place and by text, as groups, with grades, none dropped unsaid."""

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo, TextNode
from support.paths import SHARED

from llama_index_rag_metrics import Relevance, RetrievalDataset, Span, evaluate
from llama_index_rag_metrics.demo.retrievers import bm25
from llama_index_rag_metrics.labels import move_labels
from llama_index_rag_metrics.runtime.errors import InvalidInput

pytestmark = pytest.mark.servers

SPANS = SHARED / "data" / "spans"

TRITON = "Triton circles Neptune backwards, unlike the others. Its thin air is mostly nitrogen."
IO = "Hundreds of volcanoes cover Io, whose sulphur paints it yellow, orange and black."
FIRST, SECOND = TRITON[:53], TRITON[53:]


def moons(relevance: object, **parts: object) -> RetrievalDataset:
    return RetrievalDataset({"q": "Which?"}, {"q": relevance}, {"t": TRITON, "i": IO}, **parts)  # type: ignore[arg-type, dict-item]


class TestFates:
    def test_kept(self) -> None:
        moved = move_labels(moons(["t"]), {"t": TRITON, "x": "another text altogether"})
        assert moved.dataset.relevance == {"q": ["t"]}
        assert moved.counts == {"kept": 1, "moved": 0, "split": 0, "changed": 0, "lost": 0}

    def test_moved_into_a_longer_node(self) -> None:
        moved = move_labels(moons(["t"]), {"n": f"{IO} {TRITON}"})
        (move,) = moved.findings
        assert (move.kind, move.score, move.by) == ("moved", 1.0, "text")
        assert moved.dataset.relevance == {"q": ["n"]}

    def test_split_over_two_is_a_group_of_those_with_half_of_it(self) -> None:
        # 44 and 26 letters of 70: the first alone has the half that a label takes
        moved = move_labels(moons(["t"]), {"a": FIRST, "b": SECOND, "c": IO})
        (move,) = moved.findings
        assert (move.kind, move.score) == ("split", 1.0)
        assert move.new_ids == ("a",)
        assert moved.dataset.relevance["q"] == Relevance(["a"])

    def test_pieces_of_less_than_half_are_a_group_together(self) -> None:
        text = f"{TRITON} {IO}"
        dataset = RetrievalDataset({"q": "Which?"}, {"q": ["t"]}, {"t": text})
        moved = move_labels(dataset, {"a": text[:55], "b": text[55:110], "c": text[110:]})
        assert moved.findings[0].kind == "split"
        (group,) = moved.dataset.relevance["q"].alternatives or ()
        assert set(group) == {"a", "b", "c"}
        assert "1 of 1 labelled passage now in several" in moved.dataset.notes[0]

    def test_pieces_are_gathered_up_to_a_high_threshold(self) -> None:
        # 97 of 100 characters alone, and all of them together
        text = (f"{TRITON} {IO}" * 2)[:100]
        old, *new = (
            placed(*each)
            for each in [("t", text, 0, 100), ("a", text, 0, 97), ("b", text, 60, 100)]
        )
        dataset = RetrievalDataset(
            {"q": "Which?"}, {"q": ["t"]}, {"t": text}, document_metadata=places_of([old])
        )
        (move,) = move_labels(dataset, new, threshold=1).findings
        assert (move.kind, set(move.new_ids)) == ("moved", {"a", "b"})

    def test_changed(self) -> None:
        moved = move_labels(moons(["t"]), {"n": TRITON.replace("mostly nitrogen", "cold")})
        assert [move.kind for move in moved.findings] == ["changed"]
        assert moved.dataset.relevance == {"q": ["n"]}
        assert any("edited since" in note for note in moved.dataset.notes)

    @pytest.mark.parametrize(
        "text", ["The key is kept at the desk.", "Glazes are mixed on Tuesdays."]
    )
    def test_short_text_with_one_edit_is_changed(self, text: str) -> None:
        # each word in turn: neither of the two parts that are left need be half of the text
        words = text.split()
        for n in range(len(words)):
            edited = " ".join([*words[:n], "xyz", *words[n + 1 :]])
            dataset = RetrievalDataset({"q": "Which?"}, {"q": ["k"]}, {"k": text})
            (move,) = move_labels(dataset, {"k": edited, "t": TRITON}).findings
            assert (move.kind, list(move.new_ids)) == ("changed", ["k"]), edited

    @pytest.mark.parametrize(
        ("text", "other"),
        [
            ("The key is at the desk.", "Glazes are mixed on Tuesdays."),
            ("Returns are accepted within 30 days.", "Refunds are paid within 14 days."),
            ("The contract ends on 31 December.", "The contract starts on 1 January."),
        ],
    )
    def test_text_as_short_under_the_same_id_is_lost(self, text: str, other: str) -> None:
        dataset = RetrievalDataset({"q": "Which?"}, {"q": ["k"]}, {"k": text})
        (move,) = move_labels(dataset, {"k": other}).findings
        assert move.kind == "lost"

    @pytest.mark.parametrize("n", range(3, 30))
    def test_short_text_is_found_whole(self, n: int) -> None:
        dataset = RetrievalDataset({"q": "Which?"}, {"q": ["t"]}, {"t": TRITON[-n:]})
        for new in (TRITON[-n:], f"{TRITON} {IO}"):
            moved = move_labels(dataset, {"i": IO, "n": new})
            assert moved.dataset.relevance == {"q": ["n"]}

    def test_lost_label_is_counted_in_a_note(self) -> None:
        moved = move_labels(moons(["t", "i"]), {"n": IO, "near": IO[:-3]})  # of "i" without its end
        assert [(move.id, move.kind) for move in moved.findings] == [("t", "lost"), ("i", "moved")]
        assert moved.dataset.relevance == {"q": ["n"]}
        assert "1 of 2 labelled passages lost, of 1 question" in moved.dataset.notes[0]
        assert "'t' is gone" in str(moved)
        # nobody says that nothing answers a question whose labels are lost: it has none
        dataset = moons(["t"])
        dataset.relevance["none"], dataset.queries["none"] = Relevance(), "Nothing?"
        assert move_labels(dataset, {"n": IO}).dataset.relevance == {"none": []}


def test_part_that_is_labelled_decides_where_its_label_goes() -> None:
    relevance = Relevance(["t"], spans={"t": ("t", TRITON.index("Its"), len(TRITON))})
    moved = move_labels(moons(relevance), {"a": FIRST, "b": SECOND})
    assert moved.dataset.relevance == {"q": ["b"]}


def placed(node_id: str, document: str, start: int, end: int) -> TextNode:
    source = RelatedNodeInfo(node_id="handbook")
    return TextNode(
        id_=node_id,
        text=document[start:end],
        start_char_idx=start,
        end_char_idx=end,
        relationships={NodeRelationship.SOURCE: source},
    )


def places_of(nodes: Sequence[Any]) -> dict[str, dict[str, Any]]:
    return {
        node.node_id: {
            "ref_doc_id": node.ref_doc_id,
            "start_char_idx": node.start_char_idx,
            "end_char_idx": node.end_char_idx,
        }
        for node in nodes
    }


class TestRelevance:
    def test_grades_are_kept_and_the_best_one_counts(self) -> None:
        graded = Relevance({"t": 3, "i": 1, "x": 0})
        dataset = RetrievalDataset(
            {"q": "Which?"}, {"q": graded}, {"t": TRITON, "i": IO, "x": "Nothing of that kind here"}
        )
        together = move_labels(dataset, {"n": f"{TRITON} {IO}", "m": "Nothing of that kind here."})
        assert together.dataset.relevance["q"].grades == {"n": 3, "m": 0}
        assert together.dataset.relevance["q"].alternatives == (("n",), ("n",))

    def test_facet_that_nothing_supplied_stays(self) -> None:
        facets = Relevance(facets={"where": ["t"], "what": []})
        moved = move_labels(moons(facets), {"n1": TRITON, "n2": IO})
        assert moved.dataset.relevance["q"] == Relevance(facets={"where": ["n1"], "what": []})

    def test_facets_stay_facets(self) -> None:
        facets = Relevance(facets={"where": ["t"], "what": ["t", "i"]}, weights={"what": 2})
        moved = move_labels(moons(facets), {"n1": TRITON, "n2": IO})
        assert moved.dataset.relevance["q"] == Relevance(
            facets={"where": ["n1"], "what": ["n1", "n2"]}, weights={"what": 2}
        )

    def test_unjudged_questions_stay_unjudged(self) -> None:
        dataset = RetrievalDataset({"q": "a?", "r": "b?"}, {"q": []}, {"t": TRITON})
        assert move_labels(dataset, {"n": TRITON}).dataset.relevance == {"q": []}

    def test_labels_known_by_text_alone_get_ids(self) -> None:
        dataset = RetrievalDataset({"q": "Which?"}, expected_texts={"q": [TRITON]})
        moved = move_labels(dataset, {"n": f"{TRITON} {IO}"})
        assert moved.dataset.relevance == {"q": ["n"]}

    def test_result_is_a_dataset_like_any_other(self, tmp_path: Path) -> None:
        halves = {"a": f"{TRITON[:40]}", "b": TRITON[40:], "c": IO}
        moved = move_labels(moons(Relevance({"t": 2, "i": 1})), halves).dataset
        moved.save(tmp_path / "moved.json")
        again = RetrievalDataset.load(tmp_path / "moved.json")
        assert again.relevance == moved.relevance
        assert again.corpus == moved.corpus


def pieces(text: str) -> list[BaseNode]:
    """The text in nodes that say where they are."""
    splitter = SentenceSplitter(chunk_size=25, chunk_overlap=0)
    nodes = splitter.get_nodes_from_documents([Document(id_="d", text=text)])
    starts = [node.start_char_idx for node in nodes]  # type: ignore[attr-defined]
    if starts != sorted(set(starts)):
        pytest.skip("this core places a piece that is repeated at its first copy")
    return nodes


class TestPlaces:
    DOCUMENT = f"{IO} {TRITON} {IO}"

    @pytest.mark.parametrize(
        ("above", "by"), [("", "place"), ("Somebody wrote a new first paragraph. ", "text")]
    )
    def test_nearest_copy_of_a_text_is_labelled_and_no_other(self, above: str, by: str) -> None:
        nodes = pieces(above + self.DOCUMENT)
        last = len(self.DOCUMENT) - len(IO)
        relevance = Relevance(spans=[("d", last, len(self.DOCUMENT))])
        dataset = RetrievalDataset({"q": "Which?"}, {"q": relevance}, {"d": self.DOCUMENT})
        moved = move_labels(dataset, nodes)
        placed = {node.node_id: node.start_char_idx for node in nodes}  # type: ignore[attr-defined]
        assert all(placed[item] >= last for item in moved.dataset.relevance["q"])
        assert {move.by for move in moved.findings} == {by}

    def test_metadata_have_the_places_of_labels(self) -> None:
        document = Document(id_="d", text=self.DOCUMENT)
        old = SentenceSplitter(chunk_size=40, chunk_overlap=0).get_nodes_from_documents([document])
        new = SentenceSplitter(chunk_size=25, chunk_overlap=0).get_nodes_from_documents([document])
        texts = {node.node_id: node.get_content() for node in old}
        dataset = RetrievalDataset(
            {"q": "Which?"}, {"q": [old[-1].node_id]}, texts, document_metadata=places_of(old)
        )
        moved = move_labels(dataset, new)
        assert {move.by for move in moved.findings} == {"place"}
        assert new[-1].node_id in moved.dataset.relevance["q"]
        again = move_labels(moved.dataset, old)
        assert old[-1].node_id in again.dataset.relevance["q"]


@pytest.mark.parametrize("threshold", [0, 1.5, True])
def test_thresholds_out_of_range(threshold: float) -> None:
    with pytest.raises(InvalidInput, match="threshold"):
        move_labels(moons(["t"]), {"t": TRITON}, threshold=threshold)


def spans_dataset() -> RetrievalDataset:
    corpus = {path.stem: path.read_text() for path in sorted((SPANS / "corpora").glob("*.md"))}
    questions, relevance = {}, {}
    with (SPANS / "questions.csv").open(newline="") as file:
        for n, row in enumerate(csv.DictReader(file)):
            questions[f"q{n}"] = row["question"]
            relevance[f"q{n}"] = Relevance(
                spans=(
                    (row["corpus_id"], reference["start_index"], reference["end_index"])
                    for reference in json.loads(row["references"])
                )
            )
    return RetrievalDataset(questions, relevance, corpus)


BY_NODE = ["hit_rate@10", "mrr@10", "group_recall@10"]
"""Which of the nodes count, and where the first of them is: these agree by the ids alone. The other
metrics count nodes there, and labels with a matcher."""


@pytest.mark.slow
@pytest.mark.skipif(not SPANS.is_dir(), reason="the passages of shared/data/spans aren't here")
@pytest.mark.parametrize("edited", [False, True])
def test_scores_by_new_ids_are_those_of_the_span_matcher(edited: bool) -> None:
    dataset = spans_dataset()
    by_query = [relevance.spans or {} for relevance in dataset.relevance.values()]
    spans = {item: span for of_query in by_query for item, span in of_query.items()}
    texts = dict(dataset.corpus)
    if edited:
        spans, texts = with_new_sentences(spans, texts)
    splitter = SentenceSplitter(chunk_size=200, chunk_overlap=20)
    nodes = splitter.get_nodes_from_documents([Document(id_=d, text=t) for d, t in texts.items()])
    moved = move_labels(dataset, nodes)
    retriever = bm25(nodes, 10)
    placed = {key: Relevance(labels, spans=spans) for key, labels in dataset.relevance.items()}
    by_place = evaluate(
        retriever, RetrievalDataset(dataset.queries, placed), metrics=BY_NODE, matcher="span"
    )
    by_id = evaluate(retriever, moved.dataset, metrics=BY_NODE)
    assert moved.counts["lost"] == 0
    assert moved.counts["changed"] <= 0.01 * len(moved.findings)
    for name in BY_NODE:
        by_span = by_place.scores.means[name]
        assert by_id.scores.means[name] == pytest.approx(by_span, abs=0.01), name


def with_new_sentences(
    spans: dict[str, Span], texts: dict[str, str]
) -> tuple[dict[str, Span], dict[str, str]]:
    """The texts with twenty sentences put in between the passages, and where these are then."""
    chance = random.Random(16)
    new_spans, new_texts = {}, {}
    for source, text in texts.items():
        own = {item: span for item, span in spans.items() if span.source == source}
        cuts = sorted(chance.sample(range(len(text)), 20), reverse=True)
        cuts = [
            cut
            for cut in cuts
            if not any(span.start - 5 < cut < span.end + 5 for span in own.values())
        ]
        added = {
            cut: f" Nobody had written sentence {cut} before it was put in here. " for cut in cuts
        }
        new_texts[source] = text
        for cut, sentence in added.items():
            new_texts[source] = new_texts[source][:cut] + sentence + new_texts[source][cut:]
        for item, span in own.items():
            shift = sum(len(sentence) for cut, sentence in added.items() if cut <= span.start)
            new_spans[item] = Span(source, span.start + shift, span.end + shift)
    return new_spans, new_texts


def test_lost_label_shows_its_old_text() -> None:
    dataset = RetrievalDataset({"q": "Who?"}, {"q": ["saw"]}, {"saw": "Members may use the saw."})
    moved = move_labels(dataset, {"x": "Something else."})
    assert [move.old_text for move in moved.of("lost")] == ["Members may use the saw."]
    assert "before: “Members may use the saw.”" in str(moved)
