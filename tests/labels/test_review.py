"""What reviewers are given, and what becomes of what they said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import (
    Relevance,
    RetrievalDataset,
    compare_reviewers,
    pool,
    read_judgements,
    read_qrels,
    score_rankings,
    write_review_page,
)
from llama_index_rag_metrics.errors import FileFormatError, InvalidInput, LabelWarning
from llama_index_rag_metrics.labels.review import (
    SCALES,
    ItemKey,
    Judgement,
    ReviewPool,
    read_reviews,
    write_reviews,
)
from llama_index_rag_metrics.labels.review.scales import read_rubric
from llama_index_rag_metrics.report.html.store import unpacked

ITEM = {"query_id": "q", "query": "Who?", "doc_id": "d", "text": "She."}
NUGGET = {"query_id": "q", "query": "Who?", "nugget_id": "n", "nugget": "It was she."}
JUDGED = {"query_id": "q", "doc_id": "d", "grade": 2}


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def content(page: Path) -> Any:
    carried = page.read_text(encoding="utf-8").split('id="data-review">')[1].split("</script>")[0]
    return unpacked(carried)


class TestPool:
    def test_what_pool_made(self, tmp_path: Path) -> None:
        texts = {"x": "One.", "y": "Two.", "z": "Three."}
        dataset = RetrievalDataset({"q": "Who?"}, {}, texts)
        pooled = pool(
            {"a": {"q": ["x", "y"]}, "b": {"q": ["x", "z"]}}, metric="precision@2", dataset=dataset
        )
        pooled.to_jsonl(tmp_path / "pool.jsonl")

        read = ReviewPool.of(pooled)

        assert read == ReviewPool.of(tmp_path / "pool.jsonl")
        assert {(item.key, item.query, item.text) for item in read.items} == {
            (("q", "y", None), "Who?", "Two."),
            (("q", "z", None), "Who?", "Three."),
        }

    def test_the_order_is_random_and_of_no_influence(self, tmp_path: Path) -> None:
        lines = [
            {**ITEM, "query_id": f"q{n % 3}", "doc_id": f"d{n}", "text": str(n)} for n in range(30)
        ]
        read = ReviewPool.of(write(tmp_path / "pool.jsonl", *lines))
        turned = ReviewPool.of(write(tmp_path / "turned.jsonl", *lines[::-1]))

        first = [item.key for item in read.shuffled(0)]

        assert first == [item.key for item in turned.shuffled(0)]
        assert first != [item.key for item in read.shuffled(1)]
        assert sorted(first) == sorted(item.key for item in read.items)
        questions = [key.query_id for key in first]
        assert [questions[n] for n in (0, 10, 20)] == list(dict.fromkeys(questions))
        assert read.digest == turned.digest
        assert [int(str(key.doc_id)[1:]) for key in first[:10]] != sorted(
            int(str(key.doc_id)[1:]) for key in first[:10]
        )

    @pytest.mark.parametrize(
        "change",
        [{"text": "He."}, {"query": "What?"}, {"doc_id": "e"}, {"scale": "support"}],
    )
    def test_what_makes_another_pool(self, tmp_path: Path, change: dict[str, str]) -> None:
        pooled = ReviewPool.of(write(tmp_path / "one.jsonl", ITEM))
        other = ReviewPool.of(write(tmp_path / "other.jsonl", {**ITEM, **change}))
        assert pooled.digest != other.digest

    def test_there_and_back(self, tmp_path: Path) -> None:
        own = {
            "name": "own",
            "intro": "So?",
            "choices": [
                {"grade": 1, "key": "1", "label": "yes", "rubric": ""},
                {"grade": "no", "key": "0", "label": "", "rubric": "It isn't."},
            ],
        }
        lines = [
            ITEM,
            {**NUGGET, "scale": "importance"},
            {**NUGGET, "doc_id": "d", "text": "She.", "scale": "support"},
            {**ITEM, "doc_id": "e", "scale": own},
        ]
        read = ReviewPool.of(write(tmp_path / "pool.jsonl", *lines))

        read.to_jsonl(tmp_path / "again.jsonl")

        assert list(map(json.loads, (tmp_path / "again.jsonl").read_text().splitlines())) == lines
        assert ReviewPool.of(tmp_path / "again.jsonl") == read

    @pytest.mark.parametrize(
        ("lines", "reason"),
        [
            ([[]], "line 1: expected an item"),
            ([{"doc_id": "d"}], "query_id"),
            ([{"query_id": "q", "text": ""}], "'doc_id', or 'nugget_id'"),
            ([{**ITEM, "text": None}], "'text', a text"),
            ([ITEM, {**ITEM, "text": "other"}], "line 2: expected every item once"),
            ([{**ITEM, "scale": "no such"}], "one of relevance, importance, support"),
            ([{**ITEM, "scale": {"name": "x", "choices": []}}], "at least two choices"),
        ],
    )
    def test_bad_lines(self, tmp_path: Path, lines: list[Any], reason: str) -> None:
        with pytest.raises(FileFormatError, match=reason):
            ReviewPool.of(write(tmp_path / "pool.jsonl", *lines))

    @pytest.mark.parametrize(
        "choice",
        [
            {"key": "1", "label": "x"},
            {"grade": True, "key": "1", "label": "x"},
            {"grade": 1, "key": "10", "label": "x"},
            {"grade": 1, "key": "x", "label": "x"},
            {"grade": 1, "key": "1"},
            {"grade": 0, "key": "1", "label": "x"},
            {"grade": 1, "key": "0", "label": "x"},
        ],
    )
    def test_bad_choices(self, tmp_path: Path, choice: dict[str, Any]) -> None:
        scale = {"name": "x", "choices": [{"grade": 0, "key": "0", "label": "no"}, choice]}
        with pytest.raises(FileFormatError, match="line 1"):
            ReviewPool.of(write(tmp_path / "pool.jsonl", {**ITEM, "scale": scale}))

    def test_one_name_for_two_scales(self, tmp_path: Path) -> None:
        choices = [{"grade": n, "key": str(n), "label": "x"} for n in (0, 1)]
        own = {"name": "relevance", "choices": choices}
        with pytest.raises(FileFormatError, match="one scale that is called 'relevance'"):
            ReviewPool.of(write(tmp_path / "p.jsonl", ITEM, {**ITEM, "doc_id": "e", "scale": own}))

    def test_a_scale_of_ones_own_has_a_name_of_its_own(self, tmp_path: Path) -> None:
        choices = [{"grade": n, "key": str(n), "label": "x"} for n in range(5)]
        own = {"name": "relevance", "choices": choices}
        with pytest.raises(FileFormatError, match="a scale called otherwise than 'relevance'"):
            ReviewPool.of(write(tmp_path / "p.jsonl", {**ITEM, "scale": own}))

    def test_nothing_to_review(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="at least one item"):
            ReviewPool.of(write(tmp_path / "pool.jsonl"))
        with pytest.raises(InvalidInput, match="labels pool --dataset"):
            ReviewPool.of(write(tmp_path / "pool.jsonl", {**ITEM, "text": ""}))
        with pytest.raises(InvalidInput, match="a Pool, or a path"):
            ReviewPool.of(7)  # type: ignore[arg-type]


class TestScales:
    def test_the_default_is_the_rubric_of_the_judge(self) -> None:
        from llama_index_rag_metrics.text_metrics.judge import RUBRIC

        choices = SCALES["relevance"].choices
        assert [(choice.grade, choice.key) for choice in choices] == [
            (3, "3"),
            (2, "2"),
            (1, "1"),
            (0, "0"),
        ]
        for choice in choices:
            said = choice.rubric.replace("question", "query")[1:]
            assert said in RUBRIC

    def test_a_rubric_of_ones_own(self, tmp_path: Path) -> None:
        path = tmp_path / "rubric.txt"
        path.write_text("Is it law?\n\n0: It isn't.\n2:  A court said so.\n1: A party said so.\n")
        page = write_review_page(
            write(tmp_path / "p.jsonl", ITEM), tmp_path / "p.html", rubric=path
        )

        [scale] = content(page)["scales"].values()

        assert scale["intro"] == "Is it law?"
        assert [
            (choice["key"], choice["grade"], choice["rubric"]) for choice in scale["choices"]
        ] == [
            ("2", 2, "A court said so."),
            ("1", 1, "A party said so."),
            ("0", 0, "It isn't."),
        ]

    @pytest.mark.parametrize("highest", [3, 5])
    def test_every_rubric_is_a_scale_of_its_own(self, tmp_path: Path, highest: int) -> None:
        rubrics = {
            "first": f"{highest}: It states the rule.\n0: It doesn't help.\n",
            "copy": f"0: It doesn't help.\n\n{highest}:  It states the rule.",
            "second": f"{highest}: It states the facts.\n0: It doesn't help.\n",
        }
        scales = {}
        for name, text in rubrics.items():
            rubric = tmp_path / name
            rubric.write_text(text)
            page = write_review_page(
                write(tmp_path / "p.jsonl", ITEM), tmp_path / f"{name}.html", rubric=rubric
            )
            # the page writes a scale beside each grade but those of the default one
            scales[name] = content(page)["items"][0]["scale"]

        assert scales["first"].startswith("own rubric ")
        assert scales["first"] == scales["copy"] != scales["second"]

        graded = {**JUDGED, "grade": highest}
        anna, ben = (
            write(tmp_path / f"{name}.jsonl", {**graded, "scale": scale})
            for name, scale in scales.items()
            if name != "copy"
        )
        assert read_judgements(anna)["q"].grades == {"d": highest}
        with pytest.raises(InvalidInput, match=rf"second: .*{scales['first']}.*{scales['second']}"):
            compare_reviewers(anna, ben)
        with pytest.raises(
            InvalidInput, match=rf"reviews: .*{scales['first']}.*{scales['second']}"
        ):
            read_judgements(anna, ben)

    def test_grades_by_two_rubrics_side_by_side(self, tmp_path: Path) -> None:
        anna = write(tmp_path / "anna.jsonl", {**JUDGED, "scale": "law"})
        ben = write(tmp_path / "ben.jsonl", {**JUDGED, "doc_id": "e", "scale": "facts"})
        with pytest.warns(LabelWarning, match="'facts', 'law'"):
            merged = read_judgements(anna, ben)
        assert merged == {"q": Relevance({"d": 2, "e": 2})}

    def test_a_page_takes_no_grades_of_another_scale(self, tmp_path: Path) -> None:
        rubric = tmp_path / "rubric.txt"
        rubric.write_text("2: It states the rule.\n0: It doesn't help.\n")
        items, page = write(tmp_path / "p.jsonl", ITEM), tmp_path / "p.html"
        with pytest.raises(InvalidInput, match=r"judgements: .*own rubric .*'relevance'"):
            write_review_page(items, page, judgements={"q": {"d": 2}}, rubric=rubric)
        ungraded = [Judgement(ItemKey("q", "d"), None, note="later")]
        write_review_page(items, page, judgements=ungraded, rubric=rubric)

    def test_a_scale_as_json_keeps_its_name(self, tmp_path: Path) -> None:
        path = tmp_path / "rubric.json"
        choices = [{"grade": grade, "key": str(grade), "label": "…"} for grade in (5, 0)]
        path.write_text(json.dumps({"name": "law", "choices": choices}))
        page = write_review_page(
            write(tmp_path / "p.jsonl", ITEM), tmp_path / "p.html", rubric=path
        )
        assert content(page)["items"][0]["scale"] == "law"
        other = {**ITEM, "scale": {"name": "law", "choices": choices[::-1]}}
        with pytest.raises(InvalidInput, match=r"rubric: .*'law'"):
            write_review_page(write(tmp_path / "p.jsonl", other), tmp_path / "p.html", rubric=path)
        path.write_text(json.dumps({"name": "relevance", "choices": choices}))
        with pytest.raises(FileFormatError, match="a scale called otherwise than 'relevance'"):
            read_rubric(path)

    def test_a_scale_as_json(self, tmp_path: Path) -> None:
        path = tmp_path / "rubric.json"
        path.write_text(json.dumps(SCALES["support"].record()))
        assert read_rubric(path) == SCALES["support"]

    @pytest.mark.parametrize("text", ["", "Grade it well.", "3: The answer."])
    def test_a_rubric_without_grades(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "rubric.txt"
        path.write_text(text)
        with pytest.raises(FileFormatError, match="a line for each grade"):
            read_rubric(path)


class TestPage:
    def test_it_holds_what_is_judged_and_carries_the_rest(self, tmp_path: Path) -> None:
        judged = write(tmp_path / "given.jsonl", JUDGED, {**JUDGED, "query_id": "q9"})
        page = write_review_page(
            write(tmp_path / "p.jsonl", ITEM), tmp_path / "p.html", judgements=judged, title="<T>"
        )
        data = content(page)
        assert data["judgements"] == [Judgement(ItemKey("q", "d"), 2).record()]
        assert data["others"] == [Judgement(ItemKey("q9", "d"), 2).record()]
        assert "<title>&lt;T&gt;</title>" in page.read_text()

    def test_it_asks_the_network_for_nothing(self, tmp_path: Path) -> None:
        page = write_review_page(write(tmp_path / "p.jsonl", ITEM), tmp_path / "p.html")
        text = page.read_text()
        assert "default-src 'none'; script-src 'sha256-" in text
        assert "http" not in text.replace("http-equiv", "")

    def test_the_same_pool_gives_the_same_page(self, tmp_path: Path) -> None:
        lines = write(tmp_path / "p.jsonl", ITEM, {**ITEM, "doc_id": "e"})
        pages = [write_review_page(lines, tmp_path / f"{n}.html").read_bytes() for n in range(2)]
        assert pages[0] == pages[1]

    def test_wrong_arguments(self, tmp_path: Path) -> None:
        lines = write(tmp_path / "p.jsonl", ITEM)
        with pytest.raises(InvalidInput, match="seed"):
            write_review_page(lines, tmp_path / "p.html", seed=0.5)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="judgements"):
            write_review_page(lines, tmp_path / "p.html", judgements=7)  # type: ignore[arg-type]
        with pytest.raises(FileNotFoundError):
            write_review_page(tmp_path / "none.jsonl", tmp_path / "p.html")


class TestReading:
    def test_there_and_back(self, tmp_path: Path) -> None:
        judgements = [
            Judgement(ItemKey("q", "d"), 2.0, reviewer="anna", judged_at="2026-01-01T00:00:00Z"),
            Judgement(ItemKey("q", "e"), None, skipped=True, note="illegible"),
            Judgement(ItemKey("q", "d", "n"), "full", "support"),
        ]
        write_reviews(judgements, tmp_path / "j.jsonl")
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
        write_reviews([Judgement(ItemKey("q", "d"), 2.0), skipped, noted], path)
        assert read_qrels(path) == {"q": Relevance({"d": 2})}


class TestBringingTogether:
    def test_they_are_judgements_like_any_other(self) -> None:
        merged = read_judgements({"q": {"d": 2, "e": 0}})
        runs = {"a": {"q": ["d", "e"]}, "b": {"q": ["e", "d"]}}

        assert score_rankings(merged, runs["b"], ["mrr"]).means["mrr"] == 0.5
        assert pool(runs, merged, metric="ndcg@2").is_enough

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
