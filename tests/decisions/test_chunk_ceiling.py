"""The ceiling of a chunking: every selection tried, Chroma's table, and where chunks are."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter
from support.chunkers import CHUNKERS, node_of, placed_as_chroma_does
from support.examples import examples
from support.paths import SHARED
from support.spans import characters

from llama_index_rag_metrics import Relevance, RetrievalDataset, Span, SpanMatcher, chunk_ceiling
from llama_index_rag_metrics.runtime.errors import InvalidInput

SPANS = SHARED / "data" / "spans"

TEXTS = {
    source: "".join(chr(ord(first) + place % 5) for place in range(40))
    for source, first in {"a": "a", "b": "n"}.items()
}

places = st.builds(
    lambda source, start, length: Span(source, start, start + length),
    st.sampled_from("ab"),
    st.integers(0, 28),
    st.integers(1, 12),
)


def letters(text: str) -> list[str]:
    return [*text]


def selections(chunks: Sequence[Span]) -> Iterator[tuple[Span, ...]]:
    sizes = range(len(chunks) + 1)
    return chain.from_iterable(combinations(chunks, size) for size in sizes)


@given(
    wanted=st.lists(places, min_size=1, max_size=3, unique=True),
    chunks=st.lists(places, min_size=1, max_size=7, unique=True),
)
@examples(200)
def test_no_selection_is_better(wanted: list[Span], chunks: list[Span]) -> None:
    """All selections, as sets of characters. A token is a character here."""
    dataset = RetrievalDataset({"q": "?"}, {"q": Relevance.of_spans(wanted)}, TEXTS)
    nodes = [
        node_of(source, TEXTS[source][start:end], str(number), start)
        for number, (source, start, end) in enumerate(chunks)
    ]
    ceiling = chunk_ceiling(dataset, nodes, tokenizer=letters)
    needed, held = characters(wanted), characters(chunks)
    best, fewest = 0.0, float("inf")
    for selected in selections(chunks):
        taken = characters([*selected])
        best = max(best, len(taken & needed) / len(taken | needed))
        if taken & needed == held & needed:
            fewest = min(fewest, sum(chunk.end - chunk.start for chunk in selected))
    touching = [
        chunk
        for chunk in chunks
        if any(
            chunk.source == span.source and chunk.start <= span.end and span.start <= chunk.end
            for span in wanted
        )
    ]
    omega = len(characters(touching) & needed) / len(characters(touching) | needed)
    found = {name: float(ceiling.scores.columns[name][0]) for name in ceiling.scores}
    assert found["span_iou"] == pytest.approx(best, abs=1e-12)
    assert found["precision_omega"] == pytest.approx(omega, abs=1e-12)
    assert found["span_recall"] == pytest.approx(len(held & needed) / len(needed), abs=1e-12)
    if held & needed:
        assert found["tokens"] == fewest
    else:
        assert np.isnan(found["tokens"])
    for reference, span in zip(ceiling.references, wanted, strict=True):
        own = characters([span])
        whole = max(len(own & characters([chunk])) for chunk in chunks)
        assert (reference.place, reference.whole) == (span, whole)
        assert reference.together == len(own & held)
        assert reference.is_cut == (whole < len(own & held))


def chroma() -> RetrievalDataset:
    corpus = {path.stem: path.read_text("utf-8") for path in (SPANS / "corpora").glob("*.md")}
    queries, relevance = {}, {}
    with (SPANS / "questions.csv").open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file)):
            queries[f"q{number}"] = row["question"]
            relevance[f"q{number}"] = Relevance.of_spans(
                (row["corpus_id"], reference["start_index"], reference["end_index"])
                for reference in json.loads(row["references"])
            )
    return RetrievalDataset(queries, relevance, corpus)


@pytest.mark.skipif(not SPANS.is_dir(), reason="Chroma's texts, shared/data/spans, aren't here")
@pytest.mark.parametrize(
    ("chunker", "size", "overlap", "published"),
    [
        ("Recursive", 800, 400, "6.7 ± 5.2"),
        ("Token", 800, 400, "4.7 ± 3.1"),
        ("Recursive", 400, 200, "13.9 ± 10.4"),
        ("Token", 400, 200, "8.4 ± 5.1"),
        ("Recursive", 400, 0, "17.7 ± 14.0"),
        ("Token", 400, 0, "12.5 ± 8.1"),
        ("Recursive", 200, 0, "29.9 ± 18.4"),
        ("Token", 200, 0, "21.0 ± 11.9"),
    ],
)
def test_precision_omega_as_published(
    chunker: str, size: int, overlap: int, published: str
) -> None:
    """Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval", Chroma, 2024.

    Chunks are where Chroma's code takes them to be: at the first place of their text.
    """
    dataset = chroma()
    nodes = [
        node
        for document, text in dataset.corpus.items()
        for node in placed_as_chroma_does(document, text, CHUNKERS[chunker](text, size, overlap))
    ]
    ceiling = chunk_ceiling(dataset, nodes)
    omega = 100 * ceiling.scores["precision_omega"]
    assert f"{omega.mean():.1f} ± {omega.std():.1f}" == published
    best = ceiling.scores["span_iou"]
    assert (best >= ceiling.scores["precision_omega"] - 1e-12).all()
    assert ceiling.n_chunks == len(nodes)


MOONS = "Enceladus has geysers. Page 1. Triton circles Neptune backwards. Page 2."
GEYSERS, SECOND_PAGE = Span("moons", 0, 22), Span("moons", 65, 72)


def of_moons(*wanted: Span, corpus: str = MOONS) -> RetrievalDataset:
    return RetrievalDataset({"q": "?"}, {"q": Relevance.of_spans(wanted)}, {"moons": corpus})


def test_texts_without_places_are_found_in_order() -> None:
    """Of a text that is there twice, the second chunk is its second occurrence."""
    dataset = of_moons(GEYSERS, Span("moons", 31, 38), corpus=MOONS.replace("2.", "1."))
    parts = ["Enceladus has geysers.", "Page 1.", "Triton circles Neptune backwards.", "Page 1."]
    nodes = [node_of("moons", part, str(number)) for number, part in enumerate(parts)]
    assert chunk_ceiling(dataset, nodes).overlap == 0
    # without the name of their document, and with their offsets
    named = {str(number): part for number, part in enumerate(parts)}
    placed = [
        node_of("moons", part, str(number), start)
        for number, (part, start) in enumerate(zip(parts, (0, 23, 31, 65), strict=True))
    ]
    for chunks in (nodes, named, placed):
        ceiling = chunk_ceiling(dataset, chunks, tokenizer=str.split)
        assert ceiling.n_chunks == 4
        # 22 characters of chunk 0, and 7 of the 33 of chunk 2
        assert ceiling.scores["span_iou"] == pytest.approx(max(22 / 29, 29 / 55))
        assert ceiling.scores["tokens"] == pytest.approx(3 + 4)
    label = chunk_ceiling(of_moons(Span("moons", 65, 72), corpus=dataset.corpus["moons"]), nodes)
    assert label.scores["span_iou"] == 1.0


@pytest.mark.parametrize("named", [True, False])
def test_a_text_that_another_chunk_has_is_found_behind_it(named: bool) -> None:
    """The first "Page 1." is in the first chunk; the second one is a chunk."""
    text, parts = "Page 1. On moons. Page 1. Io.", ["Page 1. On moons.", "Page 1.", "Io."]
    dataset = of_moons(Span("moons", 18, 25), corpus=text)
    nodes = [node_of("moons" if named else "?", part, part) for part in parts]
    ceiling = chunk_ceiling(dataset, nodes)
    assert (ceiling.n_unlocated, ceiling.overlap) == (0, 0)
    assert ceiling.scores["span_iou"] == 1.0
    said = "without offsets and of a text that is there again, so taken in order: 1 of 3 chunks"
    other = "of a document that the dataset doesn't have, found in one that it has: 3 of 3 chunks"
    assert list(ceiling.notes) == [*([] if named else [other]), said]
    # in another order there is no telling: then it is the first one
    assert chunk_ceiling(dataset, nodes[::-1]).scores["span_iou"] < 1.0


def test_what_cannot_be_found_is_counted_and_said() -> None:
    dataset = of_moons(GEYSERS, SECOND_PAGE)
    nodes = [
        node_of("moons", MOONS[:30], "a", 0),
        node_of("moons", MOONS[:30], "again", 0),
        node_of("moons", MOONS[10:40], "b", 10),
        node_of("moons", "Io has volcanoes.", "not there"),
        node_of("planets", "Io has volcanoes.", "of another document", 0),
        Document(id_="moons", text=MOONS),
    ]
    ceiling = chunk_ceiling(dataset, nodes)
    assert (ceiling.n_chunks, ceiling.n_unlocated) == (3, 2)
    # 90 characters in three chunks, 40 of which are in the document
    assert ceiling.overlap == pytest.approx(1 - 40 / 90)
    assert "56% of the chunks is text that another has, too" in " ".join(str(ceiling).split())
    assert ceiling.scores["span_recall"] == pytest.approx(22 / 29)
    assert list(ceiling.notes) == [
        "not in any of the dataset's documents, so left out: 2 of 5 chunks",
        "in no chunk: 1 of 2 relevant passages",
        "not counted as chunks: 1 document that others were cut from",
    ]
    assert [reference.is_cut for reference in ceiling.references] == [False, False]
    first, lacking = (statement.text for statement in ceiling.report().decision)
    assert "finding all that they have of what is relevant takes at least" in first
    assert first.startswith("With the 3 chunks that have a place no retriever can")
    assert lacking == (
        "24% of what is relevant is in none of these; 2 others can't be found in the documents and "
        "may have it."
    )
    # a chunk without a place might have reached more where the others have all that is relevant
    [whole] = chunk_ceiling(dataset, [node_of("moons", MOONS, "c", 0), nodes[3]]).report().decision
    assert whole.text.startswith("With the 1 chunk that has a place no retriever can have more")
    assert "finding all that is relevant takes" in whole.text
    second = chunk_ceiling(dataset, nodes[:3]).report().decision[1].text
    assert second == "24% of what is relevant is in no chunk: no retriever finds it."


def test_offsets_that_the_document_does_not_bear_out_are_said() -> None:
    edited = node_of("moons", "Enceladus has no geysers at all.", "a", 0)
    [note] = chunk_ceiling(of_moons(GEYSERS), [edited]).notes
    said = "placed by offsets, though the document has another text there: 1 of 1 chunk"
    assert note == said
    # of a chunk that has its place's text and a title, nothing is said
    titled = node_of("moons", "Moons\n" + MOONS, "b", 0)
    assert not chunk_ceiling(of_moons(GEYSERS), [titled]).notes


def test_a_label_beyond_its_document_is_said() -> None:
    """8 of 20 characters are in the document, and can be found."""
    ceiling = chunk_ceiling(of_moons(Span("moons", 64, 84)), {"all": MOONS})
    assert ceiling.scores["span_recall"] == pytest.approx(8 / 20)
    said = "reaching beyond their documents' ends: 1 of 1 relevant passage"
    assert list(ceiling.notes) == [said]


def test_labels_without_a_place_are_left_out_and_said() -> None:
    relevance = {
        "q": Relevance.of_spans([GEYSERS, SECOND_PAGE], grades=[1, 0]),
        "by id": ["somewhere"],
        "nothing": [],
    }
    dataset = RetrievalDataset(dict.fromkeys(relevance, "?"), relevance, {"moons": MOONS})
    ceiling = chunk_ceiling(dataset, {"moons": MOONS})
    assert ceiling.scores.query_ids == ("q",)
    assert ceiling.scores["precision_omega"] == pytest.approx(22 / 72)
    assert list(ceiling.notes) == ["left out without a place: 1 of 2 labels"]
    # a label by node id has a place where its node is known
    label = node_of("moons", MOONS[31:64], "somewhere", 31)
    known = chunk_ceiling(dataset, {"moons": MOONS}, matcher=SpanMatcher(nodes=[label]))
    assert dict(known.scores.by_query("span_iou")) == {"q": 22 / 72, "by id": 33 / 72}


def test_a_label_with_blanks_around_it_is_not_cut_by_them() -> None:
    text = "One sentence.\n\nAnother sentence.\n\n"
    dataset = RetrievalDataset(
        {"q": "?"}, {"q": Relevance.of_spans([("d", 0, 15), ("d", 15, 34)])}, {"d": text}
    )
    ceiling = chunk_ceiling(dataset, {"1": text[:14], "2": text[14:]})
    assert [reference.place[1:] for reference in ceiling.references] == [(0, 13), (15, 32)]
    assert not ceiling.cut
    parted = chunk_ceiling(dataset, {"1": text[:20], "2": text[20:]})
    assert [reference.is_cut for reference in parted.references] == [False, True]
    shown = " ".join(str(parted).split())
    assert "A boundary cuts 1 of 2 relevant passages" in shown
    assert "over 2 chunks; the best has 71% of it (d 15–32): “Another sentence.”" in shown


def test_leaves_of_a_hierarchy_are_counted_from_the_document() -> None:
    """LlamaIndex counts the characters of a leaf from its parent's start."""
    from llama_index.core.node_parser import HierarchicalNodeParser, get_leaf_nodes

    text = " ".join(f"Sentence number {number} is here." for number in range(60))
    parsers = {str(size): SentenceSplitter(chunk_size=size, chunk_overlap=0) for size in (128, 32)}
    parser = HierarchicalNodeParser(node_parser_ids=list(parsers), node_parser_map=parsers)
    nodes = parser.get_nodes_from_documents([Document(doc_id="book", text=text)])
    start = text.index("Sentence number 50")
    label = Relevance.of_spans([("book", start, start + 27)])
    dataset = RetrievalDataset({"q": "?"}, {"q": label}, {"book": text})
    leaves = get_leaf_nodes(nodes)
    both, alone = chunk_ceiling(dataset, nodes), chunk_ceiling(dataset, leaves)
    assert both.n_unlocated == alone.n_unlocated == 0
    assert both.scores["span_iou"] == alone.scores["span_iou"]
    assert both.overlap == pytest.approx(0.5, abs=0.02)
    assert alone.overlap == 0.0
    assert both.scores["precision_omega"] < alone.scores["precision_omega"]


@pytest.mark.parametrize(
    ("dataset", "chunks", "message"),
    [
        (
            RetrievalDataset({"q": "?"}, {"q": ["a"]}, {"moons": MOONS}),
            {"moons": MOONS},
            "labels with places in documents",
        ),
        (
            of_moons(GEYSERS),
            [node_of("other", "Io", "n", 0)],
            r"\(moons\), got '1 chunk of other with neither'",
        ),
        (of_moons(GEYSERS), [], "with something in it"),
        (of_moons(GEYSERS), 5, "an index, a vector store, a docstore"),
    ],
)
def test_what_is_refused(dataset: RetrievalDataset, chunks: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        chunk_ceiling(dataset, chunks)  # type: ignore[arg-type]


def test_only_a_span_matcher_knows_places() -> None:
    with pytest.raises(InvalidInput, match="matcher: expected a SpanMatcher"):
        chunk_ceiling(of_moons(GEYSERS), {"moons": MOONS}, matcher="text")  # type: ignore[arg-type]


def test_what_nothing_holds_has_no_number_of_tokens() -> None:
    ceiling = chunk_ceiling(of_moons(SECOND_PAGE), {"a": MOONS[:30]})
    assert ceiling.report().decision[0].text.startswith("No retriever can find anything")
    assert json.loads(ceiling.to_json()) == [
        {
            "query_id": "q",
            "span_iou": 0.0,
            "span_recall": 0.0,
            "tokens": None,
            "precision_omega": 0.0,
            "references": 1,
            "cut": 0,
        }
    ]
