"""A refused key ends asking, in whatever words the client of the service tells it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from llama_index.core.schema import TextNode
from support.openai_server import OpenAIServer, openai_server

from llama_index_rag_metrics import (
    LLMRelevancy,
    Ranking,
    RetrievalDataset,
    Run,
    generate_question_context_pairs,
)
from llama_index_rag_metrics.runtime.errors import LabelWarning, ScorerFailed
from llama_index_rag_metrics.runtime.retries import Refusal

pytestmark = pytest.mark.servers

QUERIES = {f"q{n}": f"{n}?" for n in range(12)}
DATASET = RetrievalDataset(QUERIES, {query_id: ["d"] for query_id in QUERIES})


KEY = "sk-abcdefghij0123456789"


@pytest.fixture
def refused() -> Iterator[tuple[Any, OpenAIServer]]:
    """OpenAI's own client, and a server on loopback that refuses its key."""
    openai = pytest.importorskip("llama_index.llms.openai", reason="OpenAI's client")
    with openai_server(lambda _: '{"grade": 1}') as server:
        server.key = "another"
        yield openai.OpenAI("gpt-4o-mini", api_key=KEY, api_base=server.api_base), server


RUN = Run({query_id: Ranking(["a", "b"], texts=["one", "two"]) for query_id in QUERIES})


def test_a_judge_asks_no_more_than_it_has_workers(refused: tuple[Any, OpenAIServer]) -> None:
    llm, server = refused
    judge = LLMRelevancy(llm=llm)
    with pytest.warns(LabelWarning, match=r"12 of 12 questions .*provided: \*\*\*"):
        assert judge.grade(QUERIES, RUN, workers=1) == {}
    assert len(server.requests) == 2  # the texts of one question are asked for at once
    server.key = KEY  # the key is in order again: another call asks
    assert len(judge.grade(QUERIES, RUN)) == 12


def test_questions_are_asked_for_once(refused: tuple[Any, OpenAIServer]) -> None:
    llm, server = refused
    nodes = [TextNode(id_=str(n), text=f"text {n}") for n in range(6)]
    with pytest.raises(ScorerFailed) as caught:
        generate_question_context_pairs(nodes, llm, workers=1)
    assert len(server.requests) == 1
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_a_service_that_forbids_one_query_allows_others() -> None:
    class Forbidden(Exception):
        status_code = 403

    asked: list[int] = []

    async def answer(n: int) -> int:
        asked.append(n)
        if n % 2:
            raise Forbidden
        return n

    async def ask_all(numbers: list[int]) -> int:
        refusal, n_forbidden = Refusal(), 0
        for n in numbers:
            try:
                await refusal.ask(partial(answer, n))
            except Forbidden:
                n_forbidden += 1
        return n_forbidden

    assert asyncio.run(ask_all([0, 1, 2, 3])) == 2
    assert asked == [0, 1, 2, 3]
    # refused before anything was answered: nobody else asks
    assert asyncio.run(ask_all([1, 2, 3])) == 3
    assert asked == [0, 1, 2, 3, 1]
