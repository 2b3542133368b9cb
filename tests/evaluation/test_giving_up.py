"""A refused key ends asking, in whatever words the client of the service tells it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal

import pytest
from llama_index.core.schema import TextNode
from support.openai_server import OpenAIServer, openai_server

from llama_index_rag_metrics import (
    LLMRelevancy,
    Ranking,
    RetrievalDataset,
    Run,
    evaluate,
    generate_question_context_pairs,
)
from llama_index_rag_metrics.runtime.errors import GenerationFailed, LabelWarning
from llama_index_rag_metrics.runtime.retries import Refusal
from llama_index_rag_metrics.runtime.sync import settled

pytestmark = pytest.mark.servers

QUERIES = {f"q{n}": f"{n}?" for n in range(12)}
DATASET = RetrievalDataset(QUERIES, {query_id: ["d"] for query_id in QUERIES})


@pytest.fixture
def search() -> Iterator[Any]:
    """A method of a gRPC server on loopback that answers with the status that it is asked for."""
    grpc = pytest.importorskip("grpc", reason="the component itself")

    class Refuse(grpc.GenericRpcHandler):  # type: ignore[misc, name-defined]
        def service(self, _: Any) -> Any:
            def handle(request: bytes, context: Any) -> bytes:
                name = request.decode()
                if name != "OK":
                    context.abort(grpc.StatusCode[name], "refused here")
                return b""

            return grpc.unary_unary_rpc_method_handler(handle)

    server = grpc.server(ThreadPoolExecutor(2), [Refuse()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel.unary_unary("/vectors.Store/Search")
    server.stop(None).wait()


@pytest.mark.filterwarnings("ignore::llama_index_rag_metrics.runtime.errors.EveryQueryFailed")
@pytest.mark.parametrize(
    ("status", "n_sent"), [("UNAUTHENTICATED", 1), ("PERMISSION_DENIED", 1), ("UNAVAILABLE", 12)]
)
def test_grpc(search: Any, status: str, n_sent: int) -> None:
    sent = 0

    def retrieve(_: str) -> list[str]:
        nonlocal sent
        sent += 1
        search(status.encode())
        return ["d"]

    results = evaluate(retrieve, DATASET, ["recall"], workers=1)
    assert (len(results.scores.failed), sent) == (12, n_sent)


def test_grpc_forbids_one_query_of_many(search: Any) -> None:

    def retrieve(query: str) -> list[str]:
        search(b"PERMISSION_DENIED" if query == "5?" else b"OK")
        return ["d"]

    results = evaluate(retrieve, DATASET, ["recall"], workers=1)
    assert list(results.scores.failed) == ["q5"]


@pytest.mark.filterwarnings("ignore::llama_index_rag_metrics.runtime.errors.EveryQueryFailed")
@pytest.mark.parametrize(
    ("code", "status", "n_sent"),
    [
        ("UnrecognizedClientException", 400, 1),
        ("ExpiredTokenException", 400, 1),
        ("AccessDeniedException", 400, 1),
        ("SomethingElse", 401, 1),
        ("ThrottlingException", 400, 12),
    ],
)
def test_aws(code: str, status: int, n_sent: int) -> None:
    exceptions = pytest.importorskip("botocore.exceptions", reason="the component itself")
    sent = 0

    def retrieve(_: str) -> list[str]:
        nonlocal sent
        sent += 1
        answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise exceptions.ClientError(answer, "Retrieve")

    results = evaluate(retrieve, DATASET, ["recall"], workers=1)
    assert (len(results.scores.failed), sent) == (12, n_sent)


KEY = "sk-abcdefghij0123456789"


@pytest.fixture
def refused() -> Iterator[tuple[Any, OpenAIServer]]:
    """OpenAI's own client, and a server on loopback that refuses its key."""
    openai = pytest.importorskip("llama_index.llms.openai", reason="OpenAI's client")
    with openai_server(lambda _: '{"grade": 1}') as server:
        server.key = "another"
        yield openai.OpenAI("gpt-4o-mini", api_key=KEY, api_base=server.api_base), server


RUN = Run({query_id: Ranking(["a", "b"], texts=["one", "two"]) for query_id in QUERIES})


def test_a_judge_asks_once(refused: tuple[Any, OpenAIServer]) -> None:
    llm, server = refused
    judge = LLMRelevancy(llm=llm)
    with pytest.warns(LabelWarning, match=r"12 of 12 questions .*provided: \*\*\*"):
        assert judge.grade(QUERIES, RUN) == {}
    assert len(server.requests) == 1
    assert judge.usage is not None
    assert judge.usage.requests == 1
    server.key = KEY  # the key is in order again: another call asks
    assert len(judge.grade(QUERIES, RUN)) == 12


@pytest.mark.parametrize("on_failure", ["skip", "fail"])
def test_questions_are_asked_for_once(
    refused: tuple[Any, OpenAIServer], on_failure: Literal["skip", "fail"]
) -> None:
    llm, server = refused
    nodes = [TextNode(id_=str(n), text=f"text {n}") for n in range(6)]
    with pytest.raises(GenerationFailed) as caught:
        generate_question_context_pairs(nodes, llm, on_failure=on_failure)
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
        refusal = Refusal()
        outcomes = await settled(refusal.ask(partial(answer, n)) for n in numbers)
        return sum(isinstance(outcome, Forbidden) for outcome in outcomes)

    assert asyncio.run(ask_all([0, 1, 2, 3])) == 2
    assert asked == [0, 1, 2, 3]
    # refused before anything was answered: nobody else asks
    assert asyncio.run(ask_all([1, 2, 3])) == 3
    assert asked == [0, 1, 2, 3, 1]
