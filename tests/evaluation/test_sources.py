"""What can be evaluated: engines that answer, and what is refused before or at the first query."""

import asyncio
import functools
import math
from contextvars import ContextVar
from typing import Any

import pytest
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.base.response.schema import Response
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import (
    CustomQueryEngine,
    MultiStepQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
)
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.tools import QueryEngineTool, ToolMetadata
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.workflow import StopEvent
from support.retrievers import Postprocessor, Scripted, WithoutPrompts, node
from support.runs import ids_of
from support.searching_workflows import Searching

from llama_index_rag_metrics import (
    RetrievalDataset,
    RetrieverEvaluator,
    evaluate,
    evaluate_stages,
    record_retrieval,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput

pytestmark = pytest.mark.servers

DATASET = RetrievalDataset({"q1": "kiln", "q2": "glaze"}, {"q1": ["a"], "q2": ["b"]})


def scripted() -> Scripted:
    return Scripted({"kiln": ["a", "x"], "glaze": ["y", "b"]})


def engine() -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(scripted(), llm=MockLLM())


class First(WithoutPrompts, BaseSelector):
    """Selects the first engine."""

    def _select(self, choices: Any, query: QueryBundle) -> SelectorResult:
        return SelectorResult(selections=[SingleSelection(index=0, reason="the first")])

    async def _aselect(self, choices: Any, query: QueryBundle) -> SelectorResult:
        return self._select(choices, query)


class Itself(WithoutPrompts, BaseQuestionGenerator):
    """The question itself as the only sub-question."""

    def generate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
        return [SubQuestion(sub_question=query.query_str, tool_name="words")]

    async def agenerate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
        return self.generate(tools, query)


class Sourced(CustomQueryEngine):
    """Answers as its author wrote it, with sources."""

    def custom_query(self, query_str: str) -> Response:
        return Response("yes", source_nodes=scripted().retrieve(query_str))


def tool() -> QueryEngineTool:
    return QueryEngineTool(engine(), ToolMetadata(name="words", description="words"))


def router() -> RouterQueryEngine:
    return RouterQueryEngine(First(), [tool()], llm=MockLLM())


def sub_question(use_async: bool = True) -> SubQuestionQueryEngine:
    return SubQuestionQueryEngine.from_defaults(
        [tool()], llm=MockLLM(), question_gen=Itself(), verbose=False, use_async=use_async
    )


def multi_step() -> MultiStepQueryEngine:
    from llama_index.core.indices.query.query_transform.base import IdentityQueryTransform

    class Plain(IdentityQueryTransform):
        def _run(self, query_bundle: QueryBundle, metadata: Any) -> QueryBundle:
            return query_bundle

    options: Any = {"query_transform": Plain(), "num_steps": 1, "early_stopping": False}
    return MultiStepQueryEngine(engine(), **options)


ENGINES = {
    "router": router,
    "sub-questions": sub_question,
    "sub-questions one after the other": lambda: sub_question(use_async=False),
    "custom": Sourced,
}


@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
def test_sources_of_answers_are_what_was_retrieved(make: Any) -> None:
    results = evaluate(make(), DATASET, ["mrr", "precision"])
    assert ids_of(results.run) == {"q1": ["a", "x"], "q2": ["y", "b"]}
    # first hit at 1 and at 2; one of two retrieved is relevant
    assert results.scores.means == {"mrr": 0.75, "precision": 0.5}
    calls = {
        query_id: [list(call.ids) for call in made] for query_id, made in results.run.calls.items()
    }
    assert calls == {"q1": [["a", "x"]], "q2": [["y", "b"]]}


def test_steps_of_answering_are_not_retrieved(monkeypatch: pytest.MonkeyPatch) -> None:
    from llama_index.core import Settings

    monkeypatch.setattr(Settings, "_llm", MockLLM())
    results = evaluate(multi_step(), DATASET, ["mrr"])
    assert results.scores.means["mrr"] == 0.75


def test_engine_that_retrieves_is_not_asked_to_answer() -> None:
    results = evaluate(engine(), DATASET, ["mrr"])
    assert results.scores.means["mrr"] == 0.75
    assert results.scores.notes == ()


def test_note_counts_answers_without_sources() -> None:
    class Silent(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            return "yes"

    for repeats in (1, 3):
        results = evaluate(Silent(), DATASET, ["mrr"], repeats=repeats)
        assert results.scores.counts.empty == 2
        [note] = results.scores.notes
        n = 2 * repeats
        assert note.startswith(f"{n} answers were given without a retrieval that could be seen")
        assert results.report().decision[0].text == f"{note}."


def test_error_of_a_blocking_function_that_starts_an_agent_says_await() -> None:
    with pytest.raises(InvalidInput, match=r"search: expected .*async def ask\(question\)"):
        evaluate(search, DATASET, ["mrr"])


def search(question: str) -> Any:
    return asyncio.get_running_loop().create_task(asyncio.sleep(0))


def test_error_says_how_a_blocking_function_can_be_captured() -> None:
    class Output(StopEvent):  # as an agent's: iterable, and empty
        response: str = "an answer"

    for answer in ("an answer", Output()):
        shown = r"got .*an answer.*captured if it is an asynchronous"
        with pytest.raises(InvalidInput, match=shown):
            evaluate(lambda question, answer=answer: answer, DATASET, ["mrr"])


@pytest.mark.parametrize("timeout", [None, 5])
def test_what_an_asynchronous_function_sets_ends_with_its_question(timeout: float | None) -> None:
    earlier = ContextVar("earlier", default="none")

    async def ask(query: str) -> list[str]:
        found = [earlier.get()]
        earlier.set(query)
        return found

    run = evaluate(ask, DATASET, ["mrr"], workers=1, timeout=timeout).run
    assert [list(ranking.ids) for ranking in run.values()] == [["none"], ["none"]]


class Workflowish:
    """What agents have, of whatever version."""

    async def run(self, user_msg: str) -> str:
        return user_msg


@pytest.mark.parametrize(
    ("source", "cure"),
    [
        (Workflowish(), r"captured if it is an asynchronous function.*async def ask\(question\)"),
        (Scripted, r"Give an instance of it, built as Scripted\(\.\.\.\)"),
        (DATASET, "expected a retriever, an index, a query engine"),
        (None, "expected a retriever, an index, a query engine"),
        (SimpleVectorStore(), r"the index is VectorStoreIndex\.from_vector_store\(store\)"),
    ],
)
def test_source_that_cannot_be_evaluated_is_refused_with_what_to_do(source: Any, cure: str) -> None:
    with pytest.raises(InvalidInput, match=cure):
        evaluate(source, DATASET, ["mrr"])
    with pytest.raises(ValueError, match=cure):
        RetrieverEvaluator.from_metric_names(["mrr"], retriever=source)


@pytest.mark.parametrize("method", ["look", "search"])
def test_program_may_have_methods_that_retrieve(method: str) -> None:
    retrieved = {query_id: [query] for query_id, query in DATASET.queries.items()}
    results = evaluate(getattr(Searching(), method), DATASET, ["recall"])
    assert {query_id: ranking.ids for query_id, ranking in results.run.items()} == retrieved


def test_labels_under_another_name_are_pointed_to() -> None:
    frame = [{"query": "kiln", "wanted": ["a"]}, {"query": "glaze", "wanted": ["b"]}]
    note = RetrievalDataset.load(frame).check()[-1]
    assert "columns={'labels': …}; columns here: wanted." in note
    report = evaluate(scripted(), frame, ["recall"]).report()
    assert report.decision[0].text == f"{note}."


@pytest.mark.parametrize(
    ("given", "kind"), [(Postprocessor(function=list), "<class"), ([print], "<class 'builtin_")]
)
def test_value_that_is_no_list_of_postprocessors(given: Any, kind: str) -> None:
    words = f"expected a list of LlamaIndex's postprocessors, got {kind}"
    with pytest.raises(InvalidInput, match=words):
        evaluate(scripted(), DATASET, ["mrr"], node_postprocessors=given)


def searched(question: str, client: list[str], k: int) -> list[str]:
    return [f"{item} {question}" for item in client][:k]


@functools.wraps(searched)
def supplied(question: str) -> list[str]:
    return searched(question, client=["a", "x"], k=2)


@pytest.mark.parametrize("function", [supplied, functools.partial(supplied)])
def test_decorator_supplies_arguments(function: Any) -> None:
    dataset = {"queries": {"q1": "kiln"}, "relevance": {"q1": ["a kiln"]}}
    results = evaluate(function, RetrievalDataset(**dataset), ["mrr"])  # type: ignore[arg-type]
    assert results.scores.means["mrr"] == 1.0


def test_score_of_nan_counts_as_none() -> None:
    """As in traces and in runs that were written, so that a journal changes nothing."""

    async def agent(question: str) -> str:
        record_retrieval(question, nodes(question))
        return "told"

    def nodes(question: str) -> list[NodeWithScore]:
        return [node("a", score=math.nan), node("b", score=0.5)]

    for source in (nodes, agent):
        results = evaluate(source, DATASET, ["mrr"])
        assert dict(results.scores.means) == {"mrr": 0.75}  # ranks 1 and 2
        assert results.run["q1"].scores == [None, 0.5]
        with pytest.raises(InvalidInput, match="expected a score of every retrieved passage"):
            evaluate(source, DATASET, ["mrr"], min_score=0.1)


def test_name_is_a_text() -> None:
    with pytest.raises(InvalidInput, match=r"name: expected a text, .* got 3"):
        evaluate(scripted(), DATASET, ["mrr"], name=3)  # type: ignore[arg-type]


def test_refusal_shows_no_keys() -> None:
    class Chatting(Workflowish):
        def __repr__(self) -> str:
            return "Chatting(api_key='sk-secret')"

    with pytest.raises(InvalidInput) as caught:
        evaluate(Chatting(), DATASET, ["mrr"])  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


MANY = RetrievalDataset(
    queries={f"q{n}": f"query {n}" for n in range(50)},
    relevance={f"q{n}": ["a"] for n in range(50)},
)


class TestAtTheFirstQuery:
    @pytest.mark.parametrize(
        ("returned", "shown"),
        [
            ([("a", 0.5)], r"got \('a', 0.5\)"),
            ([{"id": "a"}], "got {'id': 'a'}"),
            ({"a": 0.5}, "got {'a': 0.5}"),
            ([1], "got 1"),
            (None, "got None"),
            ("a", "got 'a'"),
        ],
    )
    def test_function_returns_something_else_than_nodes(self, returned: Any, shown: str) -> None:
        asked = []

        def retrieve(query: str) -> Any:
            asked.append(query)
            return returned

        with pytest.raises(InvalidInput, match=f"{shown}.*Return ids as strings, or NodeWith"):
            evaluate(retrieve, MANY, ["mrr"], workers=2)
        assert len(asked) <= 3

    def test_key_of_match_on_is_in_no_node(self) -> None:
        retriever = Scripted({query: [node("a", file="f")] for query in MANY.queries.values()})
        with pytest.raises(InvalidInput, match=r"match_on.*\['node_id', 'ref_doc_id', 'file'\]"):
            evaluate(retriever, MANY, ["mrr"], match_on="filename", workers=2)
        assert len(retriever.asked) <= 3

    def test_source_that_fails_after_an_answer_fails_its_query_alone(self) -> None:
        answers = iter([["a"], [("a", 1)], ["a"]])
        dataset = MANY.select(["q0", "q1", "q2"])
        results = evaluate(lambda query: next(answers), dataset, ["mrr"], workers=1)  # type: ignore[arg-type]
        assert list(results.scores.failed) == ["q1"]


class Awaited(Postprocessor):
    """Has an asynchronous method, and none for threads."""

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
        raise NotImplementedError("asynchronous only")

    async def _apostprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
        return self.function(nodes)


@pytest.mark.skipif(
    not hasattr(BaseNodePostprocessor, "apostprocess_nodes"),
    reason="this core has no asynchronous postprocessors",
)
def test_asynchronous_postprocessors_are_awaited() -> None:
    reverse = Awaited(function=lambda nodes: nodes[::-1])
    results = evaluate(scripted(), DATASET, ["mrr"], node_postprocessors=[reverse])
    # hits at 2 and at 1
    assert results.scores.failed == {}
    assert list(results.run["q1"].ids) == ["x", "a"]
    stages = evaluate_stages(scripted(), {"reverse": reverse}, DATASET, ["mrr"])
    assert list(stages["reverse"].run["q1"].ids) == ["x", "a"]
