"""What real exporters write of a run is read back as the same run, to the last bit."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.telemetry import llamaindex_otel, mlflow_store, openinference

from llama_index_rag_metrics import RetrievalDataset, Run, evaluate, read_traces, score_rankings
from llama_index_rag_metrics.runtime.errors import FileFormatError
from llama_index_rag_metrics.scores.counts import clusters_of

pytestmark = pytest.mark.servers

pytest.importorskip("opentelemetry.sdk", reason="spans need an exporter")
bm25 = pytest.importorskip("llama_index.retrievers.bm25", reason="a real retriever")

from llama_index.core import MockEmbedding, VectorStoreIndex  # noqa: E402
from llama_index.core.agent.workflow import ReActAgent  # noqa: E402
from llama_index.core.instrumentation.dispatcher import active_instrument_tags, instrument_tags  # type: ignore[attr-defined]  # noqa: E402
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata, MockLLM  # noqa: E402
from llama_index.core.llms.callbacks import llm_completion_callback  # noqa: E402
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever  # noqa: E402
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode  # noqa: E402
from llama_index.core.tools import FunctionTool, RetrieverTool  # noqa: E402

METRICS = ["ndcg@10", "mrr", "recall@2", "ap"]
TEXTS = {
    "rome": "Rome was founded on seven hills above the river Tiber.",
    "tiber": "The Tiber carries the rain of Umbria past Rome to the sea.",
    "venus": "Venus is the second planet and the hottest: its clouds keep the heat.",
    "mars": "Mars, the red planet, has two small moons and a thin air.",
    "雨": '梅雨 brings weeks of rain, <b>"warm"</b> & grey.',
}
QUERIES = {
    "q1": "Which river flows through Rome?",
    "q2": "Which planet is the hottest?",
    "q3": "moons of the red planet",
    "q4": "rain",
    "q5": "nothing of this is there",
}
RELEVANT = {"q1": ["tiber", "rome"], "q2": ["venus"], "q3": {"mars": 2}, "q4": ["雨"], "q5": ["x"]}


def dataset() -> RetrievalDataset:
    return RetrievalDataset(queries=QUERIES, relevance=RELEVANT)


def nodes() -> list[TextNode]:
    return [TextNode(text=text, id_=node_id, metadata={"n": 1}) for node_id, text in TEXTS.items()]


def keyword_retriever() -> BaseRetriever:
    return bm25.BM25Retriever.from_defaults(nodes=nodes(), similarity_top_k=4)  # type: ignore[no-any-return]


def fusion_retriever() -> BaseRetriever:
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(embed_dim=4))
    members = [keyword_retriever(), index.as_retriever(similarity_top_k=2)]
    options: Any = {"num_queries": 1, "similarity_top_k": 3, "mode": "reciprocal_rerank"}
    return QueryFusionRetriever(members, llm=MockLLM(), **options)


class Failing(BaseRetriever):
    """Fails on one question and finds nothing for another."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if query_bundle.query_str == QUERIES["q2"]:
            raise ConnectionError("no route")
        if query_bundle.query_str == QUERIES["q3"]:
            return []
        return [NodeWithScore(node=node, score=1 / 3) for node in nodes()[:2]]


@contextmanager
def mlflow_autolog(path: Path) -> Iterator[None]:
    """What runs inside is recorded by MLflow, in a tracking store of its own."""
    import mlflow

    mlflow_store(path.parent)
    mlflow.llama_index.autolog()
    try:
        yield
    finally:
        mlflow.llama_index.autolog(disable=True)
        mlflow.flush_trace_async_logging()


def of_file(path: Path) -> Any:
    return path


def of_store(path: Path) -> Any:
    import mlflow

    return mlflow.search_traces(return_type="list")


def of_store_frame(path: Path) -> Any:
    import mlflow

    return mlflow.search_traces()


def of_exported_json(path: Path) -> Any:
    import mlflow

    lines = [trace.to_json() for trace in mlflow.search_traces(return_type="list")]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


Recorder = Callable[[Path], AbstractContextManager[None]]
Source = Callable[[Path], Any]
RECORDERS = {
    "openinference": (openinference, of_file, "openinference.instrumentation.llama_index"),
    "llamaindex": (llamaindex_otel, of_file, "llama_index.observability.otel"),
    "mlflow": (mlflow_autolog, of_store, "mlflow.llama_index"),
    "mlflow's frame": (mlflow_autolog, of_store_frame, "mlflow.llama_index"),
    "mlflow's JSON": (mlflow_autolog, of_exported_json, "mlflow.llama_index"),
}


def recorder_of(name: str) -> tuple[Recorder, Source]:
    recording, source, package = RECORDERS[name]
    pytest.importorskip(package, reason="the exporter that is tested")
    return recording, source


@pytest.mark.parametrize("name", RECORDERS)
@pytest.mark.parametrize("make", [keyword_retriever, fusion_retriever, Failing])
def test_retriever(name: str, make: Callable[[], BaseRetriever], tmp_path: Path) -> None:
    recording, source = recorder_of(name)
    path = tmp_path / "traces.jsonl"
    with recording(path):
        direct = evaluate(make(), dataset(), METRICS, workers=3)
    run = read_traces(source(path), questions=dataset())
    assert run.keys() == direct.run.keys()
    assert run.queries == QUERIES
    assert run.notes == ()
    for query_id, expected in direct.run.items():
        read_back = run[query_id]
        assert list(read_back.ids) == list(expected.ids)
        assert (read_back.scores or []) == (expected.scores or [])
        assert (read_back.texts or []) == (expected.texts or [])
        assert read_back.error == expected.error
        assert read_back.calls is None
        assert read_back.latency is not None
    scores = score_rankings(RELEVANT, run, METRICS)
    assert scores.query_ids == direct.scores.query_ids
    for metric in METRICS:
        assert scores[metric].tobytes() == direct.scores[metric].tobytes()
    assert scores.counts == direct.scores.counts


def test_spans_that_the_exporter_drops_are_an_error(tmp_path: Path) -> None:
    recorder_of("openinference")
    many = [TextNode(text=f"word {number}", id_=f"d{number}") for number in range(50)]
    retriever = bm25.BM25Retriever.from_defaults(nodes=many, similarity_top_k=50)
    path = tmp_path / "traces.jsonl"
    with openinference(path):
        retriever.retrieve("word")
    # 128 attributes a span, and the first ones go: those of the best documents
    with pytest.raises(FileFormatError, match="OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"):
        read_traces(path)


class Script(CustomLLM):
    """Says its lines one after the other."""

    lines: list[str]
    said: int = 0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="script")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **further: Any) -> CompletionResponse:
        self.said += 1
        return CompletionResponse(text=self.lines[self.said - 1])

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **further: Any) -> Any:
        text = self.complete(prompt).text
        return (CompletionResponse(text=whole, delta=whole) for whole in [text])


def steps(*searches: str) -> list[str]:
    calls = [
        f'Thought: I look it up.\nAction: search\nAction Input: {{"input": "{search}"}}'
        for search in searches
    ]
    return [*calls, "Thought: I can answer without using any more tools.\nAnswer: done"]


SEARCHES = {
    "q1": ["Rome river", "Tiber"],
    "q2": ["hottest planet", "planet heat", "rain"],
    "q3": [],
}


ATTRIBUTES = {"llamaindex": "question_id", "openinference": "metadata.question_id"}
"""Where an exporter keeps the id of a question; by MLflow's traces it is told by its text."""


@contextmanager
def question(name: str, query_id: str) -> Iterator[None]:
    if name == "llamaindex":
        with instrument_tags({**active_instrument_tags.get(), "question_id": query_id}):
            yield
    elif name == "openinference":
        from openinference.instrumentation import using_attributes

        with using_attributes(metadata={"question_id": query_id}):
            yield
    else:
        yield


async def ask(name: str, query_id: str) -> Any:
    tool = RetrieverTool.from_defaults(keyword_retriever(), name="search", description="finds")
    agent = ReActAgent(tools=[tool], llm=Script(lines=steps(*SEARCHES[query_id])))
    with question(name, query_id):
        return await agent.run(QUERIES[query_id])


def check_sessions(run: Run, expected: Run) -> None:
    """The same calls, and the same scores to the last bit."""
    assert run.keys() == expected.keys()
    for query_id, ranking in expected.items():
        read_back = run[query_id]
        assert read_back.calls is not None
        assert ranking.calls is not None
        for call, other in zip(read_back.calls, ranking.calls, strict=True):
            assert (call.query, call.ids) == (other.query, other.ids)
            assert (call.scores, call.texts) == (other.scores, other.texts)
        assert (list(read_back.ids), read_back.texts) == (list(ranking.ids), ranking.texts)
    relevant = {query_id: RELEVANT[query_id] for query_id in expected}
    scores, wanted = (score_rankings(relevant, each, METRICS) for each in (run, expected))
    for metric in METRICS:
        assert scores[metric].tobytes() == wanted[metric].tobytes()


@pytest.mark.parametrize("name", RECORDERS)
def test_evaluation_of_agents_is_read_back_as_it_was(name: str, tmp_path: Path) -> None:
    recording, source = recorder_of(name)
    path = tmp_path / "traces.jsonl"
    ids = {QUERIES[query_id]: query_id for query_id in SEARCHES}

    async def answer(query: str) -> Any:
        return await ask(name, ids[query])

    with recording(path):
        results = evaluate(answer, dataset().select(SEARCHES), METRICS, workers=3)
    run = read_traces(source(path), question_id=ATTRIBUTES.get(name), questions=dataset())
    check_sessions(run, results.run)


@pytest.mark.parametrize("name", RECORDERS)
def test_searches_that_an_agent_rewrites_are_of_its_question(name: str, tmp_path: Path) -> None:
    """The first is the question itself; where no span says what the agent was asked, it tells."""
    recording, source = recorder_of(name)
    path, searches = tmp_path / "traces.jsonl", [QUERIES["q1"], "Tiber"]

    def search(input: str) -> str:  # noqa: A002 - the agent's script calls it so
        return str(keyword_retriever().retrieve(input))

    tool = FunctionTool.from_defaults(search, name="search", description="finds")
    agent = ReActAgent(tools=[tool], llm=Script(lines=steps(*searches)))

    async def ask_agent() -> None:
        await agent.run(QUERIES["q1"])

    with recording(path):
        asyncio.run(ask_agent())
    run = read_traces(source(path), questions=dataset())
    assert [call.query for call in run["q1"].calls or ()] == searches
    assert run.notes == ()


@contextmanager
def session(name: str, session_id: str) -> Iterator[None]:
    """What each instrumentation has for the turns of a conversation."""
    if name == "llamaindex":
        with instrument_tags({**active_instrument_tags.get(), "session.id": session_id}):
            yield
    elif name == "openinference":
        from openinference.instrumentation import using_session

        with using_session(session_id):
            yield
    else:
        import mlflow

        with mlflow.start_span("chat"):
            mlflow.update_current_trace(metadata={"mlflow.trace.session": session_id})
            yield


@pytest.mark.parametrize("name", RECORDERS)
def test_sessions_are_conversations(name: str, tmp_path: Path) -> None:
    recording, source = recorder_of(name)
    path = tmp_path / "traces.jsonl"
    asked = [("q2", "c1"), ("q3", "c2"), ("q1", "c1"), ("q4", "")]
    with recording(path):
        for query_id, session_id in asked:
            with session(name, session_id) if session_id else nullcontext():
                keyword_retriever().retrieve(QUERIES[query_id])
    run = read_traces(source(path), questions=dataset())
    first, second = {"conversation": "c1"}, {"conversation": "c2"}
    assert run.metadata == {"q2": first, "q3": second, "q1": first}
    # a conversation is one cluster
    clusters = clusters_of(None, ["q1", "q2", "q3"], run.metadata)
    assert clusters is not None
    assert clusters.tolist() == [0, 0, 1]
