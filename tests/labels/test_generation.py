"""Questions written by an LLM: which nodes answer them, and what becomes of failures."""

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import PromptTemplate, Settings
from llama_index.core.llms import ChatMessage, ChatResponse
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.schema import TextNode
from support.question_llms import PROMPT, ScriptedLLM, nodes, two
from support.scripted import ScriptedFunctions

from llama_index_rag_metrics.labels.question_generation import (
    generate_question_context_pairs,
    parse,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput, ScorerFailed


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_index_rag_metrics.labels.question_generation._FIRST_PAUSE", 0.0)


def test_nodes_all_answer_their_questions() -> None:
    dataset = generate_question_context_pairs(nodes(2), ScriptedLLM(two), PROMPT)
    questions = ["What is text 0?", "Why text 0?", "What is text 1?", "Why text 1?"]
    assert list(dataset.queries.values()) == questions
    assert list(dataset.relevance.values()) == [["n0"], ["n0"], ["n1"], ["n1"]]
    assert dataset.corpus == {"n0": "text 0", "n1": "text 1"}
    assert dataset.notes == []


def test_query_ids_are_stable_and_dont_depend_on_other_nodes() -> None:
    first = generate_question_context_pairs(nodes(3), ScriptedLLM(two), PROMPT)
    again = generate_question_context_pairs(nodes(3)[::-1], ScriptedLLM(two), PROMPT, workers=1)
    assert first == again
    assert len(first) == 6


def test_question_about_several_nodes_is_there_once() -> None:
    llm = ScriptedLLM(lambda _: "What is it?\nwhat is it ?")
    dataset = generate_question_context_pairs(nodes(2), llm)
    assert list(dataset.queries.values()) == ["What is it?"]
    assert list(dataset.relevance.values()) == [["n0", "n1"]]
    assert dataset.notes == ["2 of 2 nodes gave fewer than 2 questions"]


def test_questions_are_no_more_than_asked_for() -> None:
    llm = ScriptedLLM(lambda _: "A a?\nB b?\nC c?")
    dataset = generate_question_context_pairs(nodes(1), llm, num_questions_per_chunk=2)
    assert list(dataset.queries.values()) == ["A a?", "B b?"]
    assert dataset.notes == ["1 questions beyond the 2 asked for: 'n0': 'C c?'"]


def test_model_that_calls_functions_returns_a_list() -> None:
    class Calling(ScriptedFunctions):
        def get_tool_calls_from_response(self, *_: Any, **__: Any) -> list[ToolSelection]:
            questions = ["What is\nit?", "I can't help with that. Shall I try?", "Why?"]
            kwargs = {"questions": questions}
            return [ToolSelection(tool_id="1", tool_name="Questions", tool_kwargs=kwargs)]

    prompt = "2 about text 0"
    dataset = generate_question_context_pairs(nodes(1), Calling(script={prompt: []}), PROMPT)
    assert list(dataset.queries.values()) == ["What is it?", "Why?"]
    assert dataset.notes == [
        "1 lines weren't taken as questions: 'n0': \"I can't help with that. Shall I try?\""
    ]


def test_model_that_calls_none_is_read_by_lines() -> None:
    class Writing(ScriptedFunctions):
        def chat(self, messages: Any, **_: Any) -> ChatResponse:
            return ChatResponse(message=ChatMessage(role="assistant", content="What is it?\nWhy?"))

    dataset = generate_question_context_pairs(nodes(1), Writing(script={}), PROMPT)
    assert list(dataset.queries.values()) == ["What is it?", "Why?"]


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


def test_node_is_tried_again() -> None:
    attempts = []

    def answer(prompt: str) -> str:
        attempts.append(prompt)
        if len(attempts) < 3:
            raise TimeoutError
        return two(prompt)

    dataset = generate_question_context_pairs(nodes(1), ScriptedLLM(answer), PROMPT)
    assert len(dataset) == 2
    assert len(attempts) == 3


def test_dataset_isnt_made_when_every_node_fails() -> None:
    def answer(_: str) -> str:
        raise RuntimeError("bad key")

    with pytest.raises(ScorerFailed, match=r"3 of 3 nodes failed: 'n\d' \(RuntimeError: bad key\)"):
        generate_question_context_pairs(nodes(3), ScriptedLLM(answer), retry_limit=1, workers=1)


def test_workers_are_no_more_than_asked_for() -> None:
    running, most, lock = 0, 0, threading.Lock()
    at_once = threading.Barrier(3)

    def answer(prompt: str) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if len(llm.asked) > 1:  # the first one goes alone
            at_once.wait(60)
        with lock:
            running -= 1
        return two(prompt)

    llm = ScriptedLLM(answer)
    generate_question_context_pairs(nodes(13), llm, PROMPT, workers=3)
    assert most == 3


def test_default_llm_and_prompt_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = ScriptedLLM(lambda _: "Who was it?\nWhen was it?")
    monkeypatch.setattr(Settings, "_llm", llm)
    assert len(generate_question_context_pairs(nodes(1))) == 2
    assert "text 0" in llm.asked[0]
    assert "Write 2 different questions" in llm.asked[0]


def test_prompt_template_works() -> None:
    dataset = generate_question_context_pairs(nodes(1), ScriptedLLM(two), PromptTemplate(PROMPT))
    assert list(dataset.queries.values()) == ["What is text 0?", "Why text 0?"]


def test_answers_without_a_question_are_an_error_that_shows_them() -> None:
    with pytest.raises(ScorerFailed) as caught:
        generate_question_context_pairs(nodes(7), ScriptedLLM("On {}.".format), PROMPT)
    assert "no questions about 7 nodes with text" in str(caught.value)
    assert "'n0': 'On 2 about text 0.'" in str(caught.value)
    assert "and 2 more" in str(caught.value)
    assert "qa_generate_prompt_tmpl" in str(caught.value)
    with pytest.raises(ScorerFailed, match="1 of 1 nodes have no text"):
        generate_question_context_pairs([TextNode(text=" ")], ScriptedLLM(two))


def test_refusal_over_two_lines_is_no_question() -> None:
    answers = {"0": "I can't help with that.\n\nCould you say more?", "1": "What?\nWhy?"}
    llm = ScriptedLLM(lambda prompt: answers[prompt[-1]])
    dataset = generate_question_context_pairs(nodes(2), llm, PROMPT)
    assert list(dataset.queries.values()) == ["What?", "Why?"]
    assert "'n0': \"I can't help with that.\", 'n0': 'Could you say more?'" in dataset.notes[1]


def test_questions_stay_beside_a_sentence() -> None:
    answers = {"0": "Here are two.\nWhat?\nWhy?", "1": "There is one alone.\n1. Who is it?"}
    llm = ScriptedLLM(lambda prompt: answers[prompt[-1]])
    dataset = generate_question_context_pairs(nodes(2), llm, PROMPT, num_questions_per_chunk=3)
    assert list(dataset.queries.values()) == ["What?", "Why?", "Who is it?"]


def test_lines_that_are_no_questions_are_listed() -> None:
    answers = {"0": "Explain what text 0 is.\nIt is text.", "1": "What?\nWhy?\nEnough of it."}
    llm = ScriptedLLM(lambda prompt: answers[prompt[-1]])
    dataset = generate_question_context_pairs(nodes(2), llm, PROMPT)
    assert list(dataset.queries.values()) == ["What?", "Why?"]
    assert dataset.notes == [
        "1 of 2 nodes gave fewer than 2 questions",
        "3 lines weren't taken as questions: 'n0': 'Explain what text 0 is.', 'n0': 'It is text.', "
        "'n1': 'Enough of it.'",
    ]


@pytest.mark.parametrize(
    ("arguments", "wording"),
    [
        ({"nodes": []}, "nodes: expected at least one node"),
        ({"nodes": ["a text"]}, "index.docstore.docs or vector_store.get_nodes(None) has them"),
        ({"nodes": [TextNode(id_="a", text=text) for text in "xy"]}, "twice, with different texts"),
        ({"num_questions_per_chunk": 0}, "num_questions_per_chunk: expected a whole number"),
        ({"llm": "gpt-5"}, "llm: expected an LLM of LlamaIndex, got 'gpt-5'"),
        ({"workers": 0}, "workers: expected a whole number of at least 1, got 0"),
        ({"retry_limit": 1.5}, "retry_limit: expected a whole number"),
        ({"qa_generate_prompt_tmpl": "Ask!"}, "a prompt with {context_str}, and no"),
        (
            {"qa_generate_prompt_tmpl": 'As {"json"}: {context_str}'},
            "a prompt with {context_str}, and no",
        ),
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


@pytest.mark.parametrize(
    ("answer", "questions"),
    [
        ("1. What is A?\n2) Is it B?\n(3) Is it C?", ["What is A?", "Is it B?", "Is it C?"]),
        ("- What is A?\n* What is B?\n• What is C?", ["What is A?", "What is B?", "What is C?"]),
        ("1. **What is A?**\n## What is B?", ["What is A?", "What is B?"]),
        ("1、什么是水？\n2：為什麼？", ["什么是水？", "為什麼？"]),
        ("<think>Ask what?</think>\nWhat is A?", ["What is A?"]),
        ("3.5 percent of it?\n2 moons have what?", ["3.5 percent of it?", "2 moons have what?"]),
        ("What is A?\nwhat  is a ?", ["What is A?"]),
        ("?\nExplain the following:\nI'm sorry.", []),
        ("I'm sorry, I can't help with that passage. Do you have another one?", []),
        ("I'm sorry, but I can't help with that. Could you provide more context?", []),
        ("抱歉，我不能回答。您還有別的問題嗎？", []),
        ("What did Prof. Orr say to Dr. Li?", ["What did Prof. Orr say to Dr. Li?"]),
    ],
)
def test_lines_that_end_in_a_question_mark(answer: str, questions: list[str]) -> None:
    assert parse(answer)[0] == questions


def test_questions_are_paid_for_once(tmp_path: Path) -> None:
    def failing(prompt: str) -> str:
        if prompt.endswith("text 2"):
            raise RuntimeError
        return two(prompt)

    kept = tmp_path / "questions.sqlite"
    generate_question_context_pairs(nodes(4), ScriptedLLM(failing), PROMPT, cache=kept)
    llm = ScriptedLLM(two)
    dataset = generate_question_context_pairs(nodes(4), llm, PROMPT, cache=kept)
    assert llm.asked == ["2 about text 2"]
    assert len(dataset) == 8
    other = ScriptedLLM(two, name="better")
    generate_question_context_pairs(nodes(4), other, PROMPT, cache=kept)
    assert len(other.asked) == 4
