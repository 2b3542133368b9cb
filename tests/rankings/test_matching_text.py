"""Matching by text: what is recognised, in every script, and the convention that ranks it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from llama_index_rag_metrics import (
    NDCG,
    Precision,
    Ranking,
    Recall,
    Relevance,
    RetrievalDataset,
    Run,
    match_run,
)
from llama_index_rag_metrics.rankings.matching.likeness import CONTAINED, letters, likeness, words
from llama_index_rag_metrics.rankings.matching.matched import Expected, as_matcher
from llama_index_rag_metrics.runtime.errors import InvalidInput


def match(
    expected: Sequence[str], retrieved: Sequence[str], threshold: float = CONTAINED
) -> list[list[int]]:
    """For each retrieved text the positions of the expected ones that it covers."""
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

    def test_words(self) -> None:
        assert words("The Kiln's keys") == ("the", "kiln", "s", "keys")
        assert words("東京") == ("東京",)
        assert words("水とice") == ("水と", "ice")
        assert words("เกาะ") == ("เก", "กา", "าะ")
        assert words("水") == ("水",)


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


class TestFunction:
    def test_function_says_what_it_returned_instead_of_a_matrix(self) -> None:
        dataset = RetrievalDataset({"q": "?"}, {"q": ["a"]}, {"a": "Geysers."})
        run = Run({"q": Ranking(["n"], texts=["Geysers."])})
        matched = match_run(run, dataset, lambda expected, retrieved: [[True, False]])
        assert "expected 1 rows of 1 truth values, got (1, 2)" in matched.errors["q"]


@pytest.mark.parametrize("matcher", ["texts", "text>=0.6", "group", 3, str])
def test_value_that_is_no_matcher(matcher: Any) -> None:
    with pytest.raises(InvalidInput, match="matcher: expected 'id', 'text', 'span', or a function"):
        as_matcher(matcher)
    assert as_matcher("id") is as_matcher(None) is None
