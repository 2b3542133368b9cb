"""Conversations in traces: the sessions that spans name; and those of a dataset beside a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.telemetry import request, retrieval, span, write_lines

from llama_index_rag_metrics import RetrievalDataset, read_traces, score_rankings

TEXTS = {"q1": "Which moon has geysers?", "q2": "Who found it?", "q3": "And Mars?"}


def asked(query_id: str, trace: str, session: str, begin: float, **further: Any) -> dict[str, Any]:
    return retrieval(
        f"s{trace}",
        TEXTS[query_id],
        ["d"],
        trace=trace,
        begin=begin,
        session__id=session,
        **further,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.jsonl"


def test_a_session_is_the_conversation_of_its_questions(path: Path) -> None:
    silent = span(
        "agent",
        trace="t0",
        begin=1,
        openinference__span__kind="AGENT",
        input__value=TEXTS["q2"],
        gen_ai__conversation__id="c1",
    )
    again = asked("q1", "t3", "c2", 3)  # the last time counts
    write_lines(
        path, request(asked("q3", "t2", "c1", 5), asked("q1", "t1", "c1", 2), silent, again)
    )
    assert read_traces(path, questions=TEXTS).metadata == {
        "q3": {"conversation": "c1"},
        "q1": {"conversation": "c2"},
        "q2": {"conversation": "c1"},
    }


def test_a_session_that_names_the_question_is_no_conversation(path: Path) -> None:
    write_lines(path, request(asked("q1", "t1", "s1", 1)))
    assert read_traces(path, question_id="session.id").metadata == {}


def test_the_dataset_says_more_of_conversations_than_traces(path: Path) -> None:
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


def test_a_recognised_run_keeps_them(path: Path) -> None:
    write_lines(path, request(asked("q1", "t1", "c", 1), asked("q2", "t2", "c", 2)))
    run = read_traces(path, questions=TEXTS)
    assert run.select(["q1"]).metadata == run.metadata
    scores = score_rankings({"q1": {"d": 1}, "q2": {"e": 1}}, run, ["mrr"])
    assert scores.metadata["q2"] == {"conversation": "c"}
