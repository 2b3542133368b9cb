"""Requests that are sent again: when, how often, and when not."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from types import SimpleNamespace

import httpx
import pytest
from support.cohere_server import CohereServer, Fault, cohere_server

from llama_index_rag_metrics import CohereRerankRelevancy
from llama_index_rag_metrics.runtime import retries
from llama_index_rag_metrics.runtime.errors import ScorerFailed
from llama_index_rag_metrics.runtime.retries import attempts, seconds_asked

pytestmark = pytest.mark.servers

NOW = 1_700_000_000


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
    def test_moment_to_come(self, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TZ", "Asia/Taipei")  # local time is another one
        time.tzset()
        try:
            header = in_seconds(90).replace("GMT", zone)
            assert seconds_asked(refused(**{"Retry-After": header})) == 90
        finally:
            monkeypatch.undo()
            time.tzset()

    @pytest.mark.parametrize("header", ["-1", "nan", "soon", "", "Wed, 99 Oct 2015 07:28:00 GMT"])
    def test_error_without_a_message(self, header: str) -> None:
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

    def test_pause_lasts_until_the_moment(self, server: CohereServer, pauses: list[float]) -> None:
        server.faults = [Fault(429, headers={"retry-after": in_seconds(3)})]
        self.ask(server)
        assert len(server.requests) == 2
        assert pauses == [3]

    def test_pause_until_a_moment_far_away_gives_up(self, server: CohereServer) -> None:
        server.faults = [Fault(503, headers={"retry-after": in_seconds(600)})]
        with pytest.raises(ScorerFailed, match="status 503: service unavailable"):
            self.ask(server)
        assert len(server.requests) == 1


class TestAttempts:
    def made(self, *failures: Exception, most: int = 3) -> int:
        """How many attempts are made at a request that fails so, then succeeds."""
        left = [*failures]
        n_made = 0

        async def request() -> None:
            nonlocal n_made
            n_made += 1
            if left:
                raise left.pop(0)

        with suppress(httpx.HTTPStatusError, ValueError):
            asyncio.run(
                attempts(most, 0.25, lambda error: not isinstance(error, ValueError))(request)
            )
        return n_made

    @pytest.mark.parametrize("header", ["2", in_seconds(2)])
    def test_pause_is_as_long_as_the_service_says(self, header: str, pauses: list[float]) -> None:
        assert self.made(refused(**{"Retry-After": header})) == 2
        assert pauses == [2]

    def test_pause_doubles_without_retry_after(self, pauses: list[float]) -> None:
        assert self.made(refused(), refused()) == 3
        # and up to a tenth of the first more, by chance
        assert pauses == [pytest.approx(0.2625, abs=0.0125), pytest.approx(0.5125, abs=0.0125)]

    def test_retries_give_up(self, pauses: list[float]) -> None:
        assert self.made(refused(**{"Retry-After": "600"})) == 1
        assert self.made(ValueError("what stays")) == 1
        assert self.made(*[refused(**{"Retry-After": "0"})] * 5) == 3
