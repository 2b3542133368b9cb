"""Recorded errors hold no secrets, and aren't longer than anybody reads."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.retrievers import VectorIndexRetriever
from llama_index.core.schema import TextNode
from pydantic import SecretStr

from llama_index_rag_metrics.runtime import masking
from llama_index_rag_metrics.runtime.masking import (
    MOST_CHARACTERS,
    describe_error,
    mask,
    mask_and_cut,
    register_secret,
    register_secrets_of,
    without_secrets,
)

SECRET = 'zq"1/ä-secret-of-a-test'
IN_QUERIES = ["q=x&token", "code", "sig", "secret", "auth_token", "private_token"]
IN_QUERIES += ["subscription-key", "X-Amz-Signature"]


@pytest.mark.parametrize(
    "leak",
    [
        "Incorrect API key provided: sk-abcdefghij0123456789.",
        "Incorrect API key provided: sk-abcd************wxyz.",
        "sk-proj-abcdefghij0123456789_-x",
        "{'Authorization': 'Bearer abcdefgh12345'}",
        "authorization: Basic abcdefgh12345",
        'sent {"api_key": "abcdefghijkl"}',
        "GET /v1?api_key=abcdefghijkl&q=x",
        "postgresql://user:abcdefghijkl@localhost/db",
        "password=abcdefghijkl",
        "eyJabcdefghijkl.eyJabcdefghijkl.abcdefghijkl",
        "AIza" + "abcdefgh" * 4,
        "GET https://h/s?key=abcdefghijkl&q=x",
        *(f"GET https://h/s?{name}=abcdefghijkl" for name in IN_QUERIES),
        "Authorization: ApiKey abcdefghijkl",
        "Authorization: Token abcdefghijkl",
        "AccountName=me;AccountKey=abcdefghijkl==",
        "SharedAccessSignature=sig=abcdefghijkl",
        "Server=h;Uid=me;Pwd=abcdefghijkl;",
    ],
)
def test_credentials_are_masked(leak: str) -> None:
    masked = mask(f"refused: {leak} (status 401)")
    assert "abcdefgh" not in masked
    assert "abcd" not in masked.replace("***", "")
    assert masked.startswith("refused: ")
    assert masked.endswith("(status 401)")


@pytest.mark.parametrize(
    "harmless",
    [
        "api_key: expected a text of ASCII characters in one line",
        "authorization: none was given",
        "the token limit of 8192 tokens is reached",
        "http://127.0.0.1:8000/v1 refused the connection",
        "ValueError: no index",
    ],
)
def test_words_that_are_no_credentials_stay(harmless: str) -> None:
    assert mask(harmless) == harmless


@pytest.mark.parametrize("spelling", [SECRET, quote(SECRET, safe=""), json.dumps(SECRET)])
def test_registered_secret_is_masked_however_it_is_spelled(spelling: str) -> None:
    register_secret(SecretStr(SECRET))
    assert mask(f"<{spelling.strip(chr(34))}>") == "<***>"


def test_keys_of_the_environment_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_API_KEY", "of the environment")
    assert mask("key 'of the environment' is refused") == "key '***' is refused"


def test_secrets_of_components_in_components_are_registered() -> None:
    class Keyed(MockEmbedding):
        api_key: str = "key-of-an-embedding"
        default_headers: dict[str, str] = {"X-Secret": "secret-in-a-header"}

    index = VectorStoreIndex([TextNode(text="one")], embed_model=Keyed(embed_dim=2))
    retriever = index.as_retriever()
    assert isinstance(retriever, VectorIndexRetriever)
    register_secrets_of(retriever)
    assert mask("key-of-an-embedding, secret-in-a-header") == "***, ***"


OF_A_MODULE_API_KEY = "Zq7kT9pLmN01"
CLIENT_OF_A_MODULE = SimpleNamespace(api_key="Zq7kT9pLmN08")


def functions() -> Iterator[tuple[Callable[..., Any], str]]:
    api_key, secret = "Zq7kT9pLmN02", SecretStr("Zq7kT9pLmN03")

    def closing(query: str) -> str:
        return f"{api_key}{secret.get_secret_value()}"

    def of_module(query: str) -> str:
        return OF_A_MODULE_API_KEY

    def with_defaults(query: str, api_key: str = "Zq7kT9pLmN04", *, token: str = "Zq7kT9pLmN05"):  # type: ignore[no-untyped-def]
        return api_key + token

    def bound(query: str, password: str) -> str:
        return password

    class Client:
        def __init__(self) -> None:
            self.api_key = "Zq7kT9pLmN07"

        def search(self, query: str) -> str:
            return self.api_key

    client = Client()
    yield closing, "Zq7kT9pLmN02"
    yield closing, "Zq7kT9pLmN03"
    yield of_module, OF_A_MODULE_API_KEY
    yield with_defaults, "Zq7kT9pLmN04"
    yield with_defaults, "Zq7kT9pLmN05"
    yield partial(bound, password="Zq7kT9pLmN06"), "Zq7kT9pLmN06"
    yield client.search, "Zq7kT9pLmN07"
    yield lambda query: client.search(query)[:3], "Zq7kT9pLmN07"
    yield lambda query: CLIENT_OF_A_MODULE.api_key, "Zq7kT9pLmN08"


@pytest.mark.parametrize(("function", "secret"), list(functions()))
def test_keys_of_functions_are_registered(function: Callable[..., Any], secret: str) -> None:
    register_secrets_of(function)
    assert mask(f"refused: {secret}") == "refused: ***"


def test_masked_first_and_then_cut() -> None:
    register_secret(SECRET)
    # each prefix length puts the cut at another place of the secret
    for length in range(MOST_CHARACTERS - len(SECRET) - 4, MOST_CHARACTERS + 1):
        recorded = mask_and_cut("x" * length + SECRET + "y" * 100)
        assert SECRET[:6] not in recorded
    for length in range(50_000 - len(SECRET) - 1, 50_001):
        many = (SECRET * 4_000)[:length] + SECRET + "y"
        assert SECRET[:6] not in mask_and_cut(many)


def test_message_of_50_mb_is_cut_with_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_through: list[int] = []
    real = masking.mask

    def counted(text: str) -> str:
        looked_through.append(len(text))
        return real(text)

    monkeypatch.setattr(masking, "mask", counted)
    recorded = describe_error(ValueError("a" * 50_000_000))
    assert looked_through == [50_000]
    assert recorded.startswith("ValueError: aaa")
    assert recorded.endswith("… (cut: 50,000,012 characters)")
    assert len(recorded) < MOST_CHARACTERS + 50


@pytest.mark.parametrize("unit", ["sk-", "eyJ-", "api_key:", "://a", "Bearer ", "password: ", "a."])
def test_texts_never_take_long(unit: str) -> None:
    start = time.thread_time()
    mask_and_cut(unit * (50_000 // len(unit)))
    assert time.thread_time() - start < 1


def test_error_whose_message_can_not_be_read() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise SystemExit(3)

    assert describe_error(Broken()) == "Broken: (its message can't be read: SystemExit)"


def test_names_of_secrets_in_mappings() -> None:
    login = {"tenant": "acme", "login": {"password": "hunter22"}}
    assert without_secrets(login) == {"tenant": "acme", "login": {"password": "***"}}
