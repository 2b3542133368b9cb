"""The cache: asked once, kept through kill -9, shared by processes, and no reason to stop a run."""

from __future__ import annotations

import asyncio
import json
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.prompts import PromptTemplate
from llama_index.core.storage.kvstore import SimpleKVStore
from pydantic import BaseModel, PrivateAttr
from support.processes import Forked

from llama_index_rag_metrics import Cache, EmbeddingSimilarity, SQLiteKVStore
from llama_index_rag_metrics.runtime.digests import Request, identity, without_credentials
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


def test_the_identity_of_a_component_holds_its_settings_and_no_secret() -> None:
    class Service(MockEmbedding):
        api_key: str = "the secret"
        api_base: str = "https://me:pw@host/v1"
        dimensions: int = 8
        model_kwargs: dict[str, Any] = {"top_p": 0.5, "extra": [{"api_key": "confidential"}, None]}

    described = identity(Service(embed_dim=4, embed_batch_size=7))
    assert described["dimensions"] == 8
    assert described["api_base"] == "https://host/v1"
    assert described["model_kwargs"] == {"top_p": 0.5, "extra": [None, None]}
    assert "embed_batch_size" not in described
    assert "confidential" not in json.dumps(described)
    assert "pw" not in json.dumps(described)


@pytest.mark.parametrize(
    "name",
    [
        *("key", "azure_key", "apiKey", "subscription-key", "private_key_pem", "hf_token"),
        *("accessToken", "client_secret", "db_password", "passwd", "aws_credentials"),
        *("Authorization", "headers"),
    ],
)
def test_settings_that_are_secrets_are_not_in_the_identity(name: str) -> None:
    class Service(MockEmbedding):
        model_kwargs: dict[str, Any] = {}

    service = Service(embed_dim=4, model_kwargs={name: "confidential", "top_p": 0.5})
    assert identity(service)["model_kwargs"] == {"top_p": 0.5}
    assert without_credentials(f"https://host/v1?{name}=s&page=2") == "https://host/v1?page=2"


def test_components_that_answer_differently_have_other_identities() -> None:
    """As do an LLM cut at 5 tokens and one at 500, or two of which one is told to reason."""

    class Service(MockEmbedding):
        max_tokens: int = 5
        tokenizer_name: str = "small"
        keyword_prompt: str = ""
        additional_kwargs: dict[str, Any] = {}
        prepare: Callable[[str], str] = str.lower
        embedding_config: Any = None
        _engine: str = PrivateAttr("small")
        _generation_config: dict[str, int] = PrivateAttr(default_factory=dict)

        def named(self, engine: str) -> Service:
            self._engine = engine
            return self

        def generating(self, **config: int) -> Service:
            self._generation_config = config
            return self

    @dataclass(slots=True)
    class Seed:
        value: int
        password: str = "the secret"

    class Config(BaseModel, extra="allow"):  # as Google's
        dimensions: int
        access_token: str = "the secret"

    class Task(Enum):
        SEARCH = 1
        CLUSTERING = 2

    configs: list[Any] = [Seed(1), Seed(2), *(Config(dimensions=n) for n in (1, 2)), *Task]
    configs += [Config(dimensions=1, more=1), PromptTemplate("{a}"), 10**400]
    services = [
        Service(embed_dim=4),
        Service(embed_dim=4, max_tokens=500),
        Service(embed_dim=4, tokenizer_name="large"),
        Service(embed_dim=4, keyword_prompt="Which words?"),
        Service(embed_dim=4, additional_kwargs={"effort": "high"}),
        Service(embed_dim=4, additional_kwargs={"effort": "low", "api_key": "the secret"}),
        Service(embed_dim=4, additional_kwargs={"effort": "low", "stop": ["\n"]}),
        Service(embed_dim=4, prepare=lambda text: text[:5]),
        Service(embed_dim=4, prepare=lambda text: text[:6]),
        Service(embed_dim=4).named("large"),
        MockEmbedding(embed_dim=4),
        *(Service(embed_dim=4, embedding_config=config) for config in configs),
        *(Service(embed_dim=4).generating(top_k=top_k) for top_k in (1, 2)),
    ]
    keys = [json.dumps(identity(service), sort_keys=True) for service in services]
    assert len(set(keys)) == len(keys)
    assert json.dumps(identity(Service(embed_dim=4)), sort_keys=True) == keys[0]
    assert "the secret" not in "".join(keys)


@pytest.mark.parametrize("changed", ["base", "decorator"])
def test_a_users_model_is_known_by_its_bases_and_decorators(changed: str) -> None:
    def made(length: int) -> Any:
        another: dict[str, Any] = {"__name__": "of_another", "MockEmbedding": MockEmbedding}
        cut = "lambda self, text: [float(len(text[:LENGTH]))]".replace("LENGTH", str(length))
        exec(f"class Base(MockEmbedding):\n _get_text_embedding = {cut}", another)

        base: Any = another["Base"]
        service = type("Service", (base,), {"__module__": __name__})

        def cutting(function: Callable[[str], str]) -> Callable[[str], str]:
            body = "lambda text: function(text[:LENGTH])".replace("LENGTH", str(length))
            names = {"function": function, "__name__": "of_another"}
            decorated: Callable[[str], str] = wraps(function)(eval(body, names))
            return decorated

        @cutting
        def prepare(text: str) -> str:
            return text

        class Decorated(MockEmbedding):
            prepare: Any = None

        if changed == "base":
            return service(embed_dim=1)
        return Decorated(embed_dim=1, prepare=prepare)

    assert identity(made(5)) == identity(made(5)) != identity(made(6))


@dataclass
class Linked:
    other: Any = None


def test_the_identity_of_settings_in_a_circle_or_of_sets_ends_and_stays() -> None:
    class Service(MockEmbedding):
        config: Any = None

    one, other = Linked(), Linked()
    one.other, other.other = other, one
    assert identity(Service(embed_dim=4, config=one)) == identity(Service(embed_dim=4, config=one))
    prompt = PromptTemplate("{a} {b}")  # the names of a RichPromptTemplate come from a set
    turned = prompt.model_copy(update={"template_vars": prompt.template_vars[::-1]})
    assert identity(Service(embed_dim=4, config=prompt)) == identity(
        Service(embed_dim=4, config=turned)
    )


class TestSQLite:
    def test_keeps_values_by_collection(self, tmp_path: Path) -> None:
        store = SQLiteKVStore(tmp_path / "deep" / "down" / "store.sqlite")
        store.put("a", {"value": "ö\ud800"})
        store.put_all([("b", {"value": [1.5, None]}), ("c", {})], collection="other")
        assert store.get("a") == {"value": "ö\ud800"}
        assert store.get("b") is None
        assert store.get_all("other") == {"b": {"value": [1.5, None]}, "c": {}}
        assert store.get_many(["a", "x"]) == {"a": {"value": "ö\ud800"}}
        assert store.delete("a")
        assert not store.delete("a")
        store.close()
        assert store.get_all("other").keys() == {"b", "c"}

    def test_its_asynchronous_methods(self, tmp_path: Path) -> None:
        store = SQLiteKVStore(tmp_path / "store.sqlite")

        async def main() -> tuple[Any, ...]:
            await store.aput("a", {"value": 1})
            await store.aput_all([("b", {"value": 2})])
            return await store.aget("a"), await store.adelete("a"), await store.aget_all()

        assert asyncio.run(main()) == ({"value": 1}, True, {"b": {"value": 2}})

    def test_more_keys_than_a_statement_takes(self, tmp_path: Path) -> None:
        store = SQLiteKVStore(tmp_path / "store.sqlite")
        store.put_all([(str(n), {"value": n}) for n in range(5_000)])
        assert len(store.get_many([str(n) for n in range(5_001)])) == 5_000

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
        assert b'{"value": "CONFIDENTIAL"}' in raw


WRITER = """
import sys
from llama_index_rag_metrics import SQLiteKVStore
store = SQLiteKVStore(sys.argv[1])
for number in range(int(sys.argv[3])):
    store.put(f"{sys.argv[2]}{number}", {"value": number})
    print(number, flush=True)
"""


def _writer(path: Path, name: str, n: int) -> Forked:
    return Forked(WRITER, str(path), name, str(n))


def test_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    writer = _writer(path, "k", 10_000_000)
    written = [int(writer.stdout.readline()) for _ in range(50)]
    writer.kill()
    written += [int(line) for line in writer.communicate()[0].splitlines() if line.strip()]
    store = SQLiteKVStore(path)
    rows = store.get_all()
    assert all(rows[f"k{number}"] == {"value": number} for number in written)
    store.put("after", {"value": 1})
    assert store.get("after") == {"value": 1}


def test_two_processes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    writers = [_writer(path, name, 200) for name in ("a", "b", "c")]
    for writer in writers:
        writer.communicate()
        assert writer.wait() == 0
    assert len(SQLiteKVStore(path).get_all()) == 600


class TestFailingStore:
    @pytest.mark.parametrize("what", ["a folder", "not a database", "read-only"])
    def test_warns_once_and_goes_on(self, tmp_path: Path, what: str) -> None:
        path = tmp_path / "cache.sqlite"
        if what == "a folder":
            path.mkdir()
        elif what == "not a database":
            path.write_text("something of the user's, and long enough to look at" * 100)
        before = path.read_bytes() if path.is_file() else b""
        cache = Cache(SimpleKVStore() if what == "read-only" else path)
        if what == "read-only":
            cache.store = ReadOnly()
        service = Service(cache)
        with pytest.warns(CacheWarning, match="the cache fails, and the run goes on") as caught:
            assert asyncio.run(service.get("a", "b")) == ["A", "B"]
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert asyncio.run(service.get("b", "c")) == ["B", "C"]
        assert service.asked == [["a", "b"], ["c"]]  # memory stands in
        assert (path.read_bytes() if path.is_file() else b"") == before


class ReadOnly(SimpleKVStore):
    """Takes nothing."""

    async def aput(self, *_: Any, **__: Any) -> None:
        raise OSError("read-only")


def test_any_store_of_llama_index(tmp_path: Path) -> None:
    store = SimpleKVStore()
    asyncio.run(Service(Cache(store)).get("a"))
    again = Service(Cache.of(store))
    assert asyncio.run(again.get("a")) == ["A"]
    assert again.asked == []
    assert Cache.of(again.cache) is again.cache


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
    with pytest.raises(InvalidInput, match="cache: expected a path or a key-value store"):
        Cache.of(5)  # type: ignore[arg-type]


def test_a_stores_own_methods_are_used_by_the_asynchronous_ones(tmp_path: Path) -> None:
    class Sealing(SQLiteKVStore):
        def put_all(self, kv_pairs: Any, collection: str = "data", batch_size: int = 1) -> None:
            super().put_all([(key, {"value": "sealed"}) for key, _ in kv_pairs], collection)

    store = Sealing(tmp_path / "store")
    asyncio.run(store.aput("a\0b", {"value": "plain"}))
    assert store.get("a\0b") == asyncio.run(store.aget("a\0b")) == {"value": "sealed"}
