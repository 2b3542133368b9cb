"""The cache: asked once, kept through kill -9, shared by processes, and no reason to stop a run."""

import asyncio
import json
import os
import sqlite3
import stat
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import PromptTemplate
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.schema import MetadataMode
from pydantic import PrivateAttr
from support.processes import Forked

from llama_index_rag_metrics import Cache, EmbeddingSimilarity
from llama_index_rag_metrics.runtime.cache import cache_key
from llama_index_rag_metrics.runtime.errors import CacheWarning, InvalidInput
from llama_index_rag_metrics.runtime.models import settings_of


class Service:
    """Answers a request with its text in capitals, and counts what it was asked."""

    def __init__(self, cache: Cache, *, fails_on: str = "") -> None:
        self.cache = cache
        self.fails_on = fails_on
        self.asked: list[list[str]] = []

    async def get(self, *texts: str, batch_size: int | None = None, **key: Any) -> list[Any]:
        keys = [cache_key("capitals", "model", text=text, **key) for text in texts]

        async def ask(positions: list[int]) -> list[str]:
            some = [texts[position] for position in positions]
            self.asked.append(some)
            await asyncio.sleep(0.01)
            if self.fails_on in some:
                raise RuntimeError(f"no answer to {some}")
            return [text.upper() for text in some]

        return await self.cache.fetch(keys, ask, batch_size=batch_size)


def test_calls_are_made_once_and_only_for_what_is_new() -> None:
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


def test_waiters_fail_alike_and_the_next_one_asks_again() -> None:
    service = Service(Cache(), fails_on="a")

    async def main() -> list[Any]:
        both = (service.get("a"), service.get("a"))
        return await asyncio.gather(*both, return_exceptions=True)  # type: ignore[no-any-return]

    assert [str(error) for error in asyncio.run(main())] == ["no answer to ['a']"] * 2
    service.fails_on = ""
    assert asyncio.run(service.get("a")) == ["A"]
    assert service.asked == [["a"], ["a"]]


def test_waiter_for_one_that_is_cancelled_asks_itself() -> None:
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


def test_batches_given_earlier_are_kept() -> None:
    service = Service(Cache(), fails_on="c")
    with pytest.raises(RuntimeError):
        asyncio.run(service.get("a", "b", "c", "d", batch_size=2))
    service.fails_on = ""
    asyncio.run(service.get("a", "b", "c", "d", batch_size=2))
    assert service.asked == [["a", "b"], ["c", "d"], ["c", "d"]]


def test_threads_with_loops_of_their_own_ask_once(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    services = [Service(Cache(path)) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda service: asyncio.run(service.get("a")), services))
    assert answers == [["A"]] * 4
    assert [asked for service in services for asked in service.asked] == [["a"]]


def key_of(fields: dict[str, Any]) -> str:
    parts = dict(fields)
    return cache_key(parts.pop("kind"), parts.pop("model"), **parts)


@pytest.mark.parametrize(
    "other",
    [
        *({"kind": "x"}, {"model": "x"}, {"endpoint": "http://x"}, {"parameters": {"p": 2}}),
        *({"query": "x"}, {"text": "x"}, {"text": ["t"]}),
    ],
    ids=str,
)
def test_key_covers_everything(other: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"kind": "k", "model": "m", "endpoint": "http://e"}
    fields |= {"parameters": {"p": 1}, "query": "q", "text": "t"}
    assert key_of(fields) != key_of({**fields, **other})
    assert key_of(fields) == key_of(dict(fields))


def test_parts_of_a_key_are_not_run_together() -> None:
    assert cache_key("k", "m", query="ab", text="c") != cache_key("k", "m", query="a", text="bc")
    assert len(cache_key("k", "m", text="a lone surrogate \ud800")) == 64


def test_credentials_in_an_address_are_not_part_of_the_key() -> None:
    def key(endpoint: str) -> str:
        return cache_key("k", "m", endpoint=endpoint)

    assert key("https://me:pw@host/v1?key=sss") == key("https://you:pass@host/v1?key=ttt")
    # which deployment is asked bears on the answer
    assert key("https://host/v1?deployment=a") != key("https://host/v1?deployment=b")


def test_settings_of_a_component_are_known_and_no_secret() -> None:
    class Remote(MockEmbedding):
        api_key: str = "the secret"
        api_base: str = "https://me:pw@host/v1"
        dimensions: int = 8
        shape: tuple[object, ...] = ()
        model_kwargs: dict[str, Any] = {"top_p": 0.5, "login": {"client_secret": "confidential"}}
        _width: int = PrivateAttr(4)

    model = Remote(embed_dim=4, embed_batch_size=7)
    settings = settings_of(model)
    assert settings["dimensions"] == 8
    assert settings["api_base"] == "https://***@host/v1"
    assert settings["model_kwargs"] == {"top_p": 0.5, "login": {}}
    assert "embed_batch_size" not in settings
    for secret in ("the secret", "confidential", "pw"):
        assert secret not in json.dumps(settings)
    for changed in ({"dimensions": 9}, {"shape": (1,)}, {"shape": (MetadataMode.LLM,)}):
        assert settings_of(Remote(embed_dim=4, **changed)) != settings
    other = model.model_copy()
    other._width = 9
    assert settings_of(other) != settings
    rerankers = [LLMRerank(llm=MockLLM(max_tokens=number)) for number in (1, 2)]
    rerankers.append(LLMRerank(llm=MockLLM(max_tokens=1), choice_select_prompt=PromptTemplate("?")))
    assert len({json.dumps(settings_of(reranker)) for reranker in rerankers}) == 3


class TestFile:
    def test_keeps_values(self, tmp_path: Path) -> None:
        with Cache(tmp_path / "deep" / "down" / "cache.sqlite") as cache:
            cache.put({"a": "ö\ud800", "b": [1.5, None], "c": {}})
            assert cache.known(["a", "x"]) == {"a": "ö\ud800"}
            cache.close()
            assert cache.known(["b", "c"]) == {"b": [1.5, None], "c": {}}

    def test_keys_beyond_those_of_a_statement(self, tmp_path: Path) -> None:
        with Cache(tmp_path / "cache.sqlite") as cache:
            cache.put({str(n): n for n in range(5_000)})
            assert len(cache.known([str(n) for n in range(5_001)])) == 5_000

    def test_holds_json_and_no_text(self, tmp_path: Path) -> None:
        path = tmp_path / "cache.sqlite"
        asyncio.run(Service(Cache(path)).get("confidential", query="confidential"))
        assert b"confidential" not in path.read_bytes()
        assert b'"CONFIDENTIAL"' in path.read_bytes()

    def test_closes_when_nobody_asks_any_more(self, tmp_path: Path) -> None:
        cache = Cache(tmp_path / "cache.sqlite")
        for text in ("a", "b"):
            assert asyncio.run(Service(cache).get(text)) == [text.upper()]
            assert [path.name for path in tmp_path.iterdir()] == ["cache.sqlite"]

    @pytest.mark.skipif(os.name != "posix", reason="modes as POSIX has them")
    def test_file_is_its_owners_alone(self, tmp_path: Path) -> None:
        with Cache(tmp_path / "cache.sqlite") as cache:
            cache.put({"a": 1})
            assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}

    @pytest.mark.parametrize("value", ["7.0", '"0.5"', '{"other": 1}', "[1]", "{"])
    def test_value_that_cant_be_one_is_asked_for_again(self, value: str, tmp_path: Path) -> None:
        async def ask(positions: list[int]) -> list[float]:
            return [0.5 for _ in positions]

        def fetch() -> tuple[list[Any], int, int]:
            cache = Cache(path)
            values = asyncio.run(cache.fetch(["key"], ask, is_valid=lambda it: it == 0.5))
            return values, cache.fresh, cache.cached

        path = tmp_path / "cache.sqlite"
        fetch()
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE entries SET value = ?", (value,))
        connection.close()
        assert fetch() == ([0.5], 1, 0)
        assert fetch() == ([0.5], 0, 1)


WRITER = """
import sys
from llama_index_rag_metrics import Cache

with Cache(sys.argv[1]) as cache:
    for number in range(int(sys.argv[3])):
        cache.put({f"{sys.argv[2]}{number}": number})
        print(number, flush=True)
"""


def test_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    writer = Forked(WRITER, str(path), "k", "10_000_000")
    written = [int(writer.stdout.readline()) for _ in range(50)]
    writer.kill()
    written += [int(line) for line in writer.communicate()[0].splitlines() if line.strip()]
    values = {f"k{number}": number for number in written}
    with Cache(path) as cache:
        assert cache.known([*values]) == values
        cache.put({"after": 1})
        assert cache.known(["after"]) == {"after": 1}


def test_processes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    writers = [Forked(WRITER, str(path), name, "200") for name in ("a", "b", "c")]
    for writer in writers:
        writer.communicate()
        assert writer.wait() == 0
    keys = [f"{name}{number}" for name in "abc" for number in range(200)]
    with Cache(path) as cache:
        assert len(cache.known(keys)) == 600


class TestFailingFile:
    @pytest.mark.parametrize("what", ["a folder", "not a database"])
    def test_warns_once_and_goes_on(self, tmp_path: Path, what: str) -> None:
        path = tmp_path / "cache.sqlite"
        if what == "a folder":
            path.mkdir()
        elif what == "not a database":
            path.write_text("something of the user's, and long enough to look at" * 100)
        before = path.read_bytes() if path.is_file() else b""
        cache = Cache(path)
        service = Service(cache)
        with pytest.warns(CacheWarning, match="the cache fails, and the run goes on") as caught:
            assert asyncio.run(service.get("a", "b")) == ["A", "B"]
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert asyncio.run(service.get("b", "c")) == ["B", "C"]
        assert service.asked == [["a", "b"], ["c"]]  # memory stands in
        assert (path.read_bytes() if path.is_file() else b"") == before


def test_cache_serves_several_metrics_and_calls(tmp_path: Path) -> None:
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


def test_value_that_is_no_path_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cache: expected a path, a Cache"):
        Cache.of(5)  # type: ignore[arg-type]
