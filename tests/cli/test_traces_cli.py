"""Traces on the command line: scored with labels, and judged by an LLM without."""

from __future__ import annotations

import csv
import json
import re
import sys
import warnings
from pathlib import Path

import pytest
from support.command_line import run
from support.telemetry import request, retrieval, span, write_lines

from llama_index_rag_metrics import RetrievalDataset, Run, read_qrels, write_run
from llama_index_rag_metrics.cli import main

JUDGE = """
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata

class Judge(CustomLLM):
    @property
    def metadata(self):
        return LLMMetadata(model_name="judge")

    def complete(self, prompt, formatted=False, **further):
        with open("asked.txt", "a") as file:
            file.write("asked\\n")
        if 'number="1"' in prompt:
            passages = prompt.split("<passage")[1:]
            return CompletionResponse(text=str([3 * ("good" in passage) for passage in passages]))
        if "text of broken" in prompt:
            return CompletionResponse(text="no idea")
        return CompletionResponse(text='{"grade": %d}' % (3 if "text of good" in prompt else 0))

    def stream_complete(self, prompt, formatted=False, **further):
        raise NotImplementedError

def broken():
    raise OSError("no key")

ready = Judge()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "my_judge", raising=False)
    Path("my_judge.py").write_text(JUDGE, encoding="utf-8")
    root = {"openinference__span__kind": "AGENT"}
    write_lines(
        Path("traces.jsonl"),
        request(retrieval("r1", "x", ["bad", "good"], "root1", begin=1, seconds=0.25)),
        request(retrieval("r2", "y", ["good2"], "root1", begin=2, seconds=0.25)),
        request(span("root1", **root, input__value="Where?", question_id="q1")),  # type: ignore[arg-type]
        request(retrieval("r3", "When?", ["bad"], trace="t2", question_id="q2")),
    )
    return tmp_path


class TestScore:
    def test_by_attribute(self) -> None:
        Path("qrels.txt").write_text("q1 0 good 1\nq1 0 good2 1\nq2 0 z 1\n")
        named = ["--qrels", "qrels.txt", "--question-id", "question_id"]
        ended = run("score", "traces.jsonl", *named, "-m", "mrr,recall@3", "--format", "csv")
        assert ended.exit_code == 0, ended.output
        rows = list(csv.DictReader(ended.stdout.splitlines()))
        # q1: bad, good, good2: 1/2 and 2/2; q2: nothing
        assert [(row["mrr"], row["recall@3"]) for row in rows] == [("0.25", "0.5")]

    def test_by_the_questions_of_a_dataset_whose_labels_count(self) -> None:
        dataset = RetrievalDataset(
            queries={"a": "Where?", "b": "When?"}, relevance={"a": ["good"], "b": ["bad"]}
        )
        dataset.save("dataset.json")
        ended = run("score", "traces.jsonl", "--questions", "dataset.json", "-m", "mrr", "-q")
        assert ended.exit_code == 0
        assert re.search(r"0\.75", ended.stdout)  # (1/2 + 1) / 2

    def test_unnamed_questions(self) -> None:
        Path("qrels.txt").write_text("q1 0 good 1\n")
        ended = run("score", "traces.jsonl", "--qrels", "qrels.txt")
        assert ended.exit_code == 2
        assert "--question-id ATTRIBUTE or --questions DATASET" in ended.output

    @pytest.mark.parametrize("option", [["--matcher", "text"], ["--match-on", "key"]])
    def test_documents_without_ids(self, option: list[str]) -> None:
        """As LangChain's instrumentor records them."""
        prefix = "retrieval.documents.0.document"
        fields = {f"{prefix}.content": "Geysers rise.", f"{prefix}.metadata": '{"key": "d1"}'}
        kind = {"openinference.span.kind": "RETRIEVER", "input.value": "Where?"}
        write_lines(Path("bare.jsonl"), request(span("r", **kind, **fields)))  # type: ignore[arg-type]
        dataset = RetrievalDataset({"a": "Where?"}, {"a": ["d1"]}, {"d1": "Geysers rise."})
        dataset.save("dataset.json")
        asked = ["score", "bare.jsonl", "--questions", "dataset.json", "-m", "mrr"]
        ended = run(*asked, *option, "--format", "csv")
        assert ended.exit_code == 0, ended.output
        assert "bare,1.0," in ended.stdout

    def test_a_matcher_needs_texts(self) -> None:
        Path("qrels.txt").write_text("q1 0 good 1\n")
        ended = run("score", "traces.jsonl", "--qrels", "qrels.txt", "--matcher", "text")
        assert ended.exit_code == 2
        assert "--questions DATASET beside it" in ended.output

    def test_unlabelled(self) -> None:
        ended = run("score", "traces.jsonl")
        assert ended.exit_code == 2
        assert "rag-metrics judge RUN --llm package.module:factory" in ended.output


class TestJudge:
    def test_grades_are_scored_written_and_kept(self, folder: Path) -> None:
        arguments = ["judge", "traces.jsonl", "--llm", "my_judge:Judge", "-m", "mrr,ndcg@3"]
        kept = ["--question-id", "question_id", "--cache", "grades.db", "--qrels", "grades.txt"]
        ended = run(*arguments, *kept)
        assert ended.exit_code == 0, ended.output
        # mrr: q1 1/2; q2 has nothing relevant and is left out
        assert "0.50" in ended.stdout
        grades = {
            query_id: dict(relevance.grades)
            for query_id, relevance in read_qrels("grades.txt").items()
        }
        assert grades == {"q1": {"bad": 0.0, "good": 3.0, "good2": 3.0}, "q2": {"bad": 0.0}}
        asked = Path("asked.txt").read_text().count("asked")
        assert asked == 4
        assert run(*arguments, *kept).exit_code == 0
        assert Path("asked.txt").read_text().count("asked") == asked

    def test_questions_are_drawn_for_people(self) -> None:
        judge = ["judge", "traces.jsonl", "--llm", "my_judge:Judge", "-m", "mrr"]
        named = ["--question-id", "question_id", "--pool", "people.jsonl"]
        drawn = set()
        for seed in range(8):
            ended = run(*judge, *named, "--draw", "1", "--seed", str(seed))
            assert ended.exit_code == 0, ended.output
            rows = [json.loads(line) for line in Path("people.jsonl").read_text().splitlines()]
            drawn.add(tuple((row["query_id"], row["query"], row["doc_id"]) for row in rows))
            assert {tuple(row) for row in rows} == {("query_id", "query", "doc_id", "text")}
        # a whole question each time, and not always the same
        assert drawn == {
            (("q1", "Where?", "bad"), ("q1", "Where?", "good"), ("q1", "Where?", "good2")),
            (("q2", "When?", "bad"),),
        }
        every = " ".join(run(*judge, *named, "--draw", "60").stderr.split())
        assert "people.jsonl: 4 passages of all 2 questions, for people to label" in every
        one = " ".join(run(*judge, *named, "--draw", "1").stderr.split())
        assert "1 question drawn at random from 2, spread over their mrr, for people" in one
        run(*judge, *named, "--draw", "60")
        assert run("labels", "review", "people.jsonl", "-o", "judged.jsonl").exit_code == 0
        assert run(*judge, "--draw", "1").exit_code == 2
        assert run(*judge, *named, "--draw", "1", "--check").exit_code == 2

    def test_several_in_a_request_and_how_far_people_agree(self) -> None:
        Path("people.txt").write_text("q1 0 bad 0\nq1 0 good 3\nq2 0 bad 3\n")
        named = ["--question-id", "question_id", "--texts-per-call", "5", "-m", "mrr"]
        several = ["judge", "traces.jsonl", "--llm", "my_judge:Judge", *named]
        ended = run(*several, "--human", "people.txt", "--qrels", "grades.jsonl")
        assert ended.exit_code == 0, ended.output
        # q1 has three texts, and one request; q2 has one
        assert Path("asked.txt").read_text().count("asked") == 2
        assert "4 judgements, 2 requests" in " ".join(ended.stdout.split())
        grades = {
            query_id: dict(relevance.grades)
            for query_id, relevance in read_qrels("grades.jsonl").items()
        }
        assert grades == {"q1": {"bad": 0.0, "good": 3.0, "good2": 3.0}, "q2": {"bad": 0.0}}
        # 0, 3, 0 against 0, 3, 3: o = 2/3, e = 2/3 · 1/3 + 1/3 · 2/3 = 4/9
        agreed = " ".join(ended.stderr.split())
        assert "agreement with --human beyond chance: kappa 0.40 (" in agreed
        assert agreed.endswith("on 3 passages")

    def test_a_cache_that_keeps_nothing_is_named(self) -> None:
        Path("notes.txt").write_text("This is no cache. " * 99)
        ended = run("judge", "traces.jsonl", "--llm", "my_judge:Judge", "--cache", "notes.txt")
        assert ended.exit_code == 0, ended.output
        assert "the cache fails, and the run goes on without it" in " ".join(ended.stderr.split())

    def test_people_who_judged_something_else(self) -> None:
        Path("people.txt").write_text("other 0 bad 0\n")
        ended = run("judge", "traces.jsonl", "--llm", "my_judge:Judge", "--human", "people.txt")
        assert ended.exit_code == 2
        assert "Look whether both use the same ids." in " ".join(ended.output.split())

    def test_grades_flow_into_scores_and_comparisons(self) -> None:
        named = ["--question-id", "question_id"]
        several = ["--texts-per-call", "3", "--qrels", "grades.jsonl"]
        assert (
            run("judge", "traces.jsonl", "--llm", "my_judge:Judge", *named, *several).exit_code == 0
        )
        ended = run("score", "traces.jsonl", *named, "--qrels", "grades.jsonl", "-m", "mrr")
        assert ended.exit_code == 0, ended.output
        assert "0.50" in ended.stdout

    def test_the_judge_itself_is_checked(self) -> None:
        Path("people.txt").write_text("q1 0 bad 0\nq1 0 good 1\nq1 0 good2 1\nq2 0 bad 0\n")
        check = ["judge", "traces.jsonl", "--llm", "my_judge:Judge", "--check"]
        check += ["--question-id", "question_id"]
        further = ["--human", "people.txt", "--json", "c.json", "--html", "c.html"]
        ended = run(*check, *further)
        assert ended.exit_code == 0, ended.output
        shown = " ".join(ended.stdout.split())
        assert "Check of the judge judge" in shown
        assert "Asked twice, the judge changed its grade on 0 of 4 passages" in shown
        assert "Too few to tell whether the place matters: 1 question with texts" in shown
        # q1: 3 texts twice, and 4 calls in 3 orders; q2: 1 text twice
        assert Path("asked.txt").read_text().count("asked") == 3 * 2 + 4 + 2
        assert "at another place in the call" in Path("c.json").read_text()
        assert "Check of the judge" in Path("c.html").read_text()

    def test_options_that_do_not_go_together(self) -> None:
        judge = ["judge", "traces.jsonl", "--llm", "my_judge:Judge"]
        for option in (["--qrels", "grades.txt"], ["-m", "mrr"]):
            ended = run(*judge, "--check", *option)
            assert ended.exit_code == 2
            assert "since nothing is scored" in ended.output
        ended = run(*judge, "--check", "--cache", "grades.db")
        assert ended.exit_code == 2
        assert "no --cache, since every grade is asked for anew" in " ".join(ended.output.split())
        assert not Path("asked.txt").exists()

    @pytest.mark.parametrize("option", [["--check"], ["--cache", "grades.db"], []])
    def test_ctrl_c_says_that_nothing_was_kept_where_nothing_was(self, option: list[str]) -> None:
        Path("interrupting.py").write_text("def llm():\n    raise KeyboardInterrupt\n")
        ended = run("judge", "traces.jsonl", "--llm", "interrupting:llm", *option)
        assert ended.exit_code == 130
        assert "interrupted: nothing was kept" in ended.stderr
        assert "grades.db" not in ended.stderr

    @pytest.mark.parametrize("code", ["def llm():\n    {}\n", "{}\nllm = None\n"])
    def test_a_factory_that_exits_shows_no_key(self, code: str) -> None:
        exits = 'raise SystemExit("no access with sk-abcdefghij0123456789")'
        Path("exiting.py").write_text(code.format(exits))
        sys.modules.pop("exiting", None)
        ended = run("judge", "traces.jsonl", "--llm", "exiting:llm")
        assert ended.exit_code == 2
        assert "SystemExit: no access with ***" in " ".join(ended.stderr.split())
        assert "sk-abc" not in ended.output

    def test_without_any_name_each_trace_is_a_question(self) -> None:
        ended = run("judge", "traces.jsonl", "--llm", "my_judge:ready", "--json", "scores.json")
        assert ended.exit_code == 0, ended.output
        assert "Where?" in ended.stdout
        assert "t1" in Path("scores.json").read_text()

    def test_what_cannot_be_graded_is_told(self) -> None:
        write_lines(
            Path("traces.jsonl"),
            request(retrieval("r1", "Who?", ["broken"])),
            request(retrieval("r2", "Why?", ["good"], trace="t2")),
        )
        ended = run("judge", "traces.jsonl", "--llm", "my_judge:Judge")
        assert ended.exit_code == 1
        assert "1 of 2 questions couldn't be graded" in ended.output

    def test_a_run_without_texts_takes_them_from_the_dataset(self) -> None:
        write_run(Run({"q1": ["d1", "d2"]}), "bm25.run")
        dataset = RetrievalDataset(
            queries={"q1": "Who?"}, corpus={"d1": "text of bad", "d2": "text of good"}
        )
        dataset.save("dataset.json")
        judge = ["judge", "bm25.run", "--llm", "my_judge:Judge", "-m", "mrr"]
        ended = run(*judge, "--questions", "dataset.json")
        assert ended.exit_code == 0, ended.output
        assert "q1 Who?" in " ".join(ended.stdout.split())  # among the hardest queries
        assert "0.50" in ended.stdout
        assert "--questions DATASET has their texts" in run(*judge).output

    @pytest.mark.parametrize(
        ("llm", "message"),
        [
            ("my_judge", "--llm: expected package.module:factory"),
            ("my_judge:nobody", "my_judge.py has no function `nobody` (it has: "),
            ("my_judge:broken", "OSError: no key"),
            ("my_judge:JUDGE", "has no function `JUDGE` (it has"),
            ("json:dumps", "a factory that works without arguments"),
            ("collections:OrderedDict", "what makes an LLM of LlamaIndex, got 'OrderedDict'"),
        ],
    )
    def test_an_llm_that_is_none(self, llm: str, message: str) -> None:
        ended = run("judge", "traces.jsonl", "--llm", llm)
        assert ended.exit_code == 2
        assert message in ended.output


STEERING = "\x1b[31m\x07\u202e"
"""Colours a terminal, rings, and turns what follows round."""


def test_nothing_on_standard_error_steers_a_terminal() -> None:
    Path("steering.py").write_text(f"def llm():\n    raise ValueError({STEERING!r})\n")
    retrieved = retrieval("r1", "Where?", ["good"], **{STEERING: "q1"})
    write_lines(Path("odd.jsonl"), request(retrieved))
    Path("empty.jsonl").write_text("")
    for arguments in (
        ["score", f"no{STEERING}.jsonl"],
        ["score", "odd.jsonl", "--question-id", f"no{STEERING}", "--qrels", "empty.jsonl"],
        ["judge", "traces.jsonl", "--llm", "steering:llm"],
        ["judge", "traces.jsonl", "--llm", f"steering:{STEERING}"],
    ):
        ended = run(*arguments)
        assert ended.exit_code == 2, ended.output
        assert "rag-metrics: " in ended.stderr
        assert not {"\x1b", "\x07", "\u202e"} & {*ended.stderr}


def test_nor_does_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(prog_name: str) -> None:
        warnings.showwarning(UserWarning(f"a{STEERING}b"), UserWarning, "file.py", 1)

    monkeypatch.setattr("llama_index_rag_metrics.cli.app", command)
    main()
    assert capsys.readouterr().err == "rag-metrics: a [31m b\n"
