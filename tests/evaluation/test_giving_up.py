"""A refused key is said, in whatever words the client of the service tells it, without the key."""

import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.schema import TextNode
from support.openai_server import OpenAIServer, openai_server

from llama_index_rag_metrics import LLMRelevancy, Ranking, Run, generate_question_context_pairs
from llama_index_rag_metrics.runtime.errors import LabelWarning, ScorerFailed

pytestmark = pytest.mark.servers

QUERIES = {f"q{n}": f"{n}?" for n in range(12)}
KEY = "sk-abcdefghij0123456789"


@pytest.fixture
def refused() -> Iterator[tuple[Any, OpenAIServer]]:
    """OpenAI's own client, and a server on loopback that refuses its key."""
    openai = pytest.importorskip("llama_index.llms.openai", reason="OpenAI's client")
    with openai_server(lambda _: '{"grade": 1}') as server:
        server.key = "another"
        yield openai.OpenAI("gpt-4o-mini", api_key=KEY, api_base=server.api_base), server


RUN = Run({query_id: Ranking(["a", "b"], texts=["one", "two"]) for query_id in QUERIES})


def test_judge_says_why_and_grades_again(refused: tuple[Any, OpenAIServer]) -> None:
    llm, server = refused
    judge = LLMRelevancy(llm=llm)
    with pytest.warns(LabelWarning, match=r"12 of 12 questions .*provided: \*\*\*"):
        assert judge.grade(QUERIES, RUN, workers=1) == {}
    server.key = KEY  # the key is in order again: another call asks
    assert len(judge.grade(QUERIES, RUN)) == 12


def test_questions_are_asked_for_once(refused: tuple[Any, OpenAIServer]) -> None:
    llm, server = refused
    nodes = [TextNode(id_=str(n), text=f"text {n}") for n in range(6)]
    with pytest.raises(ScorerFailed) as caught:
        generate_question_context_pairs(nodes, llm, workers=1)
    assert len(server.requests) == len(nodes)  # 401 is no error that passes
    assert KEY not in "".join(traceback.format_exception(caught.value))
