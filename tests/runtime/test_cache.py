"""The cache: asked once, kept through kill -9, shared by processes, and no reason to stop a run."""

from __future__ import annotations

import asyncio
import json
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.embeddings import MockEmbedding
from support.processes import Forked

from llama_index_rag_metrics import Cache, EmbeddingSimilarity
from llama_index_rag_metrics.runtime.cache.stores import MemoryStore, SQLiteStore
from llama_index_rag_metrics.runtime.digests import Request, settings_of, without_credentials
from llama_index_rag_metrics.runtime.errors import CacheWarning, InvalidInput


class Service:
    """Answers a request with its text in capitals, and counts what it was asked."""

    def __init__(self, cache: Cache, *, fails_on: str = "") -> None:
        self.cache = cache
        self.fails_on = fails_on
        self.asked: list[list[str]] = []

    async def get(self, *texts: str, batch_size: int | None = None, **key: Any) -> list[Any]:
        requests = [Request("capitals", "model", text=text, **key) for text in texts]

        async def ask(positions: list[int]) -> list[str]:
            some = [texts[position] for position in positions]
            self.asked.append(some)
            await asyncio.sleep(0.01)
            if self.fails_on in some:
                raise RuntimeError(f"no answer to {some}")
            return [text.upper() for text in some]

        return (await self.cache.fetch(requests, ask, batch_size=batch_size)).values


def test_the_same_is_asked_once_and_only_what_is_new() -> None:
    service = Service(Cache())
    assert asyncio.run(service.get("a", "b", "a")) == ["A", "B", "A"]
    assert asyncio.run(service.get("b", "c")) == ["B", "C"]
    assert service.asked == [["a", "b"], ["c"]]
    assert (service.cache.fresh, service.cache.cached) == (3, 1)


def test_requests_under_way_become_one() -> None:
    service = Service(Cache())

    async def main() -> list[Any]:
        return await asyncio.gather(service.get("a", "b"), service.get("b", "c"), service.get("b"))  # type: ignore[no-any-return]

    assert asyncio.run(main()) == [["A", "B"], ["B", "C"], ["B"]]
    assert service.asked == [["a", "b"], ["c"]]


def test_whoever_waits_fails_alike_and_the_next_one_asks_again() -> None:
    service = Service(Cache(), fails_on="a")

    async def main() -> list[Any]:
        both = (service.get("a"), service.get("a"))
        return await asyncio.gather(*both, return_exceptions=True)  # type: ignore[no-any-return]

    assert [str(error) for error in asyncio.run(main())] == ["no answer to ['a']"] * 2
    service.fails_on = ""
    assert asyncio.run(service.get("a")) == ["A"]
    assert service.asked == [["a"], ["a"]]


def test_whoever_waits_for_one_that_is_cancelled_asks_itself() -> None:
    service = Service(Cache())

    async def main() -> list[Any]:
        first = asyncio.create_task(service.get("a"))
        await asyncio.sleep(0)
        second = asyncio.create_task(service.get("a"))
        await asyncio.sleep(0.001)
        first.cancel()
        return await second

    assert asyncio.run(main()) == ["A"]
    assert len(service.asked) == 2


def test_what_earlier_batches_gave_is_kept() -> None:
    service = Service(Cache(), fails_on="c")
    with pytest.raises(RuntimeError):
        asyncio.run(service.get("a", "b", "c", "d", batch_size=2))
    service.fails_on = ""
    asyncio.run(service.get("a", "b", "c", "d", batch_size=2))
    assert service.asked == [["a", "b"], ["c", "d"], ["c", "d"]]


@pytest.mark.parametrize("where", ["memory", "file"])
def test_what_asking_gave_none_for_is_asked_again(where: str, tmp_path: Path) -> None:
    cache = Cache(None if where == "memory" else tmp_path / "cache.sqlite")
    requests = [Request("letters", "some model", text=text) for text in "ab"]
    asked: list[list[int]] = []

    async def first(positions: list[int]) -> list[str | None]:
        asked.append(positions)
        await asyncio.sleep(0.01)
        return ["A", None][: len(positions)]

    async def second(positions: list[int]) -> list[str]:
        asked.append(positions)
        return ["B" for _ in positions]

    async def main() -> tuple[Any, ...]:
        return await asyncio.gather(  # whoever waits for what there is none of asks itself
            cache.fetch(requests, first), cache.fetch(requests[1:], second)
        )

    began, waited = asyncio.run(main())
    assert (began.values, began.fresh, began.cached) == (["A", None], 1, 0)
    assert (waited.values, waited.fresh, waited.cached) == (["B"], 1, 0)
    assert asked == [[0, 1], [0]]
    assert asyncio.run(cache.known([*requests, Request("letters", "another")])) == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "x"},
        {"model": "x"},
        {"endpoint": "http://x"},
        {"parameters": {"p": 2}},
        {"query": "x"},
        {"text": "x"},
        {"text": ["t"]},
    ],
    ids=str,
)
def test_the_key_covers_everything(other: dict[str, Any]) -> None:
    fields: dict[str, Any] = {
        "kind": "k",
        "model": "m",
        "endpoint": "http://e",
        "parameters": {"p": 1},
        "query": "q",
        "text": "t",
    }
    assert Request(**fields).key != Request(**{**fields, **other}).key
    assert Request(**fields).key == Request(**fields).key


def test_parts_of_a_key_are_not_run_together() -> None:
    assert (
        Request("k", "m", query="ab", text="c").key != Request("k", "m", query="a", text="bc").key
    )
    assert len(Request("k", "m", text="a lone surrogate \ud800").key) == 64


def test_credentials_in_a_url_are_not_part_of_the_key() -> None:
    assert without_credentials("https://me:pw@host:1/v1?key=s#f") == "https://host:1/v1"
    # which deployment is asked bears on the answer
    other = "https://host/v1?deployment=b&api-key=s"
    assert without_credentials(other) == "https://host/v1?deployment=b"
    with_them = Request("k", "m", "https://me:pw@host/v1").key
    assert with_them == Request("k", "m", "https://host/v1").key


def test_the_settings_of_a_component_are_known_and_no_secret() -> None:
    class Service(MockEmbedding):
        api_key: str = "the secret"
        api_base: str = "https://me:pw@host/v1"
        dimensions: int = 8
        model_kwargs: dict[str, Any] = {"top_p": 0.5, "extra": [{"api_key": "confidential"}, None]}

    described = settings_of(Service(embed_dim=4, embed_batch_size=7))
    assert described["dimensions"] == 8
    assert described["api_base"] == "https://host/v1"
    assert described["model_kwargs"] == {"top_p": 0.5, "extra": [{}, None]}
    assert "embed_batch_size" not in described
    for secret in ("the secret", "confidential", "pw"):
        assert secret not in json.dumps(described)
    assert settings_of(Service(embed_dim=4, dimensions=9)) != described


@pytest.mark.parametrize(
    "name",
    [
        *("key", "azure_key", "apiKey", "subscription-key", "private_key_pem", "hf_token"),
        *("accessToken", "client_secret", "db_password", "passwd", "aws_credentials"),
        *("Authorization", "headers"),
    ],
)
def test_settings_that_are_secrets_are_left_out(name: str) -> None:
    class Service(MockEmbedding):
        model_kwargs: dict[str, Any] = {}

    service = Service(embed_dim=4, model_kwargs={name: "confidential", "top_p": 0.5})
    assert settings_of(service)["model_kwargs"] == {"top_p": 0.5}
    assert without_credentials(f"https://host/v1?{name}=s&page=2") == "https://host/v1?page=2"


class TestSQLite:
    def test_keeps_values(self, tmp_path: Path) -> None:
        store = SQLiteStore(tmp_path / "deep" / "down" / "store.sqlite")
        asyncio.run(store.write({"a": "ö\ud800", "b": [1.5, None], "c": {}}))
        assert asyncio.run(store.read(["a", "x"])) == {"a": "ö\ud800"}
        store.close()
        assert asyncio.run(store.read("bc")) == {"b": [1.5, None], "c": {}}

    def test_more_keys_than_a_statement_takes(self, tmp_path: Path) -> None:
        store = SQLiteStore(tmp_path / "store.sqlite")
        asyncio.run(store.write({str(n): n for n in range(5_000)}))
        assert len(asyncio.run(store.read(str(n) for n in range(5_001)))) == 5_000

    def test_a_pickle_opens_the_same_file(self, tmp_path: Path) -> None:
        service = Service(Cache(tmp_path / "cache.sqlite"))
        asyncio.run(service.get("a"))
        other = Service(pickle.loads(pickle.dumps(service.cache)))
        assert asyncio.run(other.get("a")) == ["A"]
        assert other.asked == []

    def test_holds_json_and_no_text(self, tmp_path: Path) -> None:
        path = tmp_path / "cache.sqlite"
        cache = Cache(path)  # kept, so that its files stay
        asyncio.run(Service(cache).get("confidential", query="confidential"))
        raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        del cache
        assert b"confidential" not in raw
        assert b'"CONFIDENTIAL"' in raw


WRITER = """
import asyncio, sys
from llama_index_rag_metrics.runtime.cache.stores import SQLiteStore

async def write():
    store = SQLiteStore(sys.argv[1])
    for number in range(int(sys.argv[3])):
        await store.write({f"{sys.argv[2]}{number}": number})
        print(number, flush=True)

asyncio.run(write())
"""


def _writer(path: Path, name: str, n: int) -> Forked:
    return Forked(WRITER, str(path), name, str(n))


def test_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    writer = _writer(path, "k", 10_000_000)
    written = [int(writer.stdout.readline()) for _ in range(50)]
    writer.kill()
    written += [int(line) for line in writer.communicate()[0].splitlines() if line.strip()]
    store = SQLiteStore(path)
    values = asyncio.run(store.read(f"k{number}" for number in written))
    assert values == {f"k{number}": number for number in written}
    asyncio.run(store.write({"after": 1}))
    assert asyncio.run(store.read(["after"])) == {"after": 1}


def test_two_processes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    writers = [_writer(path, name, 200) for name in ("a", "b", "c")]
    for writer in writers:
        writer.communicate()
        assert writer.wait() == 0
    keys = [f"{name}{number}" for name in "abc" for number in range(200)]
    assert len(asyncio.run(SQLiteStore(path).read(keys))) == 600


class TestFailingStore:
    @pytest.mark.parametrize("what", ["a folder", "not a database", "read-only"])
    def test_warns_once_and_goes_on(self, tmp_path: Path, what: str) -> None:
        path = tmp_path / "cache.sqlite"
        if what == "a folder":
            path.mkdir()
        elif what == "not a database":
            path.write_text("something of the user's, and long enough to look at" * 100)
        before = path.read_bytes() if path.is_file() else b""
        cache = Cache.on(ReadOnly()) if what == "read-only" else Cache(path)
        service = Service(cache)
        with pytest.warns(CacheWarning, match="the cache fails, and the run goes on") as caught:
            assert asyncio.run(service.get("a", "b")) == ["A", "B"]
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert asyncio.run(service.get("b", "c")) == ["B", "C"]
        assert service.asked == [["a", "b"], ["c"]]  # memory stands in
        assert (path.read_bytes() if path.is_file() else b"") == before


class ReadOnly(MemoryStore):
    """Takes nothing."""

    async def write(self, values: Mapping[str, Any]) -> None:
        raise OSError("read-only")


def test_one_cache_serves_several_metrics_and_calls(tmp_path: Path) -> None:
    class Counting(MockEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            asked.append(text)
            return [float(len(text)), 1.0]

    asked: list[str] = []
    for agg in ("mean", "max"):
        cache = Cache(tmp_path / "cache.sqlite")
        scorer = EmbeddingSimilarity(embed_model=Counting(embed_dim=2), agg=agg)
        scorer = scorer.prepare(None, cache)  # type: ignore[arg-type]
        scorer.compute("q", retrieved_texts=["one", "three", "one"])
    assert sorted(asked) == ["one", "three"]


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cache: expected a path, a Cache"):
        Cache.of(5)  # type: ignore[arg-type]
