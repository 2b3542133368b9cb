"""Answers that fit a model: of LLMs that call functions, and of those that write texts."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.types import PydanticProgramMode
from pydantic import BaseModel, ConfigDict, Field
from support.llms import Calling, Completing
from support.openai_server import openai_server

from llama_index_rag_metrics.runtime.cache.fetching import Tally
from llama_index_rag_metrics.runtime.errors import BadAnswer
from llama_index_rag_metrics.runtime.llms import structured_answer

pytestmark = pytest.mark.servers


class Town(BaseModel):
    """A town."""

    model_config = ConfigDict(strict=True, extra="forbid")

    name: str
    people: int = Field(..., ge=1)


FORLI: dict[str, Any] = {"name": "Forlì", "people": 117_000}
SAID = json.dumps(FORLI)


def completing(answer: Callable[[str], str] | str, **fields: Any) -> Completing:
    said = answer if callable(answer) else lambda _: answer
    return Completing(answer=said, asked=[], **fields)


def calling(answer: Callable[[str], Any] | Any, **fields: Any) -> Calling:
    said = answer if callable(answer) else lambda _: answer
    return Calling(answer=said, asked=[], **fields)


def town(llm: Any, prompt: str = "Which town?", **options: Any) -> Town:
    return asyncio.run(structured_answer(llm, Town, prompt, asked_by="towns", **options))


@pytest.mark.parametrize(
    "said",
    [
        SAID,
        f"```json\n{SAID}\n```",
        f"Sure! Here is the town you asked for:\n\n{SAID}\n\nAnything else? {{smiles}}",
        f"<think>Is it {{Rimini}}?\n</think>\n{SAID}",
        f'{{"Town": {SAID}}}',
        f"{SAID}\nTo say it again: {SAID}",
    ],
)
@pytest.mark.parametrize("llm", [completing, calling])
def test_one_answer_however_it_is_wrapped(said: str, llm: Callable[[str], Any]) -> None:
    asked = llm(said)
    assert town(asked) == Town(**FORLI)
    assert len(asked.asked) == 1


def test_functions_are_called_where_the_llm_can() -> None:
    llm = calling([FORLI])
    assert town(llm, "Which {town}?") == Town(**FORLI)
    assert llm.asked == ["Which {town}?"]


def test_an_llm_without_functions_is_told_the_schema() -> None:
    for llm in (completing(SAID), calling(SAID, pydantic_program_mode=PydanticProgramMode.LLM)):
        assert town(llm, "Which {town}?") == Town(**FORLI)
        (prompt,) = llm.asked
        assert prompt.startswith("Which {town}?\n")
        assert '"people"' in prompt


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("Forlì, I think.", "no JSON in 'Forlì, I think.'"),
        ('{"name": "Forlì", "people": 0}', "people: Input should be greater than or equal to 1"),
        ('{"name": "Forlì", "people": 117000,}', "no JSON in"),
        ('{"name": "Forlì", "people": 1, "people": 2}', "'people' is given twice"),
        (f'{SAID} or {{"name": "Rimini", "people": 150000}}', "two answers that differ"),
        ("", "no JSON in ''"),
    ],
)
@pytest.mark.parametrize("llm", [completing, calling])
def test_a_refused_answer_is_asked_for_once_more(
    said: str, problem: str, llm: Callable[[Any], Any]
) -> None:
    asked = llm(lambda prompt: SAID if "was refused" in prompt else said)
    assert town(asked) == Town(**FORLI)
    first, second = asked.asked
    if said or isinstance(asked, Completing):
        assert problem in second.removeprefix(first.partition("\n\n")[0])
    stubborn = llm(said)
    with pytest.raises(BadAnswer, match="towns: no usable answer in two tries: ") as raised:
        town(stubborn)
    assert len(stubborn.asked) == 2
    if said or isinstance(asked, Completing):
        assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("calls", "problem"),
    [
        ([{"name": "Forlì", "people": "many"}], "people: Input should be a valid integer"),
        ([FORLI, {"name": "Rimini", "people": 150_000}], "two answers that differ"),
    ],
)
def test_calls_that_do_not_fit(calls: list[dict[str, Any]], problem: str) -> None:
    llm = calling(lambda prompt: [FORLI] if "was refused" in prompt else calls)
    assert town(llm) == Town(**FORLI)
    assert problem in llm.asked[1]


def test_the_same_call_twice_is_one_answer() -> None:
    llm = calling([FORLI, FORLI])
    assert town(llm) == Town(**FORLI)
    assert len(llm.asked) == 1


@pytest.mark.parametrize("llm", [completing(SAID), calling([FORLI])], ids=["text", "function"])
def test_an_answer_to_another_question_is_refused(llm: Any) -> None:
    def check(answer: Town) -> None:
        raise ValueError(f"{answer.name} isn't on the map")

    with pytest.raises(BadAnswer, match="in two tries: Forlì isn't on the map"):
        town(llm, check=check, reminder="Look at the map.")
    assert "Forlì isn't on the map\nLook at the map." in llm.asked[1]


def test_other_forms_are_read_as_the_caller_says() -> None:
    def read(text: str) -> Town:
        name, people = text.split(":")
        return Town(name=name, people=int(people))

    for llm in (completing("Forlì: 117000"), calling("Forlì: 117000")):
        assert town(llm, read=read) == Town(**FORLI)


def test_requests_and_tokens_are_counted() -> None:
    for llm in (
        completing("no", usage={"prompt_tokens": 40, "completion_tokens": 2}),
        calling("no", usage={"input_tokens": 40, "output_tokens": 2}),
    ):
        tally = Tally()
        with pytest.raises(BadAnswer):
            town(llm, tally=tally)
        usage = tally.usage
        assert (usage.requests, usage.tokens_in, usage.tokens_out) == (2, 80, 4)
        assert str(usage).endswith("80 tokens read and 4 written")


def test_many_at_once_hear_their_own_answers_only() -> None:
    async def ask() -> list[tuple[Town, int]]:
        async def answer_of(n: int) -> tuple[Town, int]:
            tally = Tally()
            said = f"Town: {json.dumps({'name': str(n), 'people': n + 1})}"
            llm = calling(said, usage={"prompt_tokens": n + 1, "completion_tokens": 1})
            answer = await structured_answer(llm, Town, "?", asked_by="towns", tally=tally)
            return answer, tally.usage.tokens_in

        return await asyncio.gather(*map(answer_of, range(50)))

    handlers = list(get_dispatcher().event_handlers)
    assert asyncio.run(ask()) == [(Town(name=str(n), people=n + 1), n + 1) for n in range(50)]
    assert get_dispatcher().event_handlers == handlers  # nobody listens any longer


def test_what_a_service_raises_comes_out_as_it_is() -> None:
    class Down(Exception):
        pass

    def fail(_: str) -> str:
        raise Down("no connection")

    for llm in (completing(fail), calling(fail)):
        with pytest.raises(Down):
            town(llm)
        assert len(llm.asked) == 1


def test_no_secret_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SOME_API_KEY", "hush-hush-12345")
    llm = completing("my key is hush-hush-12345")
    with pytest.raises(BadAnswer) as raised:
        town(llm)
    assert "hush-hush" not in str(raised.value)
    assert "hush-hush" not in llm.asked[1]
    assert "***" in llm.asked[1]


class TestOpenAI:
    """The real client, which calls functions with one model and has a JSON mode with another."""

    @pytest.mark.parametrize("model", ["gpt-3.5-turbo", "gpt-4o-mini"])
    @pytest.mark.parametrize("said", [SAID, f"Certainly:\n```json\n{SAID}\n```"])
    def test_answers(self, model: str, said: str) -> None:
        openai = pytest.importorskip("llama_index.llms.openai", reason="OpenAI's client")
        with openai_server(lambda _: said) as server:
            llm = openai.OpenAI(model=model, api_key="sk-loopback", api_base=server.api_base)
            tally = Tally()
            assert town(llm, tally=tally) == Town(**FORLI)
            assert len(server.requests) == tally.usage.requests == 1
            assert (tally.usage.tokens_in, tally.usage.tokens_out) == (100, 7)

    def test_it_is_asked_once_more(self) -> None:
        openai = pytest.importorskip("llama_index.llms.openai", reason="OpenAI's client")
        with openai_server(lambda prompt: SAID if "was refused" in prompt else "Forlì") as server:
            llm = openai.OpenAI(
                model="gpt-3.5-turbo", api_key="sk-loopback", api_base=server.api_base
            )
            assert town(llm) == Town(**FORLI)
            assert "no JSON in 'Forlì'" in server.prompts[1]
