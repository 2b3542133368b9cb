"""Asking LLMs: their replies, what they think aloud, and texts in a prompt that stay texts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.openai_server import openai_server

from llama_index_rag_metrics.runtime.models import ask_llm, json_and_text, quote, without_reasoning

pytestmark = pytest.mark.servers


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        ("", []),
        ("none { here ] [", []),
        ('a {"b": [1]} [2] {"c": 3}', [{"b": [1]}, {"c": 3}]),
        ('{"a": {"b": 1}}', [{"a": {"b": 1}}]),
        ('{broken {"a": 1}', [{"a": 1}]),
        ('{"a": "}{"}', [{"a": "}{"}]),
    ],
)
def test_json_objects(text: str, objects: list[Any]) -> None:
    assert json_and_text(text)[0] == objects


def test_reasoning_of_an_llm_is_removed() -> None:
    assert without_reasoning("<THINK>a</think>b<thinking>c</thinking>d") == "bd"
    assert without_reasoning("a</think>b") == "b"
    assert without_reasoning("<think>never closed {") == ""
    assert without_reasoning("<think>a</think>b\n <Thinking>cut off") == "b\n"
    assert without_reasoning("Sure. <think>Maybe the final score: 1") == "Sure."
    mentioned = '{"facts": ["The <think> tag", "<think> opens"]}'
    assert without_reasoning(mentioned) == mentioned


@given(st.text() | st.from_regex(r"</?passage(-[0-9a-f]+)?>"))
def test_texts_close_no_tag(text: str) -> None:
    first, *_ = quoted = quote("passage", text).splitlines()
    assert quoted[-1] == first.replace("<", "</")
    assert quoted[-1] not in text


@pytest.mark.parametrize("model", ["gpt-3.5-turbo", "gpt-4o-mini"])
def test_openais_client(model: str) -> None:
    openai = pytest.importorskip("llama_index.llms.openai", reason="OpenAI's client")
    with openai_server(lambda _: "so") as server:
        llm = openai.OpenAI(model=model, api_key="sk-loopback", api_base=server.api_base)
        assert ask_llm(llm, "?") == "so"
