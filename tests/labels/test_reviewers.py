"""What becomes of what reviewers said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.reviews import ITEM, JUDGED, write

from llama_index_rag_metrics import Relevance, read_qrels, score_rankings
from llama_index_rag_metrics.labels import agreement, pool, read_judgements
from llama_index_rag_metrics.labels.review.judgements import Judgement, read_reviews
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, LabelWarning


class TestReading:
    def test_there_and_back(self, tmp_path: Path) -> None:
        judgements = [
            Judgement("q", "d", 2.0, reviewer="anna", judged_at="2026-01-01T00:00:00Z"),
            Judgement("q", "e", None, skipped=True, note="illegible"),
        ]
        write(tmp_path / "j.jsonl", *(judgement.record() for judgement in judgements))
        assert read_reviews(tmp_path / "j.jsonl") == judgements

    def test_a_pool_with_grades_written_into_it(self, tmp_path: Path) -> None:
        path = write(tmp_path / "p.jsonl", {**ITEM, "grade": 3}, {**ITEM, "doc_id": 7, "grade": 0})
        assert read_judgements(path) == {"q": Relevance({"d": 3, "7": 0})}

    @pytest.mark.parametrize(
        ("lines", "reason"),
        [
            ([7], "a record with query_id, doc_id, grade"),
            ([ITEM], "line 1: .*required field `grade`"),
            ([{**JUDGED, "doc_id": "e"}, ITEM], "line 2: .*required field `grade`"),
            ([{**JUDGED, "grade": True}], r"got `bool` - at `\$.grade`"),
            ([{**JUDGED, "grade": []}], r"got `array` - at `\$.grade`"),
            ([JUDGED, {**JUDGED, "doc_id": "e", "grade": 7}], "line 2: .* 0 to 3; .*'scale'.*7"),
            ([{**JUDGED, "grade": 1.5}], "a grade of 0 to 3"),
            ([{**JUDGED, "grade": "good"}], r"got `str` - at `\$.grade`"),
            ([{**JUDGED, "reviewer": 7}], r"got `int` - at `\$.reviewer`"),
            ([{**JUDGED, "skipped": 1}], r"got `int` - at `\$.skipped`"),
            ([JUDGED, JUDGED], "line 2: expected every passage of a question once in a file"),
        ],
    )
    def test_bad_lines(self, tmp_path: Path, lines: list[Any], reason: str) -> None:
        with pytest.raises(FileFormatError, match=reason):
            read_reviews(write(tmp_path / "j.jsonl", *lines))

    def test_no_judgement_is_of_every_scale(self, tmp_path: Path) -> None:
        negative, skipped = {**JUDGED, "grade": -1}, {**JUDGED, "doc_id": "e", "grade": None}
        said = read_reviews(write(tmp_path / "j.jsonl", negative, {**skipped, "skipped": True}))
        assert [judgement.is_judged for judgement in said] == [False, False]

    def test_qrels_leave_out_what_was_skipped(self, tmp_path: Path) -> None:
        skipped = Judgement("q", "e", None, skipped=True, note="?")
        noted = Judgement("q", "f", None, note="later")
        path = tmp_path / "j.jsonl"
        judged = Judgement("q", "d", 2.0)
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

    def test_what_nobody_decides_is_unjudged(self) -> None:
        with pytest.warns(LabelWarning, match="differ on 1 of 2 passages"):
            merged = read_judgements({"q": {"d": 1, "e": 2}}, {"q": {"d": 0}})
        assert merged == {"q": Relevance({"e": 2})}

    def test_negative_grades_are_no_judgements(self) -> None:
        assert read_judgements({"q": {"d": -1}}, {"q": {"d": 1}}) == {"q": Relevance({"d": 1})}

    def test_skipped_items_leave_the_decision_to_others(self) -> None:
        skipped = [Judgement("q", "d", None, skipped=True)]
        assert read_judgements(skipped, {"q": {"d": 1}}) == {"q": Relevance({"d": 1})}
        # also where somebody edited the file, and left a grade
        edited = [Judgement("q", "d", 3.0, skipped=True)]
        assert read_judgements(edited, {"q": {"d": 1}}) == {"q": Relevance({"d": 1})}


class TestReviewers:
    FIRST = {"q1": {"a": 3, "b": 0, "c": 1, "d": 2}, "q2": {"a": 0, "b": 3, "x": 1}}
    SECOND = {"q1": {"a": 3, "b": 0, "c": 2, "d": 2}, "q2": {"a": 0, "b": 1}}

    def test_a_third_pass_over_what_they_differ_on(self, tmp_path: Path) -> None:
        anna = write(tmp_path / "anna.jsonl", JUDGED, {**JUDGED, "doc_id": "e", "grade": 0})
        ben = write(tmp_path / "ben.jsonl", JUDGED, {**JUDGED, "doc_id": "e", "grade": 3})
        differing = {pair[:2] for pair in agreement(anna, ben).disagreements}
        assert differing == {("q", "e")}
        decided = read_judgements(anna, ben, {"q": {"e": 2}})
        assert decided["q"].grades == {"d": 2, "e": 2}

    def test_a_report_in_every_form(self, tmp_path: Path) -> None:
        ours = [Judgement("q", "d", 3.0, reviewer="anna", note="as *stated*")]
        theirs = [Judgement("q", "d", 1.0, reviewer="ben")]
        agreed = agreement(ours, theirs)

        assert "d: 3 (as *stated*) and 1" in str(agreed)
        assert "1 of 1 passage graded differently" in str(agreed)
        assert agreed.to_html(tmp_path / "r.html").exists()
        assert "&#42;stated&#42;" in agreed.to_markdown()
        (row,) = json.loads(agreed.to_json())
        assert (row["doc_id"], row["first"], row["second"]) == ("d", 3, 1)

    def test_grades_by_another_rubric_are_refused(self) -> None:
        other = [Judgement("q", "a", 1.0, "own rubric")]
        with pytest.raises(InvalidInput, match="grades by 'relevance'"):
            agreement({"q": {"a": 1}}, other)
        with pytest.raises(InvalidInput, match="human"):
            agreement({"q": {"a": 1}}, 7)  # type: ignore[arg-type]
