"""What reviewers are given: pools, scales, pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.carried import unpacked
from support.reviews import ITEM, JUDGED, write

from llama_index_rag_metrics import Relevance, RetrievalDataset
from llama_index_rag_metrics.labels import agreement, pool, read_judgements, write_review_page
from llama_index_rag_metrics.labels.review.judgements import Judgement
from llama_index_rag_metrics.labels.review.review_page import (
    digest,
    read_pool,
    read_rubric,
    relevance_scale,
    shuffled,
)
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, LabelWarning


def content(page: Path) -> Any:
    carried = page.read_text(encoding="utf-8").split('id="data-review">')[1].split("</script>")[0]
    return unpacked(carried)


class TestPool:
    def test_what_pool_made(self, tmp_path: Path) -> None:
        texts = {"x": "One.", "y": "Two.", "z": "Three."}
        dataset = RetrievalDataset({"q": "Who?"}, {}, texts)
        runs = {"a": {"q": ["x", "y"]}, "b": {"q": ["x", "z"]}}
        pooled = pool(runs, {"q": {"x": 1}}, dataset=dataset)
        pooled.to_jsonl(tmp_path / "pool.jsonl")

        read = read_pool(pooled)

        assert read == read_pool(tmp_path / "pool.jsonl")
        assert {((item.query_id, item.doc_id), item.query, item.text) for item in read} == {
            (("q", "y"), "Who?", "Two."),
            (("q", "z"), "Who?", "Three."),
        }

    def test_the_order_is_random_and_of_no_influence(self, tmp_path: Path) -> None:
        lines = [
            {**ITEM, "query_id": f"q{n % 3}", "doc_id": f"d{n}", "text": str(n)} for n in range(30)
        ]
        read = read_pool(write(tmp_path / "pool.jsonl", *lines))
        turned = read_pool(write(tmp_path / "turned.jsonl", *lines[::-1]))

        first = [(item.query_id, item.doc_id) for item in shuffled(read, 0)]

        assert first == [(item.query_id, item.doc_id) for item in shuffled(turned, 0)]
        assert first != [(item.query_id, item.doc_id) for item in shuffled(read, 1)]
        assert sorted(first) == sorted((item.query_id, item.doc_id) for item in read)
        questions = [query_id for query_id, _ in first]
        assert [questions[n] for n in (0, 10, 20)] == list(dict.fromkeys(questions))
        assert digest(read) == digest(turned)
        assert [int(doc_id[1:]) for _, doc_id in first[:10]] != sorted(
            int(doc_id[1:]) for _, doc_id in first[:10]
        )

    @pytest.mark.parametrize("change", [{"text": "He."}, {"query": "What?"}, {"doc_id": "e"}])
    def test_what_makes_another_pool(self, tmp_path: Path, change: dict[str, str]) -> None:
        pooled = read_pool(write(tmp_path / "one.jsonl", ITEM))
        other = read_pool(write(tmp_path / "other.jsonl", {**ITEM, **change}))
        assert digest(pooled) != digest(other)

    @pytest.mark.parametrize(
        ("lines", "reason"),
        [
            ([[]], "line 1: expected a record with query_id, doc_id, query, text"),
            ([{"doc_id": "d"}], "query_id"),
            ([{"query_id": "q", "text": ""}], "required field `doc_id`"),
            ([{**ITEM, "text": None}], r"got `null` - at `\$.text`"),
            ([ITEM, {**ITEM, "text": "other"}], "line 2: expected every passage"),
        ],
    )
    def test_bad_lines(self, tmp_path: Path, lines: list[Any], reason: str) -> None:
        with pytest.raises(FileFormatError, match=reason):
            read_pool(write(tmp_path / "pool.jsonl", *lines))

    def test_nothing_to_review(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="at least one passage"):
            read_pool(write(tmp_path / "pool.jsonl"))
        with pytest.raises(InvalidInput, match="labels pool --dataset"):
            read_pool(write(tmp_path / "pool.jsonl", {**ITEM, "text": ""}))
        with pytest.raises(InvalidInput, match="a Pool, or a path"):
            read_pool(7)  # type: ignore[arg-type]


class TestScales:
    def test_the_default_is_the_rubric_of_the_judge(self) -> None:
        from llama_index_rag_metrics.metrics.texts.llm_relevancy import RUBRIC

        choices = relevance_scale().choices
        assert [choice.grade for choice in choices] == [3, 2, 1, 0]
        for choice in choices:
            said = choice.rubric.replace("question", "query")[1:]
            assert said in RUBRIC

    def test_a_rubric_of_ones_own(self, tmp_path: Path) -> None:
        path = tmp_path / "rubric.txt"
        path.write_text("Is it law?\n\n0: It isn't.\n2:  A court said so.\n1: A party said so.\n")
        page = write_review_page(
            write(tmp_path / "p.jsonl", ITEM), tmp_path / "p.html", rubric=path
        )

        scale = content(page)["scale"]

        assert scale["intro"] == "Is it law?"
        assert [(choice["grade"], choice["rubric"]) for choice in scale["choices"]] == [
            (2, "A court said so."),
            (1, "A party said so."),
            (0, "It isn't."),
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
            scales[name] = content(page)["scale"]["name"]

        assert scales["first"].startswith("own rubric ")
        assert scales["first"] == scales["copy"] != scales["second"]

        graded = {**JUDGED, "grade": highest}
        anna, ben = (
            write(tmp_path / f"{name}.jsonl", {**graded, "scale": scale})
            for name, scale in scales.items()
            if name != "copy"
        )
        assert read_judgements(anna)["q"].grades == {"d": highest}
        with pytest.raises(InvalidInput, match=rf"human: .*{scales['first']}.*{scales['second']}"):
            agreement(anna, ben)
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
        ungraded = [Judgement("q", "d", None, note="later")]
        write_review_page(items, page, judgements=ungraded, rubric=rubric)

    @pytest.mark.parametrize("text", ["", "Grade it.", "3: The answer.", "1: Yes.\n1: Also yes.\n"])
    def test_a_rubric_without_grades(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "rubric.txt"
        path.write_text(text)
        with pytest.raises(
            FileFormatError, match=r"a line for each grade|every grade of a rubric once"
        ):
            read_rubric(path)


class TestPage:
    def test_it_holds_what_is_judged_and_carries_the_rest(self, tmp_path: Path) -> None:
        judged = write(tmp_path / "given.jsonl", JUDGED, {**JUDGED, "query_id": "q9"})
        page = write_review_page(
            write(tmp_path / "p.jsonl", ITEM), tmp_path / "p.html", judgements=judged, title="<T>"
        )
        data = content(page)
        assert data["judgements"] == [Judgement("q", "d", 2).record()]
        assert data["others"] == [Judgement("q9", "d", 2).record()]
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
