"""What was said before a question: told to agents, chat engines, workflows and functions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode
from llama_index.core.llms import ChatMessage, ChatResponse, MessageRole, MockLLM
from llama_index.core.schema import TextNode
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from support.scripted import ScriptedFunctions, Turn

from llama_index_rag_metrics import RetrievalDataset, evaluate

agents = pytest.importorskip("llama_index.core.agent.workflow")

pytestmark = pytest.mark.filterwarnings("ignore:.*fields.* attribute:DeprecationWarning")

N = 40
TENANTS = ["acme", "blue", "coral", "dune"]
INDEX = VectorStoreIndex(
    [
        TextNode(id_=f"{tenant} {n}", text=f"pay {n}", metadata={"tenant": tenant})
        for n in range(3)
        for tenant in TENANTS
    ],
    embed_model=MockEmbedding(embed_dim=3),
)


def said(number: int) -> list[dict[str, str]]:
    """Before question n came n modulo 3 turns."""
    return [
        {"role": role, "content": f"{content} {turn} before {number}"}
        for turn in range(number % 3)
        for role, content in (("user", "question"), ("assistant", "answer"))
    ]


def dataset() -> RetrievalDataset:
    return RetrievalDataset(
        {f"q{number}": f"pay {number}?" for number in range(N)},
        {f"q{number}": [f"{TENANTS[number % 4]} 0"] for number in range(N)},
        metadata={
            f"q{number}": {"history": said(number), "tenant": TENANTS[number % 4]}
            for number in range(N)
        },
    )


class Listening(ScriptedFunctions):
    """Calls every tool once, for what the user asked last, and keeps what it was told."""

    told: dict[str, list[tuple[str, str]]] = {}
    tools: list[str] = []

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        asked = [str(each.content) for each in messages if each.role == MessageRole.USER]
        is_called = any(message.role == MessageRole.TOOL for message in messages)
        if not is_called:
            self.told[asked[-1]] = [
                (message.role.value, str(message.content)) for message in messages[:-1]
            ]
        calls: Turn = [] if is_called else [(tool, asked[-1]) for tool in self.tools]
        message = ChatMessage(
            role=MessageRole.ASSISTANT,
            content="done",
            additional_kwargs={"calls": [list(call) for call in calls]},
        )
        return ChatResponse(message=message)


def tools() -> list[Any]:
    engine = INDEX.as_query_engine(llm=MockLLM(), similarity_top_k=3)
    return [
        QueryEngineTool.from_defaults(engine, name="engine", description="answers"),
        RetrieverTool.from_defaults(
            INDEX.as_retriever(similarity_top_k=3), name="retriever", description="passages"
        ),
    ]


def listening(*, several: bool = False) -> tuple[Any, Listening]:
    llm = Listening(script={}, told={}, tools=["engine", "retriever"])
    agent = agents.FunctionAgent(tools=tools(), llm=llm)
    return (agents.AgentWorkflow(agents=[agent]) if several else agent), llm


@pytest.mark.parametrize("several", [False, True])
def test_agent_gets_the_history(several: bool) -> None:
    agent, llm = listening(several=several)
    results = evaluate(agent, dataset(), ["recall@3"], workers=20)
    assert results.scores.failed == {}
    assert llm.told == {
        f"pay {number}?": [(each["role"], each["content"]) for each in said(number)]
        for number in range(N)
    }
    assert {len(calls) for calls in results.run.calls.values()} == {2}


@pytest.mark.parametrize("mode", ["context", "condense_plus_context", "condense_question"])
def test_chat_engine_gets_the_history(mode: Any) -> None:
    engine: BaseChatEngine = INDEX.as_chat_engine(mode, llm=MockLLM(), similarity_top_k=3)
    results = evaluate(engine, dataset(), ["recall@3"], workers=8)
    assert engine.chat_history == []
    for number in range(N):
        (call,) = results.run[f"q{number}"].calls or ()
        assert f"pay {number}?" in call.query
        told = [message["content"] for message in said(number)]
        # MockLLM repeats the prompt that asks it to condense the conversation
        condensed = [] if mode == "context" else told
        assert all(text in call.query for text in condensed)
        assert call.query.count(" before ") == len(condensed)


class Answers(Workflow):
    """Takes whatever the plain start event brings."""

    @step
    async def look(self, ev: StartEvent) -> StopEvent:
        earlier = [message.content for message in ev.chat_history]
        await INDEX.as_retriever().aretrieve(f"{ev.query} {len(earlier)} {ev.metadata['tenant']}")
        return StopEvent(result="done")


class Declared(Workflow):
    """Declares what it needs, of which the question is one."""

    class Start(StartEvent):
        text: str
        chat_history: list[Any]

    @step
    async def look(self, ev: Start) -> StopEvent:
        await INDEX.as_retriever().aretrieve(f"{ev.text} {len(ev.chat_history)}")
        return StopEvent(result="done")


@pytest.mark.parametrize("workflow", [Answers(), Declared()])
def test_workflow_gets_the_history(workflow: Workflow) -> None:
    results = evaluate(workflow, dataset(), ["recall"])
    assert results.scores.failed == {}
    for number in range(N):
        (call,) = results.run[f"q{number}"].calls or ()
        assert call.query.startswith(f"pay {number}? {2 * (number % 3)}")
        assert call.query.endswith(TENANTS[number % 4]) == isinstance(workflow, Answers)


def test_function_has_the_history_among_the_metadata() -> None:
    seen = {}

    def search(question: str, metadata: Any) -> list[str]:
        seen[question] = list(metadata["history"])
        metadata["history"].clear()  # which must not change the dataset
        return ["acme 0"]

    questions = dataset()
    evaluate(search, questions, ["recall"])
    assert seen == {f"pay {number}?": said(number) for number in range(N)}
    assert questions.metadata == dataset().metadata


def test_note_says_that_a_retriever_gets_no_history(tmp_path: Path) -> None:
    (note,) = evaluate(INDEX, dataset(), ["recall@3"]).scores.notes
    assert note.startswith("questions have a history, which this retriever takes no account of")
    engine = INDEX.as_chat_engine(ChatMode.CONTEXT, llm=MockLLM(), similarity_top_k=3)
    assert evaluate(engine, dataset(), ["recall@3"]).scores.notes == ()
    for resumed in (0, 1):  # the second one asks nothing
        again = evaluate(INDEX, dataset(), ["recall@3"], journal=tmp_path / "index.jsonl")
        assert again.scores.notes[resumed:] == (note,)
        told = evaluate(engine, dataset(), ["recall@3"], journal=tmp_path / "engine.jsonl")
        assert told.scores.notes[resumed:] == ()


def test_journal_asks_again_for_another_history(tmp_path: Path) -> None:
    engine = INDEX.as_chat_engine(ChatMode.CONTEXT, llm=MockLLM(), similarity_top_k=3)
    path = tmp_path / "run.jsonl"
    evaluate(engine, dataset(), ["recall@3"], journal=path)
    other = dataset()
    other.metadata["q5"]["tenant"] = "nobody"  # which a chat engine isn't told
    evaluate(engine, other, ["recall@3"], journal=path)
    other.metadata["q5"]["history"] = said(4)
    results = evaluate(engine, other, ["recall@3"], journal=path)
    assert f"{len(dataset()) - 1} of" in results.scores.notes[0]
