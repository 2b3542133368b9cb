"""Matching by text and by place: what is recognised, in every script, and how it is ranked."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
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
    NDCG,
    Precision,
    Ranking,
    Recall,
    Relevance,
    RetrievalDataset,
    Run,
    Span,
    evaluate,
    match_run,
)
from llama_index_rag_metrics.evaluation.passages import NodePlaces
from llama_index_rag_metrics.rankings.matching.likeness import CONTAINED, letters, likeness, words
from llama_index_rag_metrics.rankings.matching.matched import Expected, Matched, as_matcher
from llama_index_rag_metrics.rankings.span import node_span
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning


def match(
    expected: Sequence[str], retrieved: Sequence[str], threshold: float = CONTAINED
) -> list[list[int]]:
    return [np.flatnonzero(row).tolist() for row in likeness(expected, retrieved) >= threshold]


def ranking_of(relevance: Relevance | list[str], covers: list[list[int]]) -> list[str]:
    """The ranking of n retrieved texts that cover these positions of the expected ids."""
    ids = list(relevance)
    matrix = np.array([[n in row for n in range(len(ids))] for row in covers])
    dataset = RetrievalDataset({"q": "?"}, {"q": relevance}, dict.fromkeys(ids, "text"))
    run = Run({"q": Ranking([f"r{n}" for n in range(len(covers))], texts=["x"] * len(covers))})
    return list(match_run(run, dataset, lambda expected, retrieved: matrix).run["q"].ids)


PASSAGES = {
    "english": "Enceladus sprays water from long cracks near its south pole into space.",
    "chinese": "土卫二的南极附近有长长的裂缝，不断向太空喷出水汽和冰粒。",
    "japanese": "土星の衛星の南極付近には長い割れ目があり、水蒸気と氷の粒を噴き出している。",
    "korean": "엔셀라두스의 남극 부근에는 긴 균열이 있어 수증기와 얼음 알갱이를 우주로 내뿜는다.",
    "thai": "ดวงจันทร์เอนเซลาดัสมีรอยแยกยาวใกล้ขั้วใต้ซึ่งพ่นไอน้ำและน้ำแข็งออกสู่อวกาศ",
}

OTHERS = {
    "english": "Titan has a thick orange atmosphere and lakes of liquid methane on its surface.",
    "chinese": "土卫六拥有浓厚的橙色大气层，表面还有液态甲烷形成的湖泊。",
    "japanese": "タイタンは濃いオレンジ色の大気に包まれ、地表には液体メタンの湖が広がる。",
    "korean": "타이탄은 짙은 주황색 대기로 덮여 있으며 표면에는 액체 메탄 호수가 펼쳐져 있다.",
    "thai": "ไททันมีชั้นบรรยากาศสีส้มหนาทึบและมีทะเลสาบมีเทนเหลวอยู่บนพื้นผิวของมัน",
}

each_script = pytest.mark.parametrize("script", list(PASSAGES))


class TestNormalisation:
    @pytest.mark.parametrize(
        ("text", "other"),
        [
            ("Saturn's moons", "SATURNS MOONS"),
            ("ｗｉｄｅ　ｔｅｘｔ", "wide text"),
            ("ｶﾀｶﾅ", "カタカナ"),
            ("cafe\u0301", "café"),
            ("of\ufb01\u00adcial", "official"),
            ("straße", "STRASSE"),
            ("「土星」、", "土星"),
            ("line\r\n\tbreaks\u00a0and\u200bspaces", "line breaks and spaces"),
            ("한국어", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165"),
        ],
    )
    def test_case_width_spaces_and_punctuation_are_alike(self, text: str, other: str) -> None:
        assert letters(text) == letters(other)

    def test_vowels_and_tones_are_no_punctuation(self) -> None:
        assert letters("น้ำ") != letters("นำ")
        assert letters("कि") != letters("क")

    def test_text_of_punctuation_alone_keeps_it(self) -> None:
        assert letters(" ?! ") == "?!"
        assert letters(" \n") == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't shout, ＡＢＣ１２!", ["don", "t", "shout", "abc12"]),
        ("東京都 tower", ["東京", "京都", "tower"]),
        ("水とice", ["水と", "ice"]),
        ("猫", ["猫"]),
        ("เกาะ", ["เก", "กา", "าะ"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("naïve cafe\u0301", ["naïve", "café"]),
        ("__ -- !", []),
        (
            "a soft hy\u00adphen, 5\u00a0€ + 3\u200bpence ✈\ufe0f",
            ["a", "soft", "hyphen", "5", "3", "pence"],
        ),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert list(words(text)) == expected


@each_script
def test_text_matches_itself_and_no_other(script: str) -> None:
    passage, other = PASSAGES[script], OTHERS[script]
    assert match([passage, other], [other, passage]) == [[1], [0]]
    spoiled = f"  {passage.strip('.。').upper()} !"
    assert match([passage, other], [spoiled]) == [[0]]


@each_script
def test_containment_finds_a_passage_in_a_chunk_and_a_chunk_in_a_passage(script: str) -> None:
    passage, other = PASSAGES[script], OTHERS[script]
    assert match([passage, other], [f"{other} {passage} {other}"]) == [[0, 1]]
    part = passage[: max(16, len(passage) // 2)]
    assert len(letters(part)) >= 15
    assert match([passage, other], [part]) == [[0]]


class TestContainment:
    def test_share_is_of_distinct_grams(self) -> None:
        # abcdefghi has the grams abcde bcdef cdefg defgh efghi; abcdefghX the first four: 4 / 5
        assert match(["abcdefghi"], ["abcdefghX"]) == [[0]]
        assert match(["abcdefghi"], ["abcdefghX"], 0.81) == [[]]
        # 11 of 14 are fewer than 0.8
        assert match(["abcdefghijklmnopqr"], ["abcdefghijklmnoXYZ"]) == [[]]
        # aaaaaaaaa has one distinct gram
        assert match(["aaaaaaaaa"], ["aaaaab"], 1) == [[0]]

    def test_short_texts(self) -> None:
        assert match(["UN"], ["the UN met", "we run", "un."]) == [[0], [], [0]]
        assert match(["東京"], ["彼は東京に住む", "京都"]) == [[0], []]
        assert match(["?!"], ["?!", "what"]) == [[0], []]


def test_blank_texts_match_nothing() -> None:
    assert match(["", "  \n"], ["", " \n", "text"]) == [[], [], []]
    assert match([], ["text"]) == [[]]
    assert match(["text"], []) == []


characters = st.characters(codec="utf-8", categories=["L", "M", "N", "P", "S", "Zs"])

some_words = st.sampled_from(["the", "moon", "has", "water", "土星", "の", "衛星", "น้ำ", "달에"])

texts = st.text(characters, max_size=60) | st.lists(some_words, max_size=12).map(" ".join)


@given(text=texts)
@examples(150)
def test_text_always_matches_itself(text: str) -> None:
    assert match([text], [text]) == [[0] if text.strip() and letters(text) else []]


@given(expected=st.lists(texts, max_size=4), retrieved=st.lists(texts, max_size=6))
@examples(150)
def test_containment_as_sets_of_strings_have_it(expected: list[str], retrieved: list[str]) -> None:
    def grams(text: str) -> set[str]:
        return {letters(text)[start : start + 5] for start in range(len(letters(text)) - 4)}

    matches = match(expected, retrieved, 0.6)
    for r, chunk in enumerate(retrieved):
        for e, passage in enumerate(expected):
            if len(letters(chunk)) < 5 or len(letters(passage)) < 5:
                continue
            shared = len(grams(chunk) & grams(passage))
            of_chunk = shared / len(grams(chunk)) if len(letters(chunk)) >= 15 else 0
            slow = max(of_chunk, shared / len(grams(passage))) >= 0.6
            assert (e in matches[r]) == slow


@given(expected=st.lists(texts, max_size=4), retrieved=st.lists(texts, max_size=5))
@examples(60)
def test_text_is_matched_alone_as_among_others(expected: list[str], retrieved: list[str]) -> None:
    together = match(expected, retrieved)
    assert together == [match(expected, [text])[0] for text in retrieved]
    for number, text in enumerate(expected):
        alone = match([text], retrieved)
        assert [bool(indices) for indices in alone] == [number in indices for indices in together]


class TestConvention:
    def test_chunk_stands_for_all_that_it_covers_best_grade_first(self) -> None:
        relevance = Relevance({"low": 1, "high": 3, "none": 0})
        expected = Expected.of_texts(relevance, ["l", "h", "n"])
        assert [*expected.passages] == ["high", "low", "none"]
        graded = Relevance({"high": 3, "low": 1})
        assert ranking_of(graded, [[], [0, 1], [1]]) == ["r0", "high", "low", "low"]

    def test_texts_alone_are_items_of_grade_1(self) -> None:
        expected = Expected.of_texts(None, ["one", "two", "one"])
        assert expected.relevance == Relevance(["expected text 1", "expected text 2"])
        assert [*expected.passages.values()] == ["one", "two"]

    def test_texts_go_with_relevant_ids_or_with_judged_ones(self) -> None:
        graded = Relevance({"a": 0, "b": 2})
        assert Expected.of_texts(graded, ["b's"]).passages == {"b": "b's"}
        both = Expected.of_texts(graded, ["a's", "b's"]).passages
        assert [*both.items()] == [("b", "b's"), ("a", "a's")]
        with pytest.raises(InvalidInput, match="a text for each of the 1 expected ids"):
            Expected.of_texts(graded, ["1", "2", "3"])

    def test_own_id_that_reads_like_an_expected_one_is_not_it(self) -> None:
        assert ranking_of(["r0", "2"], [[], [1]]) == ["retrieved r0", "2"]

    @given(
        covers=st.lists(st.sets(st.integers(0, 3)).map(sorted), min_size=1, max_size=8),
        grades=st.lists(st.sampled_from([3.0, 2.0, 1.0]), min_size=4, max_size=4),
    )
    @examples(100)
    def test_items_expected_are_credited_once_at_their_best_rank(
        self, covers: list[list[int]], grades: list[float]
    ) -> None:
        by_grade = sorted(grades, reverse=True)
        relevance = Relevance({f"e{number}": grade for number, grade in enumerate(by_grade)})
        ranking = ranking_of(relevance, covers)
        credited = {index for covered in covers for index in covered}
        assert Recall().compute("", relevance, ranking).score == len(credited) / 4
        assert NDCG().compute("", relevance, ranking).score <= 1
        # a rank for each item found and each chunk that covers nothing; repetitions take none
        n = len(credited) + sum(not covered for covered in covers)
        assert Precision().compute("", relevance, ranking).score == len(credited) / n


def test_function_says_what_it_returned_instead_of_a_matrix() -> None:
    dataset = RetrievalDataset({"q": "?"}, {"q": ["a"]}, {"a": "Geysers."})
    run = Run({"q": Ranking(["n"], texts=["Geysers."])})
    matched = match_run(run, dataset, lambda expected, retrieved: [[True, False]])
    assert "expected 1 rows of 1 truth values, got (1, 2)" in matched.errors["q"]


@pytest.mark.parametrize("matcher", ["texts", "text>=0.6", "group", 3, str])
def test_value_that_is_no_matcher(matcher: Any) -> None:
    with pytest.raises(InvalidInput, match="matcher: expected 'id', 'text', 'span', or a function"):
        as_matcher(matcher)
    assert as_matcher("id") is as_matcher(None) is None


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
    def matched(self, wanted: Span, retrieved: Sequence[Span | None]) -> Matched:
        dataset = RetrievalDataset({"q": "?"}, {"q": Relevance(spans={"w": wanted})})
        ids = [f"n{number}" for number in range(len(retrieved))]
        return match_run(Run({"q": Ranking(ids, spans=retrieved)}), dataset, "span")

    def test_half_of_the_expected_span_decides(self) -> None:
        retrieved = [Span("a", 0, 150), Span("a", 0, 149), Span("b", 100, 200), Span("a", 100, 900)]
        matched = self.matched(Span("a", 100, 200), [*retrieved, None])
        assert matched.stands_for["q"] == [["w"], ["n1"], ["n2"], ["w"], ["n4"]]
        assert "missed: 1." in self.matched(Span("a", 100, 200), [Span("a", 0, 149)]).in_part

    @given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=2, max_size=6))
    @examples(100)
    def test_characters_as_sets(self, edges: list[tuple[int, int]]) -> None:
        wanted, *retrieved = [Span("d", start, start + length) for start, length in edges]
        characters = set(range(wanted.start, wanted.end))
        matched = self.matched(wanted, retrieved)
        for names, span in zip(matched.stands_for["q"], retrieved, strict=True):
            shared = characters & set(range(span.start, span.end))
            assert (names == ["w"]) == (2 * len(shared) >= len(characters))


class TestEvaluator:
    def dataset(self, **parts: Any) -> RetrievalDataset:
        return RetrievalDataset(queries={"q": "?"}, relevance={"q": ["p1", "p2"]}, **parts)

    def chunks(self) -> list[NodeWithScore]:
        chunks = splitter(30).get_nodes_from_documents([MOONS])
        return [NodeWithScore(node=chunk) for chunk in chunks]

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
    first_leaves = [leaf for leaf in leaves if leaf.node_id in children[:3]]
    retrieved = [NodeWithScore(node=leaf, score=1.0) for leaf in first_leaves]
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
