"""Runs that survive: the journal of questions."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.schema import TextNode
from support.processes import Forked
from support.question_llms import PROMPT, ScriptedLLM, nodes, two

from llama_index_rag_metrics.labels.question_generation import generate_question_context_pairs
from llama_index_rag_metrics.runtime.errors import JournalDamaged, JournalMismatch


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_index_rag_metrics.labels.question_generation._FIRST_PAUSE", 0.0)


def test_the_journal_goes_on_where_the_first_run_ended(tmp_path: Path) -> None:
    def failing(prompt: str) -> str:
        if prompt.endswith("text 2"):
            raise RuntimeError
        return two(prompt)

    path = tmp_path / "new" / "questions.jsonl"
    generate_question_context_pairs(nodes(4), ScriptedLLM(failing), PROMPT, journal=path)
    llm = ScriptedLLM(two)
    dataset = generate_question_context_pairs(nodes(4), llm, PROMPT, journal=path)
    assert llm.asked == ["2 about text 2"]
    assert dataset == generate_question_context_pairs(nodes(4), ScriptedLLM(two), PROMPT)
    assert dataset.notes == []


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_last_line_is_mended(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "questions.jsonl"
    whole = generate_question_context_pairs(
        nodes(2), ScriptedLLM(two), PROMPT, workers=1, journal=path
    )
    path.write_bytes(path.read_bytes()[:-cut])
    llm = ScriptedLLM(two)
    again = generate_question_context_pairs(nodes(2), llm, PROMPT, journal=path)
    assert again == whole
    assert llm.asked == ["2 about text 1"]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row.get("node_id") for row in rows] == [None, "n0", "n1"]


@pytest.mark.parametrize(
    ("changed", "aspect"),
    [
        ({"nodes": nodes(3)}, "nodes is"),
        ({"nodes": [nodes(2)[0], TextNode(id_="n1", text="new")]}, "nodes is"),
        ({"qa_generate_prompt_tmpl": "Ask about {context_str}"}, "prompt is"),
        ({"num_questions_per_chunk": 3}, "num_questions_per_chunk is '3', but the journal has '2'"),
        ({"llm": ScriptedLLM(two, name="better")}, "model is 'custom_llm better'"),
    ],
)
def test_the_journal_of_another_run_is_refused(
    tmp_path: Path, changed: dict[str, Any], aspect: str
) -> None:
    path = tmp_path / "questions.jsonl"
    arguments: dict[str, Any] = {
        "nodes": nodes(2),
        "llm": ScriptedLLM(two),
        "qa_generate_prompt_tmpl": PROMPT,
    }
    generate_question_context_pairs(**arguments, journal=path)
    before = path.read_bytes()
    with pytest.raises(JournalMismatch) as caught:
        generate_question_context_pairs(**{**arguments, **changed}, journal=path)
    assert aspect in str(caught.value)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_nodes_that_fail_again_leave_the_answers_of_the_journal(tmp_path: Path) -> None:
    def failing(prompt: str) -> str:
        if prompt.endswith("text 1"):
            raise RuntimeError("too long")
        return two(prompt)

    path = tmp_path / "questions.jsonl"
    first = generate_question_context_pairs(nodes(3), ScriptedLLM(failing), PROMPT, journal=path)
    llm = ScriptedLLM(failing)
    again = generate_question_context_pairs(nodes(3), llm, PROMPT, journal=path)
    assert set(llm.asked) == {"2 about text 1"}
    assert again == first
    assert again.notes == ["1 of 3 nodes failed: 'n1' (RuntimeError: too long)"]


@pytest.mark.parametrize("text", ["my thesis", "my thesis\nsecond line", '{"format": "other"}'])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text)
    llm = ScriptedLLM(two)
    with pytest.raises(JournalDamaged, match=r"t\.txt, line 1"):
        generate_question_context_pairs(nodes(1), llm, PROMPT, journal=path)
    assert path.read_text() == text
    assert llm.asked == []


@pytest.mark.parametrize(
    "row",
    [{}, {"node_id": "n0"}, {"node_id": ["n0"], "answer": "A?"}, {"node_id": "n0", "answer": 1}],
)
def test_a_row_that_is_no_answer_names_its_line(tmp_path: Path, row: dict[str, Any]) -> None:
    path = tmp_path / "questions.jsonl"
    generate_question_context_pairs(nodes(2), ScriptedLLM(two), PROMPT, journal=path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], json.dumps(row), ""]))
    with pytest.raises(JournalDamaged, match="line 3"):
        generate_question_context_pairs(nodes(2), ScriptedLLM(two), PROMPT, journal=path)


def test_a_damaged_journal_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    generate_question_context_pairs(nodes(2), ScriptedLLM(two), PROMPT, journal=path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{broken", lines[2], ""]))
    with pytest.raises(JournalDamaged, match="line 2"):
        generate_question_context_pairs(nodes(2), ScriptedLLM(two), PROMPT, journal=path)
    path.write_text("a file of another kind\n")
    with pytest.raises(JournalDamaged, match="line 1"):
        generate_question_context_pairs(nodes(2), ScriptedLLM(two), PROMPT, journal=path)


KILLED = """
import sys
from support.processes import Forked
from support.question_llms import PROMPT, ScriptedLLM, nodes, two
from llama_index_rag_metrics.labels.question_generation import generate_question_context_pairs
llm = ScriptedLLM(two, seconds=0.03)
generate_question_context_pairs(nodes(500), llm, PROMPT, workers=4, journal=sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_kill_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    process = Forked(KILLED, str(path))
    until = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < 20:
        assert time.monotonic() < until, "the run doesn't get on"
        assert process.runs, "the run ended before it was killed"
        time.sleep(0.01)
    process.kill()
    process.wait()
    finished = path.read_bytes().count(b"\n") - 1
    llm = ScriptedLLM(two, seconds=0.03)
    dataset = generate_question_context_pairs(nodes(500), llm, PROMPT, workers=4, journal=path)
    assert len(llm.asked) == 500 - finished
    assert len(dataset) == 1000
