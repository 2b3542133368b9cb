"""Fixtures of the Cohere metric's tests: its server, and an environment without a key."""

import sys
from collections.abc import Iterator

import pytest

from llama_index_rag_metrics import CohereRerankRelevancy
from support.cohere_server import CohereServer, cohere_server


@pytest.fixture(name="server")
def serving() -> Iterator[CohereServer]:
    with cohere_server() as running:
        yield running


@pytest.fixture(autouse=True)
def no_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CO_API_KEY", "COHERE_API_KEY", "CO_API_URL"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[CohereRerankRelevancy.__module__], "_FIRST_PAUSE", 0.01)
