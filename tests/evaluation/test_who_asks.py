"""Who asks: functions get the question's metadata, and another asker's answer never comes back."""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from support.retrievers import Postprocessor

from llama_index_rag_metrics import RetrievalDataset, evaluate, evaluate_stages, sweep

TENANTS = {"q1": "acme", "q2": "blue"}
NODES = [
    TextNode(id_=f"{tenant} {n}", text=f"pay {n}", metadata={"tenant": tenant})
    for n in range(5)
    for tenant in TENANTS.values()
]
INDEX = VectorStoreIndex(NODES, embed_model=MockEmbedding(embed_dim=3))
KEEP = Postprocessor(function=list)


def dataset(**tenants: str) -> RetrievalDataset:
    """Two askers with the same question."""
    known = {**TENANTS, **tenants}
    return RetrievalDataset(
        {"q1": "pay?", "q2": "pay?"},
        {query_id: [f"{tenant} 0"] for query_id, tenant in TENANTS.items()},
        metadata={query_id: {"tenant": tenant} for query_id, tenant in known.items()},
    )


def of_tenant(question: str, metadata: dict[str, Any]) -> list[str]:
    tenant = metadata.pop("tenant")  # which must not change the dataset
    return [f"{tenant} {n}" for n in range(5)]


async def asynchronous(question: str, *, metadata: dict[str, Any]) -> list[str]:
    return of_tenant(question, metadata)


async def answering(question: str, metadata: dict[str, Any]) -> str:
    retriever = INDEX.as_retriever(similarity_top_k=5, filters=by_tenant(metadata))
    return str(len(await retriever.aretrieve(question)))


class Search:
    def __call__(self, question: str, metadata: dict[str, Any]) -> list[str]:
        return of_tenant(question, metadata)


def with_depth(question: str, depth: int, metadata: dict[str, Any]) -> list[str]:
    return of_tenant(question, metadata)[:depth]


def retried(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def again(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return again


FUNCTIONS: list[Any] = [
    *(of_tenant, asynchronous, answering, Search(), Search().__call__),
    *(partial(with_depth, depth=5), retried(of_tenant), partial(retried(with_depth), depth=5)),
]


def by_tenant(metadata: Any) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key="tenant", value=metadata["tenant"])])


def everyones(results: Any) -> dict[str, set[str]]:
    """Query id to the tenants of what was retrieved."""
    return {
        query_id: {item.split()[0] for item in ranking.ids}
        for query_id, ranking in results.run.items()
    }


OWN = {query_id: {tenant} for query_id, tenant in TENANTS.items()}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_function_gets_the_metadata_of_each_question(function: Any) -> None:
    questions = dataset()
    assert everyones(evaluate(function, questions, ["recall@5"])) == OWN
    assert questions.metadata == dataset().metadata


@pytest.mark.parametrize(
    ("bound", "seen"), [({"metadata": "mine"}, ["mine", "mine"]), ({}, [{}, {}])]
)
def test_metadata_that_are_bound_stay_and_without_any_there_are_none(bound: Any, seen: Any) -> None:
    told: list[Any] = []

    def search(question: str, metadata: Any = None) -> list[str]:
        told.append(metadata)
        return ["d"]

    questions = dataset() if bound else RetrievalDataset(dataset().queries, dataset().relevance)
    evaluate(partial(search, **bound), questions, ["recall"])
    assert told == seen


def test_stages_of_a_function_keep_askers_apart() -> None:
    stages = evaluate_stages(of_tenant, {"keep": KEEP}, dataset(), ["recall@5"])
    assert [everyones(results) for results in stages.values()] == [OWN, OWN]


@pytest.mark.parametrize("source", FUNCTIONS)
def test_journal_asks_again_for_another_asker(source: Any, tmp_path: Path) -> None:
    ask = partial(evaluate, source, metrics=["recall@5"], journal=tmp_path / "run.jsonl")
    assert everyones(ask(dataset=dataset())) == OWN
    assert everyones(ask(dataset=dataset())) == OWN
    assert everyones(ask(dataset=dataset(q2="acme"))) == {"q1": {"acme"}, "q2": {"acme"}}


def test_journal_of_a_source_without_context_takes_other_metadata(tmp_path: Path) -> None:
    asked: list[str] = []

    def search(question: str) -> list[str]:
        asked.append(question)
        return ["acme 0"]

    for tenant in ("blue", "acme"):
        evaluate(search, dataset(q2=tenant), ["recall"], journal=tmp_path / "run.jsonl")
    assert len(asked) == 2


def test_sweeps_journal_without_context_is_asked_again(tmp_path: Path) -> None:
    """Askers become known after the first run, whose journal has all the answers."""

    def search(question: str, metadata: dict[str, Any]) -> list[str]:
        return [f"{metadata.get('tenant', 'nobody')} 0"]

    nobody = RetrievalDataset(dataset().queries, dataset().relevance)
    ask: Any = partial(sweep, lambda n: search, {"n": [1]}, metrics=["recall"], journal=tmp_path)
    for _ in range(2):
        (first,) = ask(dataset=nobody)
        assert everyones(first.results) == {"q1": {"nobody"}, "q2": {"nobody"}}
    (second,) = ask(dataset=dataset())
    assert everyones(second.results) == OWN
