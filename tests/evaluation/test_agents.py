"""Agents, workflows and engines, evaluated: every call as the script says, whatever runs beside."""

import asyncio
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.retrievers.bm25 import BM25Retriever
from support.retrievers import Postprocessor, WithoutPrompts
from support.scripted import ScriptedFunctions, ScriptedReasoning

from llama_index_rag_metrics import RetrievalDataset, evaluate, record_retrieval
from llama_index_rag_metrics.runtime.errors import InvalidInput

WORDS = ["saturn", "mars", "venus", "pluto", "earth", "moon", "io", "titan"]
NODES = [TextNode(id_=word, text=f"{word} is far away") for word in WORDS]
LLM = MockLLM()
REVERSED = Postprocessor(function=lambda nodes: nodes[::-1])

pytestmark = pytest.mark.filterwarnings("ignore:.*fields.* attribute:DeprecationWarning")
"""What workflows ask of models, thousands of times."""

agents = pytest.importorskip("llama_index.core.agent.workflow")


def bm25() -> BM25Retriever:
    return BM25Retriever.from_defaults(nodes=NODES, similarity_top_k=2)  # type: ignore[arg-type]


def vectors() -> BaseRetriever:
    index = VectorStoreIndex(NODES, embed_model=MockEmbedding(embed_dim=4))
    return index.as_retriever(similarity_top_k=3)


def engine(retriever: BaseRetriever, *postprocessors: BaseNodePostprocessor) -> Any:
    synthesizer = get_response_synthesizer(llm=LLM)
    return RetrieverQueryEngine(retriever, synthesizer, list(postprocessors))


SPARSE, DENSE = bm25(), vectors()
FUSION = QueryFusionRetriever([SPARSE, DENSE], llm=LLM, num_queries=1, similarity_top_k=4)


async def look_up(input: str) -> str:  # noqa: A002 - what the model calls it
    """A tool of one's own."""
    return str([hit.node_id for hit in await SPARSE.aretrieve(input)])


TOOLS = [
    RetrieverTool.from_defaults(SPARSE, name="sparse", description="words"),
    RetrieverTool.from_defaults(DENSE, name="dense", description="meaning"),
    RetrieverTool.from_defaults(FUSION, name="fusion", description="both"),
    QueryEngineTool.from_defaults(engine(SPARSE, REVERSED), name="engine", description="answers"),
    FunctionTool.from_defaults(async_fn=look_up, name="own", description="own"),
]
TOOL_NAMES = [str(tool.metadata.name) for tool in TOOLS]


def expected_ids(tool: str, query: str) -> list[str]:
    """What a tool retrieves, asked by itself."""
    asked = f"input is {query}\n" if tool in ("sparse", "dense", "fusion") else query
    retriever = {"dense": DENSE, "fusion": FUSION}.get(tool, SPARSE)
    ids = [hit.node.node_id for hit in retriever.retrieve(asked)]
    return ids[::-1] if tool == "engine" else ids


def turns(number: int) -> list[list[tuple[str, str]]]:
    """What an agent does for a question: none to five calls, by all tools."""
    picked = [TOOL_NAMES[(number + turn) % len(TOOL_NAMES)] for turn in range(number % 6)]
    return [[(tool, WORDS[(number + turn) % 8])] for turn, tool in enumerate(picked)]


def dataset(n_questions: int) -> RetrievalDataset:
    return RetrievalDataset(
        queries={f"q{number}": f"question {number}" for number in range(n_questions)},
        relevance={f"q{number}": [WORDS[number % 8]] for number in range(n_questions)},
    )


def scripts(n_questions: int) -> dict[str, Any]:
    return {f"question {number}": turns(number) for number in range(n_questions)}


def function_agent(script: dict[str, Any]) -> Any:
    return agents.FunctionAgent(tools=TOOLS, llm=ScriptedFunctions(script=script))


def react_agent(script: dict[str, Any]) -> Any:
    return agents.ReActAgent(tools=TOOLS, llm=ScriptedReasoning(script=script))


def agent_workflow(script: dict[str, Any]) -> Any:
    return agents.AgentWorkflow(agents=[function_agent(script)])


def check_calls(results: Any, number: int) -> None:
    """The calls of a question and their sum, by hand."""
    ranking = results.run[f"q{number}"]
    script = [call for turn in turns(number) for call in turn]
    assert [call.query.replace("input is", "").strip() for call in ranking.calls] == [
        query for _, query in script
    ]
    retrieved = [expected_ids(tool, query) for tool, query in script]
    assert [list(call.ids) for call in ranking.calls] == retrieved
    assert list(dict.fromkeys(ranking.ids)) == list(dict.fromkeys(chain(*retrieved)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "at_once"), [(function_agent, 200), (react_agent, 48), (agent_workflow, 32)]
)
def test_agents_calls_are_those_of_its_script(make: Any, at_once: int) -> None:
    questions = dataset(at_once)
    results = evaluate(make(scripts(at_once)), questions, ["recall"], workers=at_once)
    assert results.run.failed == {}
    for number in range(at_once):
        check_calls(results, number)
    by_query = {query_id: len(calls) for query_id, calls in results.run.calls.items()}
    assert [by_query[f"q{number}"] for number in range(at_once)] == [
        number % 6 for number in range(at_once)
    ]
    # without calls are the questions 0, 6, 12, …
    assert results.scores.counts.empty == len(range(0, at_once, 6))


def test_function_that_returns_what_an_agent_says_is_a_session() -> None:
    async def ask(question: str) -> Any:
        return await function_agent(scripts(12)).run(question)  # an AgentOutput, which iterates

    results = evaluate(ask, dataset(12), ["recall"], workers=4)
    assert results.run.failed == {}
    for number in range(12):
        check_calls(results, number)


class Both(WithoutPrompts, BaseQuestionGenerator):
    """Two sub-questions of every question."""

    def generate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
        words = query.query_str.split()
        return [SubQuestion(sub_question=word, tool_name="engine") for word in words]

    async def agenerate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
        return self.generate(tools, query)


def test_sub_questions_are_calls_after_reranking() -> None:
    tool = QueryEngineTool.from_defaults(engine(SPARSE, REVERSED), name="engine", description="")
    asking = SubQuestionQueryEngine.from_defaults(
        [tool], llm=LLM, question_gen=Both(), verbose=False, use_async=True
    )
    results = evaluate(asking, {"queries": {"q": "mars venus"}, "relevant_docs": {"q": ["mars"]}})
    calls = results.run["q"].calls or ()
    assert {call.query: list(call.ids) for call in calls} == {
        word: expected_ids("engine", word) for word in ("mars", "venus")
    }


def test_function_of_the_question() -> None:
    async def ask(question: str) -> str:
        await asyncio.gather(SPARSE.aretrieve("mars"), asyncio.to_thread(DENSE.retrieve, question))
        record_retrieval("select *", ["row 1"], asked_by="sql")
        return "an answer"

    results = evaluate(ask, dataset(3), ["recall"])
    assert {len(calls) for calls in results.run.calls.values()} == {3}
    assert {ranking.concurrency for ranking in results.run.values()} == {3}
    assert (results.run["q1"].calls or ())[-1].asked_by == "sql"


def test_function_that_returns_ids_is_a_retriever() -> None:
    async def ask(question: str) -> list[str]:
        return [hit.node_id for hit in await SPARSE.aretrieve(question)]

    assert evaluate(ask, dataset(3), ["recall"]).run.calls == {}


class Searcher:
    async def __call__(self, question: str, depth: int = 1) -> None:
        for _ in range(depth):
            await SPARSE.aretrieve(question)


async def search_often(question: str, depth: int) -> str:
    await Searcher()(question, depth)
    return "an answer"


@pytest.mark.parametrize(("ask", "n_calls"), [(partial(search_often, depth=2), 2), (Searcher(), 1)])
def test_asynchronous_function_in_whatever_wraps_it(ask: Any, n_calls: int) -> None:
    results = evaluate(ask, dataset(3), ["recall"])
    assert {len(calls) for calls in results.run.calls.values()} == {n_calls}


def test_program_that_need_not_retrieve_is_empty_whatever_it_returns() -> None:
    questions = dataset(3)
    _, *later = questions.queries.values()

    async def ask(question: str) -> dict[str, str]:
        if question not in later:
            await SPARSE.aretrieve(question)
        return {"answer": "as the documents say"}

    counts = evaluate(ask, questions, ["recall"], workers=1).scores.counts
    assert (counts.empty, counts.failed) == (2, 0)


def test_calls_are_journaled(tmp_path: Path) -> None:
    journal, asked = tmp_path / "run.jsonl", []

    async def ask(question: str) -> Any:
        asked.append(question)
        await SPARSE.aretrieve(question)
        return await engine(DENSE).aquery("mars")

    first = evaluate(ask, dataset(4), ["recall"], journal=journal, run="mine")
    again = evaluate(ask, dataset(4), ["mrr"], journal=journal, run="mine")
    assert len(asked) == 4
    assert again.run == first.run
    assert again.run.calls == first.run.calls


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(InvalidInput, match="Give them to the tools"):
        evaluate(function_agent(scripts(1)), dataset(1), node_postprocessors=[REVERSED])


def test_calls_are_matched_by_text() -> None:
    questions = RetrievalDataset(
        {"q": "question 3"}, expected_texts={"q": [f"{WORDS[3]} is far away"]}
    )
    results = evaluate(function_agent(scripts(4)), questions, ["recall"], matcher="text")
    assert results.scores.means == {"recall": 1.0}
