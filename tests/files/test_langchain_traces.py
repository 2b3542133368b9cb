"""Traces of LangChain, as its instrumentor records them: documents with texts, without ids."""

from pathlib import Path

import pytest
from support.runs import ids_of
from support.telemetry import file_exporter

from llama_index_rag_metrics import RetrievalDataset, match_run, read_traces, score_rankings

pytest.importorskip("langchain_core", reason="whose retriever is recorded")
pytest.importorskip("openinference.instrumentation.langchain", reason="what records it")

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda

pytestmark = pytest.mark.servers

TEXTS = {
    "rome": "Rome was founded on seven hills above the river Tiber.",
    "tiber": "The Tiber carries the rain of Umbria past Rome to the sea.",
    "venus": "Venus is the second planet and the hottest: its clouds keep the heat.",
    "mars": "Mars, the red planet, has two small moons and a thin air.",
}
QUERIES = {"q1": "Which river flows through Rome?", "q2": "Which planet is the hottest?"}
RETRIEVED = {QUERIES["q1"]: ["rome", "tiber"], QUERIES["q2"]: ["mars", "rome", "venus"]}
RELEVANT = {"q1": ["tiber"], "q2": ["venus"]}
MRR = (1 / 2 + 1 / 3) / 2  # tiber is second, venus is third


class ByHand(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [
            Document(page_content=TEXTS[item], metadata={"key": item}) for item in RETRIEVED[query]
        ]


def dataset() -> RetrievalDataset:
    return RetrievalDataset(QUERIES, RELEVANT, TEXTS)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    path = tmp_path_factory.mktemp("langchain") / "traces.jsonl"
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(file_exporter(path)))
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    chain: Runnable[str, list[Document]] = RunnableLambda(lambda query: ByHand().invoke(query))
    try:
        for query in QUERIES.values():
            chain.invoke(query)
    finally:
        instrumentor.uninstrument()
        provider.shutdown()
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    dataset().save("dataset.json")
    return tmp_path


def test_documents_without_ids_go_by_digests_and_a_note_says_what_to_do(traces: Path) -> None:
    run = read_traces(traces, questions=dataset())
    assert [run[query_id].texts for query_id in QUERIES] == [
        [TEXTS[item] for item in RETRIEVED[query]] for query in QUERIES.values()
    ]
    assert run.notes == (
        "documents without an id, known by a digest of their text (match_on= takes an id from "
        "their metadata, a matcher finds texts): 5",
    )


def test_key_of_the_metadata_is_an_id(traces: Path) -> None:
    run = read_traces(traces, questions=dataset(), match_on="key")
    assert ids_of(run) == {"q1": ["rome", "tiber"], "q2": ["mars", "rome", "venus"]}
    assert run.notes == ()


def test_matched_by_text(traces: Path) -> None:
    run = read_traces(traces, questions=dataset())
    matched = match_run(run, dataset(), "text")
    scores = score_rankings(matched.relevance, matched.run, ["mrr"])
    assert scores.means["mrr"] == pytest.approx(MRR, abs=1e-15)
    assert scores.queries == QUERIES
    assert "passages are recognised by text, not by ids" in scores.notes
    assert set(run.notes) <= set(scores.notes)  # what the traces lack isn't forgotten
