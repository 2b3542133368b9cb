"""`rag-metrics labels nuggets`: from questions to a score, with and without people and an LLM."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command_line import run

from llama_index_rag_metrics import Nuggets, RetrievalDataset, Run, write_run

LLM = """
from support.llms import Completing
from support.nugget_reader import answer

def say(prompt):
    with open("asked.txt", "a") as file:
        file.write("asked\\n")
    return "no idea" if "unspeakable" in prompt else answer(prompt)

ready = Completing(answer=say)
"""

CORPUS = {
    "d1": "Enceladus has jets. It is 500 km wide",
    "d2": "Enceladus has jets",
    "d3": "Triton circles backwards",
}
QUESTIONS = {"q1": "Which moon has jets?", "q2": "Which moon circles backwards?"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "my_llm", raising=False)
    Path("my_llm.py").write_text(LLM, encoding="utf-8")
    dataset = RetrievalDataset(
        QUESTIONS,
        {"q1": ["d1"], "q2": ["d3"]},
        CORPUS,
        {"q1": {"reference": "It has jets"}, "q2": {"reference": "It circles backwards"}},
    )
    dataset.save("dataset.json")
    RetrievalDataset(QUESTIONS, corpus=CORPUS).save("unlabelled.json")
    write_run(Run({"q1": ["d2", "d3"], "q2": ["d3"]}), "bm25.jsonl")
    write_run(Run({"q1": ["d1"], "q2": ["d1"]}), "dense.jsonl")
    write_run(Run({"q1": ["d9"]}), "elsewhere.jsonl")
    Path("grades.jsonl").write_text('{"query_id": "q1", "doc_id": "d1", "grade": 3}')
    return tmp_path


def nuggets(*arguments: str, output: str = "nuggets.jsonl") -> Any:
    return run("labels", "nuggets", *arguments, "-o", output, "--no-progress")


WITH_LLM = ("--llm", "my_llm:ready")


def test_from_labels_to_a_score() -> None:
    ended = nuggets("dataset.json", "bm25.jsonl", "dense.jsonl", *WITH_LLM)
    assert ended.exit_code == 0, ended.output
    assert "2 questions, 3 nuggets" in ended.stdout
    loaded = Nuggets.load("nuggets.jsonl")
    assert [nugget.text for nugget in loaded["q1"]] == ["It is 500 km wide", "Enceladus has jets"]
    assert dict(loaded["q1"][0].supports) == {"d2": "none", "d3": "none", "d1": "full"}
    scored = run(
        "score", "bm25.jsonl", "--qrels", "nuggets.jsonl", "-m", "facet_recall", "--format", "csv"
    )
    # q1: the okay one of weight .5 of 1 + .5; q2: its only one
    assert pytest.approx(float(scored.stdout.splitlines()[1].split(",")[1])) == (0.5 / 1.5 + 1) / 2


def test_nothing_is_paid_twice() -> None:
    arguments = ("dataset.json", "bm25.jsonl", *WITH_LLM)
    nuggets(*arguments)
    asked = Path("asked.txt").read_text()
    assert Path("nuggets.jsonl.cache").is_file()
    assert nuggets(*arguments).exit_code == 0
    assert Path("asked.txt").read_text() == asked


def test_from_what_was_retrieved_and_from_answers() -> None:
    nuggets("unlabelled.json", "bm25.jsonl", *WITH_LLM, "--depth", "1")
    assert [nugget.text for nugget in Nuggets.load("nuggets.jsonl")["q1"]] == ["Enceladus has jets"]
    nuggets("dataset.json", *WITH_LLM, "--answers", "reference")
    assert [nugget.text for nugget in Nuggets.load("nuggets.jsonl")["q1"]] == ["It has jets"]


def test_what_fails_is_said_and_the_rest_is_written() -> None:
    dataset = RetrievalDataset(
        QUESTIONS, {"q1": ["d1"], "q2": ["d3"]}, {**CORPUS, "d3": "unspeakable"}
    )
    dataset.save("broken.json")
    ended = nuggets("broken.json", *WITH_LLM)
    assert ended.exit_code == 1
    assert "q2: BadAnswer: " in ended.stderr
    assert len(Nuggets.load("nuggets.jsonl")["q1"]) == 2
    assert "q2" in Nuggets.load("nuggets.jsonl").errors


@pytest.mark.parametrize(
    ("dataset", "options"),
    [
        ("partly.json", ()),
        ("partly.json", ("--answers", "reference")),
        ("dataset.json", ("--nuggets", "known.jsonl")),
    ],
    ids=["labels", "answers", "nuggets"],
)
def test_texts_are_needed_where_there_are_nuggets_alone(
    dataset: str, options: tuple[str, ...]
) -> None:
    about = {"q1": {"reference": "It has jets"}}
    RetrievalDataset(QUESTIONS, {"q1": ["d1"]}, CORPUS, about).save("partly.json")
    nuggets("partly.json", *WITH_LLM, output="known.jsonl")
    write_run(Run({"q1": ["d2"], "q2": ["of another index"]}), "new.jsonl")
    ended = nuggets(dataset, "new.jsonl", *WITH_LLM, *options)
    assert ended.exit_code != 2, ended.output  # 1: nothing is known of q2, which is said
    for nugget in Nuggets.load("nuggets.jsonl")["q1"]:
        assert "d2" in nugget.supports


def test_no_cache_is_checked_where_no_llm_is_asked() -> None:
    nuggets("dataset.json", *WITH_LLM)
    known = ("--nuggets", "nuggets.jsonl", "--cache", "nowhere/answers.cache")
    ended = nuggets("dataset.json", *known, "--to-review", "importance.jsonl")
    assert ended.exit_code == 0, ended.output


class TestReview:
    def said(self, path: str, grade: dict[str, str]) -> None:
        """What a reviewer exports, of the items in a file."""
        items = [json.loads(line) for line in Path(path).read_text().splitlines()]
        kept = ("query_id", "doc_id", "nugget_id", "scale")
        lines = [
            {
                **{name: item[name] for name in kept if name in item},
                "grade": grade.get(item["nugget"]),
                "skipped": item["nugget"] not in grade,
                "reviewer": "Ada",
                "judged_at": "2025-01-01T00:00:00Z",
                "note": "",
            }
            for item in items
        ]
        Path("said.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def test_people_have_the_last_word(self) -> None:
        nuggets("dataset.json", *WITH_LLM, "--to-review", "importance.jsonl")
        self.said("importance.jsonl", {"It is 500 km wide": "drop", "Enceladus has jets": "vital"})
        known = ("--nuggets", "nuggets.jsonl", "--reviewed", "said.jsonl")
        ended = nuggets(
            "dataset.json", "bm25.jsonl", *WITH_LLM, *known, "--to-review", "supports.jsonl"
        )
        assert ended.exit_code == 0, ended.output
        loaded = Nuggets.load("nuggets.jsonl")
        assert [(nugget.text, nugget.importance) for nugget in loaded["q1"]] == [
            ("Enceladus has jets", "vital")
        ]
        assert dict(loaded["q1"][0].supports) == {"d2": "full", "d3": "none"}
        assert "full" not in Path("supports.jsonl").read_text()  # people judge blind
        self.said("supports.jsonl", {"Enceladus has jets": "partial"})
        ended = nuggets("dataset.json", *known, output="final.jsonl")
        assert ended.exit_code == 0, ended.output
        final = Nuggets.load("final.jsonl")
        assert dict(final["q1"][0].supports) == {"d2": "partial", "d3": "partial"}
        assert dict(final["q2"][0].supports) == {"d3": "full"}  # skipped: as it was

    def test_the_page_is_made_of_both(self) -> None:
        nuggets("dataset.json", *WITH_LLM, "--to-review", "importance.jsonl")
        known = ("--nuggets", "nuggets.jsonl")
        nuggets("dataset.json", "bm25.jsonl", *known, "--to-review", "supports.jsonl")
        for pool, n in (("importance.jsonl", 3), ("supports.jsonl", 5)):
            assert len(Path(pool).read_text().splitlines()) == n
            ended = run("labels", "review", pool, "-o", f"said-{pool}")
            assert ended.exit_code == 0, ended.output

    def test_a_judgement_of_another_nugget_is_refused(self) -> None:
        nuggets("dataset.json", *WITH_LLM)
        line = {"query_id": "q1", "nugget_id": "reworded", "scale": "importance", "grade": "okay"}
        Path("said.jsonl").write_text(json.dumps(line))
        ended = nuggets("dataset.json", "--nuggets", "nuggets.jsonl", "--reviewed", "said.jsonl")
        assert ended.exit_code == 2
        assert "Was it reworded since?" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dataset.json",), "--llm: expected package.module:factory"),
        (("dataset.json", "bm25.jsonl", "--nuggets", "n.jsonl"), "--llm: expected"),
        (("dataset.json", "--llm", "my_llm:nothing"), "--llm"),
        (("unlabelled.json", *WITH_LLM), "something to read"),
        (("dataset.json", *WITH_LLM, "--answers", "gold"), "It has ['reference']"),
        (("dataset.json", *WITH_LLM, "--nuggets", "absent.jsonl"), "absent.jsonl"),
        (("dataset.json", *WITH_LLM, "--html", "nowhere/page.html"), "--html"),
        (("dataset.json", *WITH_LLM, "--cache", "nowhere/answers.cache"), "--cache"),
        (("dataset.json", *WITH_LLM, "--to-review", "nuggets.jsonl"), "--to-review"),
        (("dataset.json", "bm25.jsonl", *WITH_LLM, "--to-review", "bm25.jsonl"), "--to-review"),
        (("dataset.json", *WITH_LLM, "--reviewed", "absent.jsonl"), "absent.jsonl"),
        (("dataset.json", *WITH_LLM, "--reviewed", "grades.jsonl"), "--reviewed"),
        (("dataset.json", "elsewhere.jsonl", *WITH_LLM), "the text of every passage"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    ended = nuggets(*arguments)
    assert ended.exit_code == 2, ended.output
    (line,) = ended.stderr.splitlines()
    assert message in line
    assert not Path("asked.txt").exists()
