"""Lines that ConsoleSpanExporter prints, and conversations in traces."""

from pathlib import Path
from typing import Any

import pytest
from support.telemetry import request, retrieval, span, write_lines

from llama_index_rag_metrics import RetrievalDataset, read_traces, score_rankings


def test_lines_that_console_span_exporter_prints_are_read(tmp_path: Path) -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace", reason="the exporter that is tested")
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    path = tmp_path / "spans.json"
    with path.open("w", encoding="utf-8") as file:
        provider = trace.TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=file)))
        tracer = provider.get_tracer("test")
        with tracer.start_as_current_span("program") as program:
            program.set_attribute("question_id", "q1")
            for number, item in enumerate(["a", "b"]):
                with tracer.start_as_current_span("retrieve") as retrieve:
                    retrieve.set_attribute("openinference.span.kind", "RETRIEVER")
                    retrieve.set_attribute("input.value", f"search {number}")
                    retrieve.set_attribute("retrieval.documents.0.document.id", item)
    (ranking,) = read_traces(path, question_id="question_id").values()
    assert ranking.ids == ["a", "b"]
    assert [call.query for call in ranking.calls or ()] == ["search 0", "search 1"]


TEXTS = {"q1": "Which moon has geysers?", "q2": "Who found it?", "q3": "And Mars?"}


def asked(query_id: str, trace: str, session: str, begin: float, **further: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"trace": trace, "begin": begin, "session__id": session}
    return retrieval(f"s{trace}", TEXTS[query_id], ["d"], **about, **further)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.jsonl"


def test_session_is_the_conversation_of_its_questions(path: Path) -> None:
    about: Any = {"openinference__span__kind": "AGENT", "input__value": TEXTS["q2"]}
    silent = span("agent", trace="t0", begin=1, gen_ai__conversation__id="c1", **about)
    times = [asked("q1", "t1", "c1", 2), asked("q1", "t3", "c2", 3)]  # the last time counts
    write_lines(path, request(asked("q3", "t2", "c1", 5), times[0], silent, times[1]))
    assert read_traces(path, questions=TEXTS).metadata == {
        "q3": {"conversation": "c1"},
        "q1": {"conversation": "c2"},
        "q2": {"conversation": "c1"},
    }


def test_session_that_names_the_question_is_no_conversation(path: Path) -> None:
    write_lines(path, request(asked("q1", "t1", "s1", 1)))
    assert read_traces(path, question_id="session.id").metadata == {}


def test_dataset_says_more_of_conversations_than_traces(path: Path) -> None:
    rows: dict[str, dict[str, Any]] = {
        "q1": {"conversation": "mine", "topic": 7},
        "q2": {"language": "en"},
    }
    dataset = RetrievalDataset(TEXTS, metadata=rows)
    write_lines(path, request(*[asked(key, key, "c", n) for n, key in enumerate(TEXTS)]))
    assert read_traces(path, questions=dataset).metadata == {
        "q1": {"conversation": "mine", "topic": 7},
        "q2": {"conversation": "c", "language": "en"},
        "q3": {"conversation": "c"},
    }


def test_recognised_run_keeps_them(path: Path) -> None:
    write_lines(path, request(asked("q1", "t1", "c", 1), asked("q2", "t2", "c", 2)))
    run = read_traces(path, questions=TEXTS)
    assert run.select(["q1"]).metadata == run.metadata
    scores = score_rankings({"q1": {"d": 1}, "q2": {"e": 1}}, run, ["mrr"])
    assert scores.metadata["q2"] == {"conversation": "c"}
