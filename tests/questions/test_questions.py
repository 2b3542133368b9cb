"""Questions written by an LLM: what counts as one, and runs that survive."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import PromptTemplate, Settings
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import TextNode
from pydantic import PrivateAttr

from llama_index_rag_metrics.errors import (
    GenerationFailed,
    InvalidInput,
    JournalDamaged,
    JournalMismatch,
    NoQuestions,
    RowsDropped,
)
from llama_index_rag_metrics.questions import (
    agenerate_question_context_pairs,
    generate_question_context_pairs,
    questions_in,
)


class ScriptedLLM(CustomLLM):
    """Answers by a function of the prompt, and remembers what it was asked; blocks, as most do."""

    seconds: float = 0.0
    name: str = "scripted"
    _answer: Callable[[str], str] = PrivateAttr()
    _asked: list[str] = PrivateAttr(default_factory=list)

    def __init__(self, answer: Callable[[str], str], **fields: Any) -> None:
        super().__init__(**fields)
        self._answer = answer

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.name)

    @property
    def asked(self) -> list[str]:
        return self._asked

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        time.sleep(self.seconds)
        self._asked.append(prompt)
        return CompletionResponse(text=self._answer(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError


class AsyncLLM(ScriptedLLM):
    """Has an asynchronous method of its own, and no other."""

    async def acomplete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        await asyncio.sleep(self.seconds)
        self._asked.append(prompt)
        return CompletionResponse(text=self._answer(prompt))

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        raise AssertionError("asked in a thread")


PROMPT = "{num_questions_per_chunk} about {context_str}"


def nodes(n: int = 3) -> list[TextNode]:
    return [TextNode(id_=f"n{number}", text=f"text {number}") for number in range(n)]


def two(prompt: str) -> str:
    """Two questions about the text that the prompt names."""
    about = prompt.removeprefix("2 about ")
    return f"Here are two questions:\n1. What is {about}?\n2. Why {about}?"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_index_rag_metrics.questions.generation._FIRST_PAUSE", 0.0)


@pytest.mark.parametrize(
    ("answer", "questions"),
    [
        ("1. What is A?\n2) Is it B?\n(3) Is it C?", ["What is A?", "Is it B?", "Is it C?"]),
        ("- What is A?\n* What is B?\n• What is C?", ["What is A?", "What is B?", "What is C?"]),
        ("1. What is A? 2. What is B?", ["What is A?", "What is B?"]),
        ("a) What is A?\nB) What is B?\nii. And C?", ["What is A?", "What is B?", "And C?"]),
        ("Question 1: What is A?\nQ2. What is B?", ["What is A?", "What is B?"]),
        ("**Question 1:** What is A?\n**Question 2**\nWhat is B?", ["What is A?", "What is B?"]),
        ("1. **What is A?**\n2. *What* is **B**?", ["What is A?", "What is B?"]),
        ("## Questions\n### What is A?\n> What is B?", ["What is A?", "What is B?"]),
        ("\"What's A?\"\n'Who's B?'\n“C?”\n«D ?»", ["What's A?", "Who's B?", "C?", "D ?"]),
        ('Who said "why?"', ['Who said "why?"']),
        ("What is A? (2 marks)\nWhat is B? Answer: C", ["What is A?", "What is B?"]),
        ('1. "What is (a)?" (Answer: b)\nWho said "why?" (B)', ["What is (a)?", 'Who said "why?"']),
        ("[ ] What is it?\n- [ ] Why?\n☐ Who?", ["What is it?", "Why?", "Who?"]),
        ("Multiple choice: Which?\n**Multiple-choice question 2:** Why?", ["Which?", "Why?"]),
        ("Here is what?\nNote: is it A?", ["Here is what?", "Note: is it A?"]),
        ('["What is A?", "What is B?"]', ["What is A?", "What is B?"]),
        ('```json\n{"questions": [{"question": "What is A?"}]}\n```', ["What is A?"]),
        ('[\n"What is A?",\n"What is B?",\n]', ["What is A?", "What is B?"]),
        ("| 1 | What is A? |\nWhat does a|b do?", ["What is A?", "What does a|b do?"]),
        ("<think>Ask what? Or why?</think>\nWhat is A?", ["What is A?"]),
        ("Sure! Here is one: What is A?", ["What is A?"]),
        ("What is A?\nwhat  is a ?\nWhat is A", ["What is A?"]),
        ("U.S. law came when?\nJ. Doe is who?", ["U.S. law came when?", "J. Doe is who?"]),
        ("3.5 percent of what?\nWhat is 2**3**2?", ["3.5 percent of what?", "What is 2**3**2?"]),
        ("What does __init__ do?\n¿Qué es A?", ["What does __init__ do?", "¿Qué es A?"]),
        ("ما هو هذا؟\nΤι είναι αυτό;\nԻ՞նչ է սա", ["ما هو هذا؟", "Τι είναι αυτό;", "Ի՞նչ է սա"]),
        ("以下是两个问题：\n1、什么是水\n请解释什么是水。", ["什么是水", "请解释什么是水。"]),
        ("问题二：树高吗。", ["树高吗。"]),
        ("【1】請問他是誰\n水是透明的。", ["請問他是誰"]),
        ("2つの質問です。\n1. 首都はどこですか\n空は青いです。", ["首都はどこですか"]),
        ("質問2：なぜ青いの？", ["なぜ青いの？"]),
        ("질문입니다:\n질문 1: 물은 무엇인가\n설명하시오.", ["물은 무엇인가"]),
        ("2. 왜 푸른가요?\n비가 오니까요.", ["왜 푸른가요?"]),
        ("คำถาม 2 ข้อ:\n1. กรุงเทพอยู่ที่ไหน\nกรุงเทพเป็นเมืองหลวง", ["กรุงเทพอยู่ที่ไหน"]),
    ],
)  # fmt: skip
def test_questions_are_freed_of_what_surrounds_them(answer: str, questions: list[str]) -> None:
    assert questions_in(answer) == questions


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "?",
        "Here are two questions based on the text:",
        "Here are two questions based on the context?",
        "Note: these questions test knowledge, okay?",
        "**Note that** the questions are hard, okay?",
        "Let me know if you need more.",
        "Would you like me to generate more questions?",
        "Do you want some more questions?",
        "Is there anything else I can do?",
        "State law prevails here.",
        "Explanation of the terms used",
        "List of questions about the text",
        "Provide feedback on these questions.",
        "Name: A. Smith",
        "Find below two questions.",
        "Explain the following:",
        "The lake freezes from the top.",
        "Question 1",
        "以下是两个关于水的问题",
        "I'm sorry, but I can't help with that.",
    ],
)
def test_other_lines_are_refused(answer: str) -> None:
    assert questions_in(answer) == []


@given(
    st.lists(
        st.sampled_from(["1. ", "- ", "**", '"', "Q: ", "#", "What is A", "?", "\n", " ", "か"])
    )
)
def test_a_question_is_bare_and_stays_what_it_is(parts: list[str]) -> None:
    for question in questions_in("".join(parts)):
        assert questions_in(question) == [question]
        assert not question.startswith(("1.", "-", "Q:", "#", " "))


def test_every_node_answers_its_questions() -> None:
    dataset = generate_question_context_pairs(nodes(2), ScriptedLLM(two), PROMPT)
    assert list(dataset.queries.values()) == [
        "What is text 0?",
        "Why text 0?",
        "What is text 1?",
        "Why text 1?",
    ]
    assert list(dataset.relevance.values()) == [["n0"], ["n0"], ["n1"], ["n1"]]
    assert dataset.corpus == {"n0": "text 0", "n1": "text 1"}
    assert dataset.notes == []


def test_query_ids_are_stable_and_dont_depend_on_other_nodes() -> None:
    first = generate_question_context_pairs(nodes(3), ScriptedLLM(two), PROMPT)
    again = generate_question_context_pairs(nodes(3)[::-1], ScriptedLLM(two), PROMPT, workers=1)
    assert first == again
    assert len(first) == 6


def test_a_question_about_several_nodes_stands_there_once() -> None:
    llm = ScriptedLLM(lambda _: "What is it?\nwhat is it ?")
    dataset = generate_question_context_pairs(nodes(2), llm)
    assert list(dataset.queries.values()) == ["What is it?"]
    assert list(dataset.relevance.values()) == [["n0", "n1"]]
    assert dataset.notes == ["2 of 2 nodes gave fewer than 2 questions"]


def test_no_more_questions_than_asked_for() -> None:
    llm = ScriptedLLM(lambda _: "A a?\nB b?\nC c?")
    dataset = generate_question_context_pairs(nodes(1), llm, num_questions_per_chunk=2)
    assert list(dataset.queries.values()) == ["A a?", "B b?"]


def test_notes_name_what_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    def answer(prompt: str) -> str:
        if prompt.endswith("text 2"):
            raise RuntimeError("rate limit")
        return "One a?" if prompt.endswith("text 1") else two(prompt)

    some = [*nodes(3), TextNode(id_="blank", text=" \n")]
    with caplog.at_level(logging.WARNING):
        dataset = generate_question_context_pairs(some, ScriptedLLM(answer), PROMPT)
    assert dataset.notes == [
        "1 of 3 nodes gave fewer than 2 questions",
        "1 of 4 nodes have no text, so nothing was asked about them",
        "1 of 3 nodes failed: 'n2' (RuntimeError: rate limit)",
    ]
    assert len(caplog.records) == 3
    assert len(dataset) == 3
    assert set(dataset.corpus) == {"n0", "n1", "n2", "blank"}


def test_a_node_is_tried_again() -> None:
    attempts = []

    def answer(prompt: str) -> str:
        attempts.append(prompt)
        if len(attempts) < 3:
            raise TimeoutError
        return two(prompt)

    dataset = generate_question_context_pairs(nodes(1), ScriptedLLM(answer), PROMPT)
    assert len(dataset) == 2
    assert len(attempts) == 3


def test_failure_can_end_the_run() -> None:
    def answer(prompt: str) -> str:
        if prompt.endswith("text 1"):
            raise RuntimeError("no quota")
        return two(prompt)

    with pytest.raises(GenerationFailed, match="it failed on node 'n1': RuntimeError: no quota"):
        generate_question_context_pairs(
            nodes(3), ScriptedLLM(answer), PROMPT, on_failure="fail", workers=1
        )


def test_when_every_node_fails_there_is_no_dataset() -> None:
    def answer(_: str) -> str:
        raise RuntimeError("bad key")

    with pytest.raises(GenerationFailed, match="3 of 3 nodes failed; the first is node 'n0'"):
        generate_question_context_pairs(nodes(3), ScriptedLLM(answer), retry_limit=1, workers=1)


@pytest.mark.parametrize("kind", [ScriptedLLM, AsyncLLM])
def test_workers_ask_at_once_and_the_loop_stays_free(kind: type[ScriptedLLM]) -> None:
    llm = kind(two, seconds=0.1)

    async def run() -> tuple[float, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        start = time.perf_counter()
        dataset = await agenerate_question_context_pairs(nodes(16), llm, PROMPT, workers=8)
        ticking.cancel()
        assert len(dataset) == 32
        return time.perf_counter() - start, ticks

    seconds, ticks = asyncio.run(run())
    assert seconds < 0.8  # 16 × 0.1 s / 8 workers = 0.2 s; one by one 1.6 s
    assert ticks >= 8


def test_no_more_workers_than_asked_for() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def answer(prompt: str) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return two(prompt)

    generate_question_context_pairs(nodes(12), ScriptedLLM(answer), PROMPT, workers=3)
    assert most == 3


def test_an_llm_whose_async_method_isnt_there_is_asked_in_a_thread() -> None:
    class HalfLLM(ScriptedLLM):
        async def acomplete(self, *_: Any, **__: Any) -> CompletionResponse:
            raise NotImplementedError

    assert len(generate_question_context_pairs(nodes(1), HalfLLM(two), PROMPT)) == 2  # type: ignore[call-arg]


def test_it_runs_inside_a_running_loop() -> None:
    async def notebook() -> int:
        return len(generate_question_context_pairs(nodes(1), ScriptedLLM(two), PROMPT))

    assert asyncio.run(notebook()) == 2


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
    llm = ScriptedLLM(two)
    with pytest.warns(RowsDropped, match="line 3"):
        generate_question_context_pairs(nodes(2), llm, PROMPT, journal=path)
    assert len(llm.asked) == 1


def test_a_damaged_journal_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    generate_question_context_pairs(nodes(2), ScriptedLLM(two), PROMPT, journal=path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{broken", lines[2], ""]))
    with pytest.warns(RowsDropped, match="line 2"):
        generate_question_context_pairs(nodes(2), ScriptedLLM(two), PROMPT, journal=path)
    path.write_text("a file of another kind\n")
    with pytest.raises(JournalDamaged, match="line 1"):
        generate_question_context_pairs(nodes(2), ScriptedLLM(two), PROMPT, journal=path)


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[2])
from test_questions import PROMPT, ScriptedLLM, nodes, two
from llama_index_rag_metrics.questions import generate_question_context_pairs
llm = ScriptedLLM(two, seconds=0.03)
generate_question_context_pairs(nodes(500), llm, PROMPT, workers=4, journal=sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_kill_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    arguments = [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent)]
    process = subprocess.Popen(
        arguments, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    until = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < 20:
        assert time.monotonic() < until, "the run doesn't get on"
        assert process.poll() is None, "the run ended before it was killed"
        time.sleep(0.01)
    process.kill()
    process.wait()
    finished = path.read_bytes().count(b"\n") - 1
    llm = ScriptedLLM(two)
    dataset = generate_question_context_pairs(nodes(500), llm, PROMPT, workers=4, journal=path)
    assert len(llm.asked) == 500 - finished
    assert len(dataset) == 1000


def test_arguments_of_old(tmp_path: Path) -> None:
    path = tmp_path / "qa.json"
    arguments = (PROMPT, 2, 1, "continue", 500, str(path), False)
    dataset = generate_question_context_pairs(nodes(2), ScriptedLLM(two), *arguments)  # type: ignore[arg-type]
    saved = json.loads(path.read_text())
    assert saved["relevant_docs"] == dict(dataset.relevance)
    assert saved["mode"] == "text"
    llm = ScriptedLLM(two)
    assert generate_question_context_pairs(nodes(2), llm, *arguments) == dataset  # type: ignore[arg-type]
    assert llm.asked == []


def test_the_default_llm_and_prompt_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = ScriptedLLM(lambda _: "Who was it?\nWhen was it?")
    monkeypatch.setattr(Settings, "_llm", llm)
    assert len(generate_question_context_pairs(nodes(1))) == 2
    assert "text 0" in llm.asked[0]
    assert "Write 2 different questions" in llm.asked[0]


def test_a_prompt_template_works() -> None:
    dataset = generate_question_context_pairs(nodes(1), ScriptedLLM(two), PromptTemplate(PROMPT))
    assert list(dataset.queries.values()) == ["What is text 0?", "Why text 0?"]


def test_no_question_at_all_is_an_error_that_shows_the_answers() -> None:
    with pytest.raises(NoQuestions) as caught:
        generate_question_context_pairs(nodes(7), ScriptedLLM("On {}.".format), PROMPT)
    assert "no questions in the LLM's answers for 7 nodes" in str(caught.value)
    assert "'n0': 'On 2 about text 0.'" in str(caught.value)
    assert "and 2 more" in str(caught.value)
    assert "qa_generate_prompt_tmpl" in str(caught.value)


@pytest.mark.parametrize(
    ("some", "wording"),
    [(nodes(1), "They are empty."), ([TextNode(text=" ")], "none of the nodes has any text")],
)
def test_no_answer_or_no_text_is_an_error(some: list[TextNode], wording: str) -> None:
    with pytest.raises(NoQuestions, match=wording):
        generate_question_context_pairs(some, ScriptedLLM(lambda _: "\n"))


IMPERATIVES = [
    "Describe the process by which the lake freezes.",
    "Explain why the lake freezes from the top",
    "In your own words, summarize what the crew found.",
    "Based on the context, identify three causes of the fire.",
    "Briefly outline the steps that follow.",
    "Name two moons of Saturn.",
    "Discuss the role of ice. Give examples.",
    "Compare and contrast A and B.",
    "Beschreiben Sie den Ablauf der Reise.",
    "Nenne zwei Monde des Saturn.",
    "Décrivez le rôle de la glace.",
    "Explique por qué el lago se congela.",
    "Descrivi il ruolo del ghiaccio.",
    "Опишите роль льда.",
    "简述湖水结冰的过程。",
    "氷の役割を説明してください。",
    "얼음의 역할을 설명하시오.",
]


@pytest.mark.parametrize("imperative", IMPERATIVES)
def test_an_imperative_is_a_question(imperative: str) -> None:
    answer = f"Here are the questions you asked for:\n\n1. {imperative}\n2. **{imperative}**"
    assert questions_in(answer) == [imperative]


def test_what_is_refused_is_listed(caplog: pytest.LogCaptureFixture) -> None:
    answers = {"0": "Explain what text 0 is.\nIt is text.", "1": "What?\nWhy?\nEnough of it."}
    llm = ScriptedLLM(lambda prompt: answers[prompt[-1]])
    with caplog.at_level(logging.INFO):
        dataset = generate_question_context_pairs(nodes(2), llm, PROMPT)
    assert list(dataset.queries.values()) == ["Explain what text 0 is.", "What?", "Why?"]
    # the node that gave enough of them isn't looked at
    assert dataset.notes == [
        "1 of 2 nodes gave fewer than 2 questions",
        "1 lines weren't questions: 'n0': 'It is text.'",
    ]
    assert "not a question, from node 'n0': 'It is text.'" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "wording"),
    [
        ({"nodes": []}, "nodes: expected at least one node"),
        (
            {"nodes": [TextNode(id_="a", text="x"), TextNode(id_="a", text="y")]},
            "every node id once",
        ),
        ({"num_questions_per_chunk": 0}, "num_questions_per_chunk: expected a whole number"),
        ({"workers": 0}, "workers: expected a whole number of at least 1, got 0"),
        ({"retry_limit": 1.5}, "retry_limit: expected a whole number"),
        ({"on_failure": "stop"}, "on_failure: expected 'skip' or 'fail', got 'stop'"),
        ({"qa_generate_prompt_tmpl": "Ask!"}, "a prompt with {context_str} in it"),
        ({"qa_generate_prompt_tmpl": 'As {"json"}: {context_str}'}, "a prompt with no braces but"),
    ],
)
def test_arguments_that_cant_be_used(arguments: dict[str, Any], wording: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        generate_question_context_pairs(**{"nodes": nodes(1), "llm": ScriptedLLM(two), **arguments})
    assert wording in str(caught.value)


def test_progress_is_shown_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    generate_question_context_pairs(nodes(3), ScriptedLLM(two), PROMPT, show_progress=True)
    captured = capsys.readouterr()
    assert "generating questions" in captured.err
    assert "3/3" in captured.err
    assert captured.out == ""
    generate_question_context_pairs(nodes(3), ScriptedLLM(two), PROMPT)
    assert capsys.readouterr().err == ""
