"""Who asks: functions get the question's metadata, and another asker's answer never comes back.

Annotations are types: those of a step that are text are beyond the oldest core.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any

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
from llama_index.core.vector_stores import FilterOperator as O
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.retrievers.bm25 import BM25Retriever
from pydantic import BaseModel, Field
from support.retrievers import Postprocessor

from llama_index_rag_metrics import (
    EvaluationResults,
    RetrievalDataset,
    evaluate,
    evaluate_stages,
    sweep,
)
from llama_index_rag_metrics.evaluation.who_asks import Query, with_filters
from llama_index_rag_metrics.runtime.errors import InvalidInput

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


@pytest.mark.parametrize("source", FUNCTIONS)
def test_a_journal_asks_again_for_another_asker(source: Any, tmp_path: Path) -> None:
    ask = partial(evaluate, source, metrics=["recall@5"], journal=tmp_path / "run.jsonl")
    assert everyones(ask(dataset=dataset())) == OWN
    assert everyones(ask(dataset=dataset())) == OWN
    assert everyones(ask(dataset=dataset(q2="acme"))) == {"q1": {"acme"}, "q2": {"acme"}}


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
        again: Any = {"journal": journal, "workers": 1, "repeats": 3}
        return evaluate(search, of, ["recall"], **again, **options)

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
        assert dict(results.scores.means) == {"recall": 1}
    asked.clear()
    run(dataset(q2="acme"))
    assert asked == ["acme"] * 3


def test_a_sweeps_journal_knows_that_nothing_was_told_yet(tmp_path: Path) -> None:
    """Askers become known after the first run, whose journal has all the answers."""

    def search(question: str, metadata: dict[str, Any]) -> list[str]:
        return [f"{metadata.get('tenant', 'nobody')} 0"]

    nobody = RetrievalDataset(dataset().queries, dataset().relevance)
    ask: Any = partial(sweep, lambda n: search, {"n": [1]}, metrics=["recall"], journal=tmp_path)
    for _ in range(2):
        (first,) = ask(dataset=nobody, count_tokens=False).finished
        assert everyones(first.results) == {"q1": {"nobody"}, "q2": {"nobody"}}
    (second,) = ask(dataset=dataset(), count_tokens=False).finished
    assert everyones(second.results) == OWN


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


@dataclass
class User:
    key: str = field(repr=False)


class Account(BaseModel):
    key: str = Field(exclude=True, repr=False)


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


def test_filters_that_the_retriever_keeps_in_a_way_of_its_own_are_refused() -> None:
    class Own(BaseRetriever):
        def __init__(self) -> None:
            super().__init__()
            self._filters = {"tenant": "acme"}

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return []

    with pytest.raises(InvalidInput, match="filters can't be given for Own: it takes none"):
        evaluate(Own(), dataset(), ["recall"], filters="tenant")


def either_filter(metadata: Any) -> MetadataFilters:
    filters = [
        MetadataFilter(key="tenant", value=metadata["tenant"]),
        MetadataFilter(key="tenant", value="nobody"),
    ]
    return MetadataFilters(filters=filters, condition=FilterCondition.OR)


def test_a_filter_of_alternatives_stays_as_it_is() -> None:
    """Some stores, as the simple one, take no filters in filters."""
    assert everyones(evaluate(INDEX, dataset(), ["recall@5"], filters=either_filter)) == OWN


def test_it_is_said_where_filters_leave_nothing() -> None:
    numbered = VectorStoreIndex(
        [TextNode(id_="n", text="pay", metadata={"tenant": 1})],
        embed_model=MockEmbedding(embed_dim=3),
    )
    results = evaluate(numbered, dataset(q1="1", q2="1"), ["recall@5"], filters="tenant")
    assert [note for note in results.scores.notes if "filters left no passage" in note]
    results = evaluate(INDEX, dataset(), ["recall@5"], filters="tenant")
    assert not [note for note in results.scores.notes if "filters left no passage" in note]


class Unfiltered(BaseRetriever):
    """Has a place for filters, and applies none."""

    def __init__(self, **metadata: Any) -> None:
        super().__init__()
        self._filters = None
        self.nodes = [NodeWithScore(node=TextNode(text="pay", metadata=metadata))]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.nodes


@pytest.mark.parametrize(
    ("metadata", "remark"),
    [({"tenant": "acme"}, "filters of their question leave out"), ({}, "no metadata 'tenant'")],
)
def test_a_store_that_ignores_filters_is_found_out(metadata: Any, remark: str) -> None:
    results = evaluate(Unfiltered(**metadata), dataset(), ["recall"], filters="tenant")
    assert [note for note in results.scores.notes if remark in note]
    results = evaluate(INDEX, dataset(), ["recall"], filters="tenant")
    assert not [note for note in results.scores.notes if remark in note]


@pytest.mark.parametrize(
    ("condition", "differs"),
    [
        ((O.EQ, 2), False),
        ((O.EQ, 2.0), False),
        ((O.EQ, "2"), False),  # of kinds, every store has its own idea
        ((O.EQ, 3), True),
        ((O.IN, [1, 3]), True),
        ((O.NE, 2), True),
        ((O.NE, 3), False),
        ((O.NIN, [2, 3]), True),
        ((O.GT, 2), True),
        ((O.GTE, 2), False),
        ((O.LT, 3), False),
        ((O.LTE, 1), True),
        ((O.LTE, "1"), False),
        ((O.GT, []), False),
        ((O.TEXT_MATCH, "x"), False),
        ((FilterCondition.OR, [(O.EQ, 1), (O.EQ, 3)]), True),
        ((FilterCondition.OR, [(O.EQ, 1), (O.EQ, 2)]), False),
        ((FilterCondition.AND, [(O.EQ, 2), (FilterCondition.OR, [(O.EQ, 1)])]), True),
        # core 0.12.0 has no NOT
        *(((kind, [(O.EQ, 1)]), False) for kind in FilterCondition if kind.name == "NOT"),
    ],
)
def test_what_surely_does_not_fit(condition: Any, differs: bool) -> None:
    def made(kind: Any, value: Any) -> Any:
        if isinstance(kind, FilterCondition):
            return MetadataFilters(filters=[made(*each) for each in value], condition=kind)
        return MetadataFilter(key="level", value=value, operator=kind)

    whole = made(*condition)
    filters = whole if isinstance(whole, MetadataFilters) else MetadataFilters(filters=[whole])
    query = Query("pay?", filters=filters)
    of_level = [NodeWithScore(node=TextNode(text="pay", metadata={"level": 2}))]
    assert query.forbids(of_level) == differs
    # whatever lacks the key may have it under another name
    assert not query.forbids([NodeWithScore(node=TextNode(text="pay"))])


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
