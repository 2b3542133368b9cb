"""Who asks: functions get the question's metadata, and another asker's answer never comes back.

Annotations are types: those of a step that are text are beyond the oldest core.
"""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_index.core import MockEmbedding, SummaryIndex, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.llms import MockLLM
from llama_index.core.objects import ObjectIndex
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import (
    QueryFusionRetriever,
    VectorIndexAutoRetriever,
    VectorIndexRetriever,
)
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool, QueryEngineTool
from llama_index.core.vector_stores import (
    FilterCondition,
    MetadataFilter,
    MetadataFilters,
    VectorStoreInfo,
)
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.retrievers.bm25 import BM25Retriever
from support.retrievers import Postprocessor

from llama_index_rag_metrics import (
    EvaluationResults,
    RetrievalDataset,
    evaluate,
    evaluate_stages,
    sweep,
)
from llama_index_rag_metrics.evaluation.who_asks import with_filters
from llama_index_rag_metrics.runtime.errors import InvalidInput, JournalMismatch

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
    *(partial(with_depth, depth=5), retried(of_tenant)),
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
def test_a_function_gets_the_metadata_of_each_question(function: Any) -> None:
    questions = dataset()
    assert everyones(evaluate(function, questions, ["recall@5"])) == OWN
    assert questions.metadata == dataset().metadata


def test_a_function_of_the_question_alone_keeps_its_own_defaults() -> None:
    def search(question: str, depth: int = 1) -> list[str]:
        return ["acme 0", "blue 0"][:depth]

    assert everyones(evaluate(search, dataset(), ["recall"])) == {"q1": {"acme"}, "q2": {"acme"}}


def test_metadata_that_are_bound_stay() -> None:
    seen: list[Any] = []

    def search(question: str, metadata: Any = None) -> list[str]:
        seen.append(metadata)
        return ["d"]

    evaluate(partial(search, metadata="mine"), dataset(), ["recall"])
    assert seen == ["mine", "mine"]


def test_a_question_without_metadata_has_none() -> None:
    seen: list[Any] = []

    def search(question: str, metadata: Any) -> list[str]:
        seen.append(metadata)
        return ["d"]

    evaluate(search, {"queries": {"q": "?"}, "relevant_docs": {"q": ["d"]}}, ["recall"])
    assert seen == [{}]


def engine() -> Any:
    return INDEX.as_query_engine(llm=MockLLM(), similarity_top_k=5)


class Start(StartEvent):
    question: str
    filters: Any = None


def asks() -> Workflow:
    """Reads the filters of its own start event."""
    if not hasattr(Workflow, "start_event_class"):
        pytest.skip("this core has no start events of one's own")

    class Asks(Workflow):
        @step
        async def look(self, ev: Start) -> StopEvent:
            retriever = INDEX.as_retriever(similarity_top_k=5, filters=ev.filters)
            return StopEvent(result=len(await retriever.aretrieve(ev.question)))

    return Asks()


SOURCES: dict[str, Callable[[], Any]] = {
    "index": lambda: INDEX,
    "retriever": lambda: INDEX.as_retriever(similarity_top_k=5),
    "engine": engine,
    "chat engine": lambda: INDEX.as_chat_engine(
        ChatMode.CONTEXT, llm=MockLLM(), similarity_top_k=5
    ),
    "workflow": asks,
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("filters", ["tenant", by_tenant])
def test_the_same_question_of_two_askers(make: Any, filters: Any, tmp_path: Path) -> None:
    questions = dataset()
    assert everyones(evaluate(make(), questions, ["recall@5"], filters=filters)) == OWN
    assert everyones(evaluate(make(), questions, ["recall@5"])) != OWN
    stages = evaluate_stages(make(), {"keep": KEEP}, questions, ["recall@5"], filters=filters)
    assert [everyones(results) for results in stages.values()] == [OWN, OWN]
    for _ in range(2):  # the second one reads the journals
        found = sweep(
            lambda n: make(),
            {"n": [1]},
            questions,
            ["recall@5"],
            filters=filters,
            journal=tmp_path,
            count_tokens=False,
        )
        assert [everyones(each.results) for each in found.finished] == [OWN]


def test_stages_of_a_function_keep_askers_apart() -> None:
    stages = evaluate_stages(of_tenant, {"keep": KEEP}, dataset(), ["recall@5"])
    assert [everyones(results) for results in stages.values()] == [OWN, OWN]


@pytest.mark.parametrize("source", [*FUNCTIONS, INDEX, engine()])
def test_a_journal_refuses_another_asker(source: Any, tmp_path: Path) -> None:
    options: Any = {} if source in FUNCTIONS else {"filters": "tenant"}
    ask = partial(evaluate, source, metrics=["recall@5"], journal=tmp_path / "run.jsonl", **options)
    assert everyones(ask(dataset=dataset())) == OWN
    assert everyones(ask(dataset=dataset())) == OWN
    with pytest.raises(JournalMismatch, match="filters" if options else "metadata"):
        ask(dataset=dataset(q2="acme"))


def test_a_journal_of_what_is_told_nothing_takes_other_metadata(tmp_path: Path) -> None:
    asked: list[str] = []

    def search(question: str) -> list[str]:
        asked.append(question)
        return ["acme 0"]

    for tenant in ("blue", "acme"):
        evaluate(search, dataset(q2=tenant), ["recall"], journal=tmp_path / "run.jsonl")
    assert len(asked) == 2


def test_every_run_of_a_question_is_of_its_asker_and_goes_on(tmp_path: Path) -> None:
    """Two askers, three times each; stopped in the second time, then with a threshold."""
    journal, asked = tmp_path / "run.jsonl", []

    def search(question: str, metadata: dict[str, Any]) -> list[NodeWithScore]:
        asked.append(metadata["tenant"])
        nodes = [TextNode(id_=f"{metadata['tenant']} {n}", text=f"pay {n}") for n in range(5)]
        return [NodeWithScore(node=node, score=1 - n / 5) for n, node in enumerate(nodes)]

    def run(of: RetrievalDataset, **options: Any) -> EvaluationResults:
        again: Any = {"journal": journal, "retriever_id": "ours", "workers": 1, "repeats": 3}
        return evaluate(search, of, ["recall", "pass^3 recall"], **again, **options)

    run(dataset())
    head, *answers = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([head, *answers[:3]]))
    asked.clear()
    whole = run(dataset())
    assert asked == ["blue", "acme", "blue"]
    cut = run(dataset(), min_score=0.7)
    assert asked == ["blue", "acme", "blue"]
    for results, depth in ((whole, 5), (cut, 2)):
        for time in results.run.repeats:
            assert {key: [*ranking.ids] for key, ranking in time.items()} == {
                key: [f"{tenant} {n}" for n in range(depth)] for key, tenant in TENANTS.items()
            }
        assert dict(results.scores.means) == {"recall": 1, "pass^3 recall": 1}
    with pytest.raises(JournalMismatch):
        run(dataset(q2="acme"))


def test_a_journal_without_filters_is_another(tmp_path: Path) -> None:
    ask = partial(evaluate, INDEX, dataset(), ["recall@5"], journal=tmp_path / "run.jsonl")
    ask()
    with pytest.raises(JournalMismatch, match="filters"):
        ask(filters="tenant")


def bm25() -> BM25Retriever:
    return BM25Retriever.from_defaults(nodes=NODES, similarity_top_k=2)  # type: ignore[arg-type]


def agent(*tools: Any) -> Any:
    agents = pytest.importorskip("llama_index.core.agent.workflow", reason="no such agents")
    return agents.FunctionAgent(tools=list(tools), llm=MockLLM())


def look_up(text: str) -> str:
    """Look something up."""
    return text


class Plain(Workflow):
    @step
    async def look(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=str(ev.query))


def found_tools() -> Any:
    tool = QueryEngineTool.from_defaults(engine(), name="docs", description="docs")
    index = ObjectIndex.from_objects(
        [tool], index_cls=VectorStoreIndex, embed_model=MockEmbedding(embed_dim=3)
    )
    agents = pytest.importorskip("llama_index.core.agent.workflow", reason="no such agents")
    return agents.FunctionAgent(tool_retriever=index.as_retriever(), llm=MockLLM())


def with_engine_among_nodes() -> Any:
    """A retriever that goes on to an engine, which a node stands for."""
    unfiltered = RetrieverQueryEngine.from_args(bm25(), llm=MockLLM())
    return VectorIndexRetriever(INDEX, object_map={"docs": unfiltered})


class Nested(BaseRetriever):
    """Holds its retrievers deeper than in a list."""

    def __init__(self, *further: BaseRetriever) -> None:
        super().__init__()
        self.by_kind = {"all": [(INDEX.as_retriever(similarity_top_k=5), *further)]}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        retrievers = self.by_kind["all"][0]
        return [node for each in retrievers for node in each.retrieve(query_bundle)]


def nested() -> Nested:
    return Nested(bm25())


def test_retrievers_in_lists_of_lists_are_filtered() -> None:
    assert everyones(evaluate(Nested(), dataset(), ["recall"], filters="tenant")) == OWN


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (found_tools, "FunctionAgent: .*ObjectRetriever, a part of it, takes none"),
        (with_engine_among_nodes, "VectorIndexRetriever: BM25Retriever, a part of it, takes none"),
        (bm25, "BM25Retriever: it takes none"),
        (lambda: SummaryIndex(NODES), "SummaryIndexRetriever"),
        (lambda: lambda question: ["acme 0"], "a function"),
        (lambda: of_tenant, "a function"),
        (lambda: INDEX.as_chat_engine(ChatMode.SIMPLE, llm=MockLLM()), "SimpleChatEngine"),
        (Plain, "Plain"),
        (nested, "Nested: BM25Retriever, a part of it"),
        (
            # one of two is enough to leak
            lambda: QueryFusionRetriever(
                [INDEX.as_retriever(), bm25()], llm=MockLLM(), num_queries=1
            ),
            "QueryFusionRetriever",
        ),
        (
            lambda: agent(
                QueryEngineTool.from_defaults(engine(), name="docs", description="docs"),
                FunctionTool.from_defaults(look_up),
            ),
            "FunctionAgent",
        ),
    ],
)
def test_what_takes_no_filters_is_refused_before_any_question(make: Any, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"filters can't be given for {name}"):
        evaluate(make(), dataset(), ["recall"], filters="tenant")


@pytest.mark.parametrize(
    ("filters", "error"),
    [
        ("team", "'q1' lacks it and has: tenant, got 'team'"),
        (by_tenant({"tenant": "acme"}), "filters=lambda metadata: your_filters"),
        (
            lambda question, metadata: None,
            "a function of one argument.*got 'a function of question",
        ),
        (lambda: None, "a function of one argument.*got 'a function of nothing'"),
        (7, "a key of the questions' metadata, or a function"),
        (lambda metadata: {"tenant": "acme"}, "what filters returned: expected .*MetadataFilters"),
        (lambda metadata: metadata["team"], r"for question 'q1' with the metadata \['tenant'\]"),
        (lambda metadata: None, "for one question at least"),
        (lambda metadata: MetadataFilters(filters=[]), "for one question at least"),
    ],
)
def test_filters_that_are_none_are_refused(filters: Any, error: str) -> None:
    asked: list[str] = []
    with pytest.raises(InvalidInput, match=error):
        evaluate(INDEX, dataset(), ["recall"], filters=filters)
    assert asked == []


@pytest.mark.parametrize("value", [{"a": 1}, [["a"]], True])
def test_a_value_that_no_filter_takes_is_named(value: Any) -> None:
    questions = RetrievalDataset({"q": "pay?"}, {"q": ["d"]}, metadata={"q": {"tenant": value}})
    with pytest.raises(InvalidInput, match=r"a text or a number, .* as 'tenant' of question 'q'"):
        evaluate(INDEX, questions, ["recall"], filters="tenant")


def test_filters_change_no_metadata() -> None:
    questions = RetrievalDataset(
        {"q": "pay?"}, {"q": ["acme 0"]}, metadata={"q": {"tenants": ["acme"]}}
    )

    def first(metadata: Any) -> MetadataFilters:
        return by_tenant({"tenant": metadata["tenants"].pop()})

    for _ in range(2):
        assert everyones(evaluate(INDEX, questions, ["recall"], filters=first)) == {"q": {"acme"}}


@pytest.mark.parametrize(
    ("one", "other"),
    [({1: 2}, {"1": 2}), (b"x", "b'x'"), (np.arange(5000), np.arange(5000) // 2500 * 2500)],
)
def test_a_journal_tells_values_of_any_kind_apart(one: Any, other: Any, tmp_path: Path) -> None:
    def run(value: Any) -> None:
        rows = {"q": {"of": {("a", 1): 1, "value": value}}}
        questions = RetrievalDataset({"q": "pay?"}, {"q": ["acme 0"]}, metadata=rows)
        ask: Any = lambda question, metadata: ["acme 0"]  # noqa: E731
        evaluate(ask, questions, ["recall"], journal=tmp_path / "run.jsonl", retriever_id="ours")

    run(one)
    run(one)
    with pytest.raises(JournalMismatch, match="metadata"):
        run(other)


def test_a_question_may_have_no_filter() -> None:
    results = evaluate(
        INDEX,
        dataset(),
        ["recall@10"],
        filters=lambda metadata: by_tenant(metadata) if metadata["tenant"] == "acme" else None,
    )
    assert everyones(results) == {"q1": {"acme"}, "q2": {"acme", "blue"}}


def test_a_retriever_that_makes_filters_of_its_own() -> None:
    about = VectorStoreInfo(content_info="pay", metadata_info=[])
    auto = VectorIndexAutoRetriever(INDEX, vector_store_info=about, llm=MockLLM())
    filtered: Any = with_filters(auto, by_tenant({"tenant": "acme"}))
    assert filtered._extra_filters.filters == by_tenant({"tenant": "acme"}).filters
    assert auto._extra_filters.filters == []


def test_filters_of_any_condition_are_added() -> None:
    either = MetadataFilters(
        filters=[MetadataFilter(key="a", value="1"), MetadataFilter(key="b", value="2")],
        condition=FilterCondition.OR,
    )
    own = by_tenant({"tenant": "acme"})
    filtered = with_filters(INDEX.as_retriever(filters=either), own)
    combined: Any = vars(filtered)["_filters"]
    assert combined.condition == FilterCondition.AND
    assert combined.filters == [either, *own.filters]
