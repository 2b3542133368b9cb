"""Which time of asking a question counts, in which order, and which reranking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.telemetry import openinference, request, retrieval, span, write_lines

from llama_index_rag_metrics import read_traces

pytestmark = pytest.mark.servers

QUESTIONS = {"q1": "Who wrote Hamlet?", "q2": "And when?"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.jsonl"


def program(trace: str, begin: float, kind: str = "CHAIN", **further: Any) -> dict[str, Any]:
    known: dict[str, Any] = {"openinference.span.kind": kind, "input.value": QUESTIONS["q1"]}
    return span("root", trace=trace, begin=begin, **known, **further)


@pytest.mark.parametrize("kind", ["CHAIN", "AGENT"])
def test_the_last_time_counts_also_where_nothing_was_retrieved(path: Path, kind: str) -> None:
    found = retrieval("r", QUESTIONS["q1"], ["d1"], "root", trace="t1", begin=2)
    write_lines(path, request(program("t2", 9, kind), found, program("t1", 1, kind)))
    assert read_traces(path, questions=QUESTIONS)["q1"].ids == []


def test_the_time_is_when_it_was_asked_and_not_that_of_a_call(path: Path) -> None:
    calls = [
        retrieval("r2", "another search", ["d2"], "root", trace="t1", begin=8),
        retrieval("r1", QUESTIONS["q1"], ["d1"], "root", trace="t1", begin=7),
        retrieval("r1", QUESTIONS["q1"], ["d3"], "root", trace="t2", begin=6),
    ]
    write_lines(path, request(*calls, program("t1", 1), program("t2", 5)))
    assert read_traces(path, questions=QUESTIONS)["q1"].ids == ["d3"]


def test_a_reranking_inside_another_is_a_part_of_it(path: Path) -> None:
    spans = [
        retrieval("r", QUESTIONS["q1"], ["a", "b", "c"], begin=1),
        retrieval("outer", QUESTIONS["q1"], ["b"], kind="RERANKER", begin=2, seconds=3),
        retrieval("inner", QUESTIONS["q1"], ["b", "a"], "outer", kind="RERANKER", begin=3),
    ]
    write_lines(path, request(*spans))
    ranking = read_traces(path)["t1"]
    assert ranking.ids == ["b"]
    assert ranking.latency == pytest.approx(0.5 + 3)


def test_a_synthesizer_alone_asks_no_question(path: Path) -> None:
    pytest.importorskip("openinference.instrumentation.llama_index", reason="its spans")
    from llama_index.core import MockEmbedding, VectorStoreIndex, get_response_synthesizer
    from llama_index.core.llms import MockLLM
    from llama_index.core.schema import TextNode

    index = VectorStoreIndex(
        [TextNode(id_="d1", text="Shakespeare did.")], embed_model=MockEmbedding(embed_dim=2)
    )
    with openinference(path):  # each of the steps is a trace of its own
        nodes = index.as_retriever().retrieve(QUESTIONS["q1"])
        get_response_synthesizer(llm=MockLLM()).synthesize(QUESTIONS["q1"], nodes)
    run = read_traces(path, questions=QUESTIONS)
    assert (run["q1"].ids, run.notes) == (["d1"], ())
