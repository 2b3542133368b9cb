"""Requests that are sent again: when, how often, and when not."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from llama_index.core.llms import LLM
from llama_index.core.schema import TextNode
from support.cohere_server import CohereServer, Fault, cohere_server

from llama_index_rag_metrics import CohereRerankRelevancy
from llama_index_rag_metrics.labels.question_generation import generate_question_context_pairs
from llama_index_rag_metrics.runtime import retries
from llama_index_rag_metrics.runtime.errors import ScorerFailed
from llama_index_rag_metrics.runtime.retries import seconds_asked

pytestmark = pytest.mark.servers

NOW = 1_700_000_000
NODES = [TextNode(id_="a", text="The kiln fires at 1240 degrees.")]


def in_seconds(seconds: float) -> str:
    """A moment, as HTTP writes it."""
    return formatdate(NOW + seconds, usegmt=True)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before further attempts, which take no time: it is always now."""

    async def sleep(seconds: float) -> None:
        kept.append(seconds)

    kept: list[float] = []
    monkeypatch.setattr(retries, "asyncio", SimpleNamespace(sleep=sleep, Lock=asyncio.Lock))
    monkeypatch.setattr(retries, "time", SimpleNamespace(time=lambda: NOW))
    return kept


def refused(**headers: str) -> httpx.HTTPStatusError:
    """What httpx raises, and OpenAI's client like it."""
    request = httpx.Request("POST", "http://127.0.0.1/")
    response = httpx.Response(429, headers=headers, request=request)
    return httpx.HTTPStatusError("refused", request=request, response=response)


class TestSecondsAsked:
    @pytest.mark.parametrize(
        ("header", "seconds"),
        [("7", 7), ("0", 0), ("1.5", 1.5), ("Wed, 21 Oct 2015 07:28:00 GMT", 0)],
    )
    def test_seconds_and_moments_that_passed(self, header: str, seconds: float) -> None:
        assert seconds_asked(refused(**{"Retry-After": header})) == seconds

    @pytest.mark.parametrize("zone", ["GMT", "+0000", "-0000"])
    def test_a_moment_to_come(self, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TZ", "Asia/Taipei")  # local time is another one
        time.tzset()
        try:
            header = in_seconds(90).replace("GMT", zone)
            assert seconds_asked(refused(**{"Retry-After": header})) == 90
        finally:
            monkeypatch.undo()
            time.tzset()

    @pytest.mark.parametrize("header", ["-1", "nan", "soon", "", "Wed, 99 Oct 2015 07:28:00 GMT"])
    def test_what_says_nothing(self, header: str) -> None:
        assert seconds_asked(refused(**{"Retry-After": header})) is None

    def test_errors_without_an_answer(self) -> None:
        assert seconds_asked(refused()) is None
        assert seconds_asked(ValueError("no answer")) is None
        assert seconds_asked(None) is None


class TestCohere:
    @pytest.fixture
    def server(self) -> Iterator[CohereServer]:
        pytest.importorskip("cohere", reason="Cohere's client")
        with cohere_server() as server:
            yield server

    def ask(self, server: CohereServer) -> None:
        scorer = CohereRerankRelevancy(api_key="loopback", base_url=server.base_url)
        scorer.compute("kiln", retrieved_texts=["the kiln"])

    def test_it_waits_until_the_moment(self, server: CohereServer, pauses: list[float]) -> None:
        server.faults = [Fault(429, headers={"retry-after": in_seconds(3)})]
        self.ask(server)
        assert len(server.requests) == 2
        assert pauses == [3]

    def test_it_gives_up_on_a_moment_far_away(self, server: CohereServer) -> None:
        server.faults = [Fault(503, headers={"retry-after": in_seconds(600)})]
        with pytest.raises(ScorerFailed, match="status 503: service unavailable"):
            self.ask(server)
        assert len(server.requests) == 1


class Chat:
    """OpenAI's chat completions on loopback: first the refusals, then questions.

    Attributes:
        refusals: the (status, Retry-After) of the next answers; the last one stays if `lasting`.
        n_asked: how many requests came.
    """

    def __init__(self) -> None:
        self.refusals: list[tuple[int, str | None]] = []
        self.lasting = False
        self.n_asked = 0
        self.url = ""

    def next_refusal(self) -> tuple[int, str | None] | None:
        self.n_asked += 1
        if self.lasting:
            return self.refusals[0]
        return self.refusals.pop(0) if self.refusals else None


@pytest.fixture
def chat() -> Iterator[Chat]:
    served = Chat()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            refusal = served.next_refusal()
            status, retry_after = refusal or (200, None)
            message = {"role": "assistant", "content": "How hot does the kiln get?"}
            answer = {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": "gpt-4o-mini",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            }
            raw = json.dumps({"error": {"message": "busy"}} if refusal else answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            if retry_after is not None:
                self.send_header("retry-after", retry_after)
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def llm(chat: Chat) -> LLM:
    openai = pytest.importorskip("llama_index.llms.openai", reason="the client itself")
    # its own retries would come before ours
    made: LLM = openai.OpenAI(
        model="gpt-4o-mini", api_key="sk-loopback-0", api_base=chat.url, max_retries=0
    )
    return made


class TestQuestions:
    @pytest.mark.parametrize("as_moment", [False, True], ids=["seconds", "moment"])
    def test_it_comes_back_when_the_service_says(
        self, chat: Chat, llm: LLM, as_moment: bool, pauses: list[float]
    ) -> None:
        chat.refusals = [(429, in_seconds(2) if as_moment else "2")]
        dataset = generate_question_context_pairs(NODES, llm, num_questions_per_chunk=1)
        assert list(dataset.queries.values()) == ["How hot does the kiln get?"]
        assert chat.n_asked == 2
        assert pauses == [2]

    def test_it_doubles_its_own_pause_where_nothing_is_said(
        self, chat: Chat, llm: LLM, pauses: list[float]
    ) -> None:
        chat.refusals = [(503, None), (503, None)]
        generate_question_context_pairs(NODES, llm, num_questions_per_chunk=1)
        # and up to a tenth of the first more, by chance
        assert pauses == [pytest.approx(0.2625, abs=0.0125), pytest.approx(0.5125, abs=0.0125)]

    def test_it_gives_up_when_it_is_to_wait_for_minutes(self, chat: Chat, llm: LLM) -> None:
        chat.refusals = [(429, "600")]
        with pytest.raises(ScorerFailed, match="busy"):
            generate_question_context_pairs(NODES, llm)
        assert chat.n_asked == 1

    def test_it_gives_up_after_the_last_attempt(self, chat: Chat, llm: LLM) -> None:
        chat.refusals, chat.lasting = [(503, "0")], True
        with pytest.raises(ScorerFailed, match="busy"):
            generate_question_context_pairs(NODES, llm, retry_limit=3)
        assert chat.n_asked == 3
