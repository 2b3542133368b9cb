"""What reviewers are given: pools, scales, pages."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.reviews import ITEM, JUDGED, write

from llama_index_rag_metrics import RetrievalDataset, read_qrels
from llama_index_rag_metrics.labels import pool, write_review_page
from llama_index_rag_metrics.labels.review.review_page import read_pool
from llama_index_rag_metrics.metrics.texts.llm_relevancy import RUBRIC
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput


def content(page: Path) -> Any:
    carried = page.read_text(encoding="utf-8").split('id="data-review">')[1].split("</script>")[0]
    return json.loads(carried)


class TestPool:
    def test_pool_on_the_page(self, tmp_path: Path) -> None:
        texts = {"x": "One.", "y": "Two.", "z": "Three."}
        dataset = RetrievalDataset({"q": "Who?"}, {}, texts)
        runs = {"a": {"q": ["x", "y"]}, "b": {"q": ["x", "z"]}}
        pooled = pool(runs, {"q": {"x": 1}}, dataset=dataset)
        pooled.to_jsonl(tmp_path / "pool.jsonl")
        read = read_pool(pooled)
        assert read == read_pool(tmp_path / "pool.jsonl")
        assert {(item.query_id, item.doc_id, item.query, item.text) for item in read} == {
            ("q", "y", "Who?", "Two."),
            ("q", "z", "Who?", "Three."),
        }

    def test_order_is_not_that_of_the_file(self, tmp_path: Path) -> None:
        lines = [
            {**ITEM, "query_id": f"q{n % 3}", "doc_id": f"d{n}", "text": str(n)} for n in range(30)
        ]
        read = read_pool(write(tmp_path / "pool.jsonl", *lines))
        assert read == read_pool(write(tmp_path / "turned.jsonl", *lines[::-1]))
        questions = [item.query_id for item in read]
        assert [questions[n] for n in (0, 10, 20)] == list(dict.fromkeys(questions))
        numbers = [int(item.text) for item in read[:10]]
        assert numbers not in (sorted(numbers), sorted(numbers, reverse=True))

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

    def test_pool_with_nothing_to_review(self, tmp_path: Path) -> None:
        for lines in ([], [{**ITEM, "text": ""}]):
            with pytest.raises(InvalidInput, match="at least one passage with a text"):
                read_pool(write(tmp_path / "pool.jsonl", *lines))
        with pytest.raises(InvalidInput, match="a Pool, or a path"):
            read_pool(7)  # type: ignore[arg-type]


class TestPage:
    def test_page_holds_what_is_judged(self, tmp_path: Path) -> None:
        judged = write(tmp_path / "given.jsonl", JUDGED, {**JUDGED, "query_id": "q9"})
        lines = write(tmp_path / "p.jsonl", ITEM)
        data = content(write_review_page(lines, tmp_path / "p.html", judgements=judged))
        assert data["items"] == [["q", "d", "She."]]
        given = [(record["query_id"], record["grade"]) for record in data["judgements"]]
        assert given == [("q", 2), ("q9", 2)]

    def test_default_is_the_rubric_of_the_judge(self, tmp_path: Path) -> None:
        page = write_review_page(write(tmp_path / "p.jsonl", ITEM), tmp_path / "p.html")
        choices = content(page)["choices"]
        assert [digit for digit, _ in choices] == ["3", "2", "1", "0"]
        assert all(rule.replace("question", "query") in RUBRIC for _, rule in choices)

    def test_rubric_of_ones_own(self, tmp_path: Path) -> None:
        path, pooled = tmp_path / "rubric.txt", write(tmp_path / "p.jsonl", ITEM)
        path.write_text("Is it law?\n\n0: It isn't.\n2:  A court said so.\n1: A party said so.\n")
        data = content(write_review_page(pooled, tmp_path / "p.html", rubric=path))
        assert data["intro"] == "Is it law?"
        choices = [["2", "A court said so."], ["1", "A party said so."], ["0", "It isn't."]]
        assert data["choices"] == choices
        other = content(write_review_page(pooled, tmp_path / "p.html"))
        assert data["pool"] != other["pool"]  # grades by one don't show on the page of another

    @pytest.mark.parametrize("text", ["", "Grade it.", "3: The answer.", "1: Yes.\n1: Also yes.\n"])
    def test_rubric_without_grades(self, tmp_path: Path, text: str) -> None:
        path = write(tmp_path / "rubric.txt")
        path.write_text(text)
        with pytest.raises(FileFormatError, match="a line for each grade"):
            write_review_page(write(tmp_path / "p.jsonl", ITEM), tmp_path / "p.html", rubric=path)

    def test_page_asks_the_network_for_nothing(self, tmp_path: Path) -> None:
        page = write_review_page(write(tmp_path / "p.jsonl", ITEM), tmp_path / "p.html")
        text = page.read_text()
        assert "default-src 'none'; script-src 'sha256-" in text
        assert "http" not in text.replace("http-equiv", "")

    @pytest.mark.parametrize("change", [{"text": "He."}, {"query": "What?"}, {"doc_id": "e"}])
    def test_differences_between_pools(self, tmp_path: Path, change: dict[str, str]) -> None:
        lines = write(tmp_path / "p.jsonl", ITEM)
        page = write_review_page(lines, tmp_path / "p.html")
        first, names = page.read_bytes(), {content(page)["pool"]}
        assert write_review_page(lines, page).read_bytes() == first
        other = write(tmp_path / "other.jsonl", {**ITEM, **change})
        names.add(content(write_review_page(other, page))["pool"])
        assert len(names) == 2

    def test_pool_with_grades_written_into_it(self, tmp_path: Path) -> None:
        path = write(tmp_path / "p.jsonl", {**ITEM, "grade": 3}, {**ITEM, "doc_id": 7, "grade": 0})
        assert read_qrels(path)["q"].grades == {"d": 3, "7": 0}
        page = write_review_page(path, tmp_path / "p.html", judgements=path)
        assert {record["grade"] for record in content(page)["judgements"]} == {3, 0}

    def test_bad_judgements(self, tmp_path: Path) -> None:
        pooled = write(tmp_path / "p.jsonl", ITEM)
        bad = write(tmp_path / "j.jsonl", {**JUDGED, "grade": "good"})
        with pytest.raises(FileFormatError, match=r"got `str` - at `\$.grade`"):
            write_review_page(pooled, tmp_path / "p.html", judgements=bad)
        with pytest.raises(InvalidInput, match="another file than the pool"):
            write_review_page(pooled, pooled)
