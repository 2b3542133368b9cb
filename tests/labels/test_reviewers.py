"""What becomes of what reviewers said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.reviews import ITEM, JUDGED, write

from llama_index_rag_metrics import (
    Relevance,
    compare_reviewers,
    pool,
    read_judgements,
    read_qrels,
    score_rankings,
)
from llama_index_rag_metrics.labels.review.reviews import ItemKey, Judgement, read_reviews
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, LabelWarning


class TestReading:
    def test_there_and_back(self, tmp_path: Path) -> None:
        judgements = [
            Judgement(ItemKey("q", "d"), 2.0, reviewer="anna", judged_at="2026-01-01T00:00:00Z"),
            Judgement(ItemKey("q", "e"), None, skipped=True, note="illegible"),
            Judgement(ItemKey("q", "d", "n"), "full", "support"),
        ]
        write(tmp_path / "j.jsonl", *(judgement.record() for judgement in judgements))
        assert read_reviews(tmp_path / "j.jsonl") == judgements

    def test_a_pool_with_grades_written_into_it(self, tmp_path: Path) -> None:
        path = write(tmp_path / "p.jsonl", {**ITEM, "grade": 3}, {**ITEM, "doc_id": 7, "grade": 0})
        assert read_judgements(path) == {"q": Relevance({"d": 3, "7": 0})}

    @pytest.mark.parametrize(
        ("lines", "reason"),
        [
            ([7], "a judgement"),
            ([ITEM], "isn't reviewers' judgements but a pool to be judged"),
            ([{**JUDGED, "doc_id": "e"}, ITEM], "line 2: expected a field 'grade'"),
            ([{**JUDGED, "grade": True}], "a grade, a finite number"),
            ([{**JUDGED, "grade": []}], "a grade, a finite number"),
            (
                [JUDGED, {**JUDGED, "doc_id": "e", "grade": 7}],
                "line 2: .* 3, 2, 1, 0; .*'scale'.*7",
            ),
            ([{**JUDGED, "grade": 1.5}], "a grade of the scale 'relevance'"),
            ([{**JUDGED, "grade": "good"}], "a grade of the scale 'relevance'"),
            ([{**JUDGED, "grade": 1, "scale": "support"}], "one of full, partial, none, got 1"),
            ([{**JUDGED, "reviewer": 7}], "reviewer, a text"),
            ([{**JUDGED, "skipped": 1}], "skipped, true or false"),
            ([JUDGED, JUDGED], "line 2: expected every item once in a file"),
        ],
    )
    def test_bad_lines(self, tmp_path: Path, lines: list[Any], reason: str) -> None:
        with pytest.raises(FileFormatError, match=reason):
            read_reviews(write(tmp_path / "j.jsonl", *lines))

    def test_words_are_no_grades_of_passages(self, tmp_path: Path) -> None:
        said = write(tmp_path / "j.jsonl", {**JUDGED, "grade": "good", "scale": "own rubric"})
        with pytest.raises(InvalidInput, match="numbers for passages"):
            read_judgements(said)

    def test_no_judgement_is_of_every_scale(self, tmp_path: Path) -> None:
        negative, skipped = {**JUDGED, "grade": -1}, {**JUDGED, "doc_id": "e", "grade": None}
        said = read_reviews(write(tmp_path / "j.jsonl", negative, {**skipped, "skipped": True}))
        assert [judgement.is_judged for judgement in said] == [False, False]

    def test_qrels_leave_out_what_was_skipped(self, tmp_path: Path) -> None:
        skipped = Judgement(ItemKey("q", "e"), None, skipped=True, note="?")
        noted = Judgement(ItemKey("q", "f"), None, note="later")
        path = tmp_path / "j.jsonl"
        judged = Judgement(ItemKey("q", "d"), 2.0)
        write(path, *(judgement.record() for judgement in (judged, skipped, noted)))
        assert read_qrels(path) == {"q": Relevance({"d": 2})}


class TestBringingTogether:
    def test_they_are_judgements_like_any_other(self) -> None:
        merged = read_judgements({"q": {"d": 2, "e": 0}})
        runs = {"a": {"q": ["d", "e"]}, "b": {"q": ["e", "d"]}}

        assert score_rankings(merged, runs["b"], ["mrr"]).means["mrr"] == 0.5
        assert not pool(runs, merged).items

    def test_the_next_decides(self) -> None:
        first = {"q": {"alike": 1, "only": 2, "settled": 0, "turned": 3}}
        second = {"q": {"alike": 1, "settled": 3, "turned": 2}}
        third = {"q": {"alike": 3, "settled": 3, "turned": 0}, "q2": {"new": 1}}
        merged = read_judgements(first, second, third)
        assert merged == {
            "q": Relevance({"alike": 1, "only": 2, "settled": 3, "turned": 0}),
            "q2": Relevance({"new": 1}),
        }
        assert merged.undecided == ()

    def test_what_nobody_decides_is_unjudged(self) -> None:
        with pytest.warns(LabelWarning, match="differ on 1 of 2 passages"):
            merged = read_judgements({"q": {"d": 1, "e": 2}}, {"q": {"d": 0}})
        assert merged == {"q": Relevance({"e": 2})}
        assert merged.undecided == (("q", "d"),)

    def test_negative_grades_are_no_judgements(self) -> None:
        assert read_judgements({"q": {"d": -1}}, {"q": {"d": 1}}) == {"q": Relevance({"d": 1})}
        agreement = compare_reviewers({"q": {"d": -1, "e": 1}}, {"q": {"d": 2, "e": 1}})
        assert (agreement.n, agreement.only) == (1, (0, 1))

    def test_skipped_items_leave_the_decision_to_others(self) -> None:
        skipped = [Judgement(ItemKey("q", "d"), None, skipped=True)]
        assert read_judgements(skipped, {"q": {"d": 1}}) == {"q": Relevance({"d": 1})}
        # also where somebody edited the file, and left a grade
        edited = [Judgement(ItemKey("q", "d"), 3.0, skipped=True)]
        assert read_judgements(edited, {"q": {"d": 1}}) == {"q": Relevance({"d": 1})}

    def test_judgements_of_nuggets_are_left_out(self) -> None:
        support = Judgement(ItemKey("q", "d", "n"), "full", "support")
        assert read_judgements([support]) == {}


class TestReviewers:
    FIRST = {"q1": {"a": 3, "b": 0, "c": 1, "d": 2}, "q2": {"a": 0, "b": 3, "x": 1}}
    SECOND = {"q1": {"a": 3, "b": 0, "c": 2, "d": 2}, "q2": {"a": 0, "b": 1}}

    def test_counts_and_kappa(self) -> None:
        agreement = compare_reviewers(self.FIRST, self.SECOND)

        assert (agreement.n, agreement.only, agreement.names) == (6, (1, 0), ("first", "second"))
        scale = agreement.scales["relevance"]
        assert scale.grades == [3, 2, 1, 0]
        assert scale.counts == {(3, 3): 1, (0, 0): 2, (1, 2): 1, (2, 2): 1, (3, 1): 1}
        assert (scale.n, scale.n_agreed) == (6, 4)
        # o = 4/6; grades 3 2 1 0 of the first 2 1 1 2, of the second 1 2 1 2, of 6 each:
        # e = (2*1 + 1*2 + 1*1 + 2*2) / 36 = 1/4; kappa = (2/3 - 1/4) / (3/4) = 5/9
        assert agreement.kappa.kappa == pytest.approx(5 / 9)
        assert agreement.kappa.low is not None
        assert agreement.kappa.low < 5 / 9
        # 2 was given three times, once by both: 2 * 1 / 3
        assert scale.specific(2) == pytest.approx(2 / 3)
        assert scale.specific(1) == 0

    def test_weighted_kappa_is_that_of_scikit_learn(self) -> None:
        metrics = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn")
        scale = compare_reviewers(self.FIRST, self.SECOND).scales["relevance"]
        ours, theirs = [3, 0, 1, 2, 0, 3], [3, 0, 2, 2, 0, 1]
        expected = metrics.cohen_kappa_score(ours, theirs, weights="quadratic")
        assert scale.weighted_kappa is not None
        assert scale.weighted_kappa.kappa == pytest.approx(expected)

    def test_scales_of_words(self) -> None:
        def said(*grades: str) -> list[Judgement]:
            return [
                Judgement(ItemKey("q", "d", f"n{n}"), grade, "support")
                for n, grade in enumerate(grades)
            ]

        agreement = compare_reviewers(said("full", "none", "partial"), said("full", "none", "none"))

        scale = agreement.scales["support"]
        assert scale.grades == ["full", "partial", "none"]
        # e = 1/3 * 1/3 + 1/3 * 2/3 = 1/3; o = 2/3
        assert scale.kappa.kappa == pytest.approx(0.5)
        assert scale.weighted_kappa is not None
        # as 2, 1, 0: observed distances 1/4 over 3 items, of all pairings
        # (2-2)² (2-0)² (2-0)² (0-2)² 0 0 (1-2)² 1 1 over 4: (4+4+4+1+1+1)/4/9 = 15/36
        assert scale.weighted_kappa.kappa == pytest.approx(1 - (1 / 12) / (15 / 36))

    def test_several_scales_have_a_kappa_each(self) -> None:
        passage = Judgement(ItemKey("q", "d"), 2.0)
        nugget = Judgement(ItemKey("q", None, "n"), "vital", "importance")
        agreement = compare_reviewers([passage, nugget], [passage, nugget])
        assert [*agreement.scales] == ["relevance", "importance"]
        with pytest.raises(InvalidInput, match="one scale"):
            _ = agreement.kappa

    def test_the_third_pass(self, tmp_path: Path) -> None:
        lines = [
            {**ITEM, "query_id": query_id, "doc_id": doc_id}
            for query_id in ("q1", "q2")
            for doc_id in "abcdx"
        ]
        path = write(tmp_path / "pool.jsonl", *lines)
        agreement = compare_reviewers(self.FIRST, self.SECOND)

        agreement.to_jsonl(tmp_path / "third.jsonl", path)

        third = [json.loads(line) for line in (tmp_path / "third.jsonl").read_text().splitlines()]
        assert third == [
            line
            for line in lines
            if (line["query_id"], line["doc_id"]) in {("q1", "c"), ("q2", "b")}
        ]
        decided = read_judgements(self.FIRST, self.SECOND, {"q1": {"c": 2}, "q2": {"b": 2}})
        assert decided["q1"].grades["c"] == decided["q2"].grades["b"] == 2
        with pytest.raises(InvalidInput, match="the pool that both reviewed"):
            agreement.to_jsonl(tmp_path / "third.jsonl", write(tmp_path / "other.jsonl", ITEM))

    def test_a_report_in_every_form(self, tmp_path: Path) -> None:
        ours = [Judgement(ItemKey("q", "d"), 3.0, reviewer="anna", note="as *stated*")]
        theirs = [Judgement(ItemKey("q", "d"), 1.0, reviewer="ben")]
        agreement = compare_reviewers(ours, theirs)

        assert "d: anna 3 (as *stated*), ben 1" in str(agreement)
        assert "They agree on 0 of 1 item" in str(agreement)
        assert agreement.to_html(tmp_path / "r.html").exists()
        assert "&#42;stated&#42;" in agreement.to_markdown()
        (row,) = json.loads(agreement.to_json())
        assert (row["doc_id"], row["first"], row["second"]) == ("d", 3, 1)

    def test_always_the_same_grade(self) -> None:
        agreement = compare_reviewers({"q": {"a": 1, "b": 1}}, {"q": {"a": 1, "b": 1}})
        assert "kappa has no value" in " ".join(str(agreement).split())
        assert agreement.disagreements == []

    def test_nothing_in_common(self) -> None:
        with pytest.raises(InvalidInput, match="some of the items in first"):
            compare_reviewers({"q": {"a": 1}}, {"q": {"b": 1}})
        with pytest.raises(InvalidInput, match="second"):
            compare_reviewers({"q": {"a": 1}}, 7)  # type: ignore[arg-type]
        other = [Judgement(ItemKey("q", "a"), "full", "support")]
        with pytest.raises(InvalidInput, match="grades by 'relevance'"):
            compare_reviewers({"q": {"a": 1}}, other)
