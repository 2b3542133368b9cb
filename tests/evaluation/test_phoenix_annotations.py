"""Scores as annotations of spans, in the form that Phoenix's client takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from support.telemetry import request, retrieval, span, write_lines

from llama_index_rag_metrics import span_annotations

pd = pytest.importorskip("pandas", reason="a data frame")

JUDGED = {"q1": {"a": 1, "c": 1}, "q2": {"z": 1}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    root = span("root", openinference__span__kind="AGENT", question_id="q1")
    return write_lines(
        tmp_path / "traces.jsonl",
        request(retrieval("r1", "x", ["b", "a"], "root", begin=1)),
        request(retrieval("r2", "y", ["c"], "root", begin=2), root),
        request(retrieval("r3", "z", ["a"], trace="t2", question_id="q2")),
        request(retrieval("r4", "z", ["a"], trace="t3", question_id="unjudged")),
    )


def test_calls_at_their_spans_and_the_session_at_the_root(path: Path) -> None:
    frame = span_annotations(path, JUDGED, ["mrr", "recall@5"], question_id="question_id")
    scores = {(row.span_id, row["name"]): row.score for _, row in frame.iterrows()}
    assert scores == {
        ("r1", "mrr"): 0.5,
        ("r1", "recall@5"): 0.5,
        ("r2", "mrr"): 1.0,
        ("r2", "recall@5"): 0.5,
        ("r3", "mrr"): 0.0,
        ("r3", "recall@5"): 0.0,
        ("root", "mrr of the session"): 0.5,  # b, a, c
        ("root", "recall@5 of the session"): 1.0,
    }
    assert set(frame.annotator_kind) == {"CODE"}
    assert frame.metadata[0] == {"query_id": "q1"}


@contextmanager
def phoenix_server(received: list[dict[str, Any]]) -> Iterator[str]:
    """Takes annotations as Phoenix's server does, on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.extend(json.loads(body)["data"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"data": []}')

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_phoenix_takes_them(path: Path) -> None:
    client = pytest.importorskip("phoenix.client", reason="the client that uploads")
    frame = span_annotations(path, JUDGED, "mrr", question_id="question_id")
    received: list[dict[str, Any]] = []
    with phoenix_server(received) as url:
        client.Client(base_url=url).spans.log_span_annotations_dataframe(dataframe=frame)
    assert {
        (annotation["span_id"], annotation["name"], annotation["result"]["score"])
        for annotation in received
    } == {
        ("r1", "mrr", 0.5),
        ("r2", "mrr", 1.0),
        ("r3", "mrr", 0.0),
        ("root", "mrr of the session", 0.5),
    }
    assert {annotation["annotator_kind"] for annotation in received} == {"CODE"}


def test_nothing_to_annotate(tmp_path: Path) -> None:
    frame = span_annotations(write_lines(tmp_path / "none.jsonl"), JUDGED, "mrr")
    assert frame.empty
    assert list(frame.columns)[:2] == ["span_id", "name"]
