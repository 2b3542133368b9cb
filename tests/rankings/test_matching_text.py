"""Matching by text: what is recognised, in every script, and the convention that ranks it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.embeddings.base import BaseEmbedding
from support.examples import examples

from llama_index_rag_metrics import NDCG, ContainmentMatcher, Precision, Recall, Relevance, metric
from llama_index_rag_metrics.rankings.matching.matcher import (
    Expected,
    TextMatcher,
    flatten,
    stand_ins,
)
from llama_index_rag_metrics.rankings.matching.matcher_names import named_matcher
from llama_index_rag_metrics.rankings.matching.normalisation import letters, remembered, words
from llama_index_rag_metrics.runtime.errors import (
    InvalidInput,
    NoRetrieval,
    NothingRelevant,
    NotJudged,
)

ALL = [ContainmentMatcher()]
each_matcher = pytest.mark.parametrize("matcher", ALL, ids=lambda matcher: matcher.name)

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
    def test_case_width_spaces_and_punctuation_make_no_difference(
        self, text: str, other: str
    ) -> None:
        assert letters(text) == letters(other)

    def test_vowels_and_tones_are_no_punctuation(self) -> None:
        assert letters("น้ำ") != letters("นำ")
        assert letters("कि") != letters("क")

    def test_a_text_of_punctuation_alone_keeps_it(self) -> None:
        assert letters(" ?! ") == "?!"
        assert letters(" \n") == ""

    def test_words(self) -> None:
        assert words("The Kiln's keys") == ("the", "kiln", "s", "keys")
        assert words("東京") == ("東京",)
        assert words("水とice") == ("水と", "ice")
        assert words("เกาะ") == ("เก", "กา", "าะ")
        assert words("水") == ("水",)


@each_matcher
@each_script
def test_the_same_text_matches_and_another_does_not(matcher: TextMatcher, script: str) -> None:
    passage, other = PASSAGES[script], OTHERS[script]
    assert matcher.match([passage, other], [other, passage]) == [[1], [0]]
    spoiled = f"  {passage.strip('.。').upper()} !"
    assert matcher.match([passage, other], [spoiled]) == [[0]]


@each_script
def test_containment_finds_a_passage_in_a_chunk_and_a_chunk_in_a_passage(script: str) -> None:
    passage, other = PASSAGES[script], OTHERS[script]
    matcher = ContainmentMatcher()
    assert matcher.match([passage, other], [f"{other} {passage} {other}"]) == [[0, 1]]
    half = passage[: len(passage) // 2]
    assert len(letters(half)) >= 13
    assert ContainmentMatcher(min_chars=13).match([passage, other], [half]) == [[0]]


class TestContainment:
    def test_the_share_is_of_distinct_grams(self) -> None:
        # abcdefghi has the grams abcde bcdef cdefg defgh efghi; abcdefghX the first four: 4 / 5
        assert ContainmentMatcher(0.8).match(["abcdefghi"], ["abcdefghX"]) == [[0]]
        assert ContainmentMatcher(0.81).match(["abcdefghi"], ["abcdefghX"]) == [[]]
        # aaaaaaaaa has one distinct gram
        assert ContainmentMatcher(1).match(["aaaaaaaaa"], ["aaaaab"]) == [[0]]

    def test_short_texts(self) -> None:
        matcher = ContainmentMatcher()
        assert matcher.match(["UN"], ["the UN met", "we run", "un."]) == [[0], [], [0]]
        assert matcher.match(["東京"], ["彼は東京に住む", "京都"]) == [[0], []]
        assert matcher.match(["?!"], ["?!", "what"]) == [[0], []]
        assert ContainmentMatcher(min_chars=2).match(["大東京圏の地図"], ["東京"]) == [[0]]

    def test_threshold_of_the_name(self) -> None:
        assert named_matcher("text") is named_matcher("text")
        assert [named_matcher(written).name for written in ("text>=0.80", "text >= 0.6")] == [  # type: ignore[union-attr]
            "text",
            "text>=0.6",
        ]


@each_matcher
def test_blank_texts_match_nothing(matcher: TextMatcher) -> None:
    assert matcher.match(["", "  \n"], ["", " \n", "text"]) == [[], [], []]
    assert matcher.match([], ["text"]) == [[]]
    assert matcher.match(["text"], []) == []


@each_matcher
def test_a_matcher_survives_pickle(matcher: TextMatcher) -> None:
    again = pickle.loads(pickle.dumps(matcher))
    assert again.name == matcher.name
    assert again.match(["one text"], ["One, text!"]) == [[0]]


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01, float("nan"), "0.5", True])
def test_thresholds_are_shares(threshold: Any) -> None:
    with pytest.raises(InvalidInput, match="threshold"):
        ContainmentMatcher(threshold)


@pytest.mark.parametrize(
    "name", ["texts", "text>=", "text>=2", "text>=x", "exact>=0.5", ">=0.5", "id>=0.5", ""]
)
def test_unknown_matchers(name: str) -> None:
    with pytest.raises(InvalidInput):
        named_matcher(name)


characters = st.characters(codec="utf-8", categories=["L", "M", "N", "P", "S", "Zs"])
some_words = st.sampled_from(["the", "moon", "has", "water", "土星", "の", "衛星", "น้ำ", "달에"])
texts = st.text(characters, max_size=60) | st.lists(some_words, max_size=12).map(" ".join)


@each_matcher
@given(text=texts)
@examples(150)
def test_the_same_text_always_matches(matcher: TextMatcher, text: str) -> None:
    assert matcher.match([text], [text]) == [[0] if text.strip() and letters(text) else []]


@given(expected=st.lists(texts, max_size=4), retrieved=st.lists(texts, max_size=6))
@examples(150)
def test_containment_as_sets_of_strings_have_it(expected: list[str], retrieved: list[str]) -> None:
    def grams(text: str) -> set[str]:
        return {letters(text)[start : start + 5] for start in range(len(letters(text)) - 4)}

    matches = ContainmentMatcher(0.6, min_chars=5).match(expected, retrieved)
    for r, chunk in enumerate(retrieved):
        for e, passage in enumerate(expected):
            if len(letters(chunk)) < 5 or len(letters(passage)) < 5:
                continue
            shared = len(grams(chunk) & grams(passage))
            slow = max(shared / len(grams(chunk)), shared / len(grams(passage))) >= 0.6
            assert (e in matches[r]) == slow


@each_matcher
@given(expected=st.lists(texts, max_size=4), retrieved=st.lists(texts, max_size=5))
@examples(60)
def test_a_text_is_matched_alone_as_among_others(
    matcher: TextMatcher, expected: list[str], retrieved: list[str]
) -> None:
    together = matcher.match(expected, retrieved)
    assert together == [matcher.match(expected, [text])[0] for text in retrieved]
    for number, text in enumerate(expected):
        alone = matcher.match([text], retrieved)
        assert [bool(indices) for indices in alone] == [number in indices for indices in together]


class TestConvention:
    def test_a_chunk_stands_for_all_that_it_covers_best_grade_first(self) -> None:
        expected = Expected.of_texts(Relevance({"low": 1, "high": 3, "none": 0}), ["l", "h", "n"])
        assert expected.ids == ("high", "low", "none")
        assert stand_ins(expected.ids, [[], [0, 1], [1]], ["x", "y", "z"]) == [
            ["x"],
            ["high", "low"],
            ["low"],
        ]

    def test_texts_alone_are_items_of_grade_1(self) -> None:
        expected = Expected.of_texts(None, ["one", "two", "one"])
        assert expected.relevance == Relevance(["expected text 1", "expected text 2"])
        assert expected.passages == ("one", "two")

    def test_texts_go_with_relevant_ids_or_with_judged_ones(self) -> None:
        graded = Relevance({"a": 0, "b": 2})
        assert Expected.of_texts(graded, ["b's"]).passages == ("b's",)
        assert Expected.of_texts(graded, ["a's", "b's"]).passages == ("b's", "a's")
        assert Expected.of_texts(["a", "a"], ["1", "2"]).ids == ("a",)
        with pytest.raises(InvalidInput, match="a text for each of the 1 expected ids"):
            Expected.of_texts(graded, ["1", "2", "3"])

    def test_an_own_id_that_reads_like_an_expected_one_is_not_it(self) -> None:
        assert flatten(stand_ins(["1", "2"], [[], [1]], ["1", "2"])) == ["retrieved 1", "2"]

    @given(
        matches=st.lists(st.sets(st.integers(0, 3)).map(sorted), max_size=8),
        grades=st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=4, max_size=4),
    )
    @examples(150)
    def test_each_expected_item_is_credited_once_at_its_best_rank(
        self, matches: list[list[int]], grades: list[float]
    ) -> None:
        relevance = Relevance({f"e{number}": grade for number, grade in enumerate(grades)})
        expected = Expected.of_texts(relevance, ["text"] * 4)
        own = [f"r{number}" for number in range(len(matches))]
        ranking = flatten(stand_ins(expected.ids, matches, own))
        credited = {expected.ids[index] for covered in matches for index in covered}
        assert Recall().compute("", relevance, ranking).score == len(credited) / 4
        assert NDCG().compute("", relevance, ranking).score <= 1
        # a rank for each item found and each chunk that covers nothing; repetitions take none
        n = len(credited) + sum(not covered for covered in matches)
        expected_precision = len(credited) / n if n else 0.0
        assert Precision().compute("", relevance, ranking).score == expected_precision


QUERY = "Where does the water come from?"
WATER = PASSAGES["english"]
TITAN = OTHERS["english"]


class TestAsAParameterOfAMetric:
    def test_names(self) -> None:
        assert metric("recall(match=text)@5").metric_name == "recall(match=text)@5"
        assert metric("recall(match=text>=0.6)@5") == Recall(match="text>=0.6", k=5)
        assert metric("recall(match=text>=0.8)") == Recall(match="text")
        assert str(Recall(match="text>=0.6", k=5, min_grade=2)) == (
            "recall(match=text>=0.6, min_grade=2)@5"
        )
        with pytest.raises(InvalidInput, match="one of 'id', 'text', 'span'"):
            metric("recall(match=txt)@5")

    def test_grades_and_groups_stay(self) -> None:
        graded = Relevance({"p1": 1, "p2": 3})
        texts = {"expected_texts": [WATER, TITAN], "retrieved_texts": [f"{WATER} {TITAN}"]}
        # one chunk covers both: the better grade stands first, so the order is ideal
        score = NDCG(match="text", k=2).compute(QUERY, graded, ["c"], **texts).score  # type: ignore[arg-type]
        assert score == pytest.approx(1)
        groups = Relevance.groups([["p1", "p2"], ["p3"]])
        result = metric("group_recall(match=text)").compute(
            QUERY, groups, ["c"], [WATER, TITAN, "Io has volcanoes."], [TITAN]
        )
        assert result.score == 0.5

    @pytest.mark.parametrize("none", [None, []])
    def test_texts_without_ids(self, none: list[str] | None) -> None:
        recall = Recall(match="text")
        assert recall.compute(QUERY, none, ["c"], [WATER, TITAN], [WATER]).score == 0.5
        assert recall.compute(QUERY, none, None, [WATER, TITAN], [WATER]).score == 0.5
        assert recall.compute(QUERY, none, [], [WATER], []).score == 0

    def test_what_is_missing_is_said(self) -> None:
        recall = Recall(match="text")
        with pytest.raises(NoRetrieval, match="retrieved_texts is None"):
            recall.compute(QUERY, ["p"], ["c"], [WATER], None)
        with pytest.raises(NotJudged):
            recall.compute(QUERY, None, ["c"], None, [WATER])
        with pytest.raises(InvalidInput, match="expected_texts"):
            recall.compute(QUERY, ["p"], ["c"], None, [WATER])
        for broken in (WATER, [None]):
            with pytest.raises(InvalidInput, match="retrieved_texts: expected a list of texts"):
                recall.compute(QUERY, ["p"], ["c"], [WATER], broken)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="a text for each of the 1 retrieved ids"):
            recall.compute(QUERY, ["p"], ["c"], [WATER], [WATER, TITAN])
        with pytest.raises(NothingRelevant):
            recall.compute(QUERY, [], ["c"], [], [WATER])
        with pytest.raises(NothingRelevant):
            recall.compute(QUERY, {"p": 0}, ["c"], [WATER], [WATER])
        with pytest.raises(InvalidInput, match=r"SpanMatcher"):
            Recall(match="span").compute(QUERY, ["p"], ["c"], [WATER], [WATER])


class Letters(BaseEmbedding):
    """Counts the letters w, t and all; keeps what it was asked, batch by batch."""

    asked: list[list[str]] = []

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(text.count("w")), float(text.count("t")), 0.1]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        self.asked.append(texts)
        return [self._get_text_embedding(text) for text in texts]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._get_text_embeddings(texts)

    def _get_query_embedding(self, query: str) -> list[float]:
        raise AssertionError("no query is compared")

    async def _aget_query_embedding(self, query: str) -> list[float]:
        raise AssertionError("no query is compared")


class TestOwnMatcher:
    def test_a_subclass_is_a_matcher(self) -> None:
        class FirstWord(TextMatcher):
            kind = "first word"
            default = 1.0

            def match(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
                first = [text.split()[:1] for text in expected]
                return [
                    [index for index, word in enumerate(first) if word == text.split()[:1]]
                    for text in retrieved
                ]

        assert FirstWord().match(["a b", "c d"], ["c e", "x"]) == [[1], []]


def test_what_was_not_used_for_longest_is_worked_out_again() -> None:
    asked: list[str] = []

    @remembered(limit=8)
    def twice(text: str) -> str:
        asked.append(text)
        return text[1:] * 2

    for text in ["a1", "b1", "a1", "c", "d", "a1", "b1"]:
        assert twice(text) == text[1:] * 2
    assert asked == ["a1", "b1", "c", "d", "b1"]
    for _ in range(2):  # longer than the limit
        assert twice("too much") == "oo much" * 2
    assert asked[5:] == ["too much"] * 2
    twice("b1")
    assert len(asked) == 7
