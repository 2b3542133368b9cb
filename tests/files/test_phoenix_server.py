"""A real Phoenix: spans sent to its server are read back."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from typing import Any
from urllib.error import URLError

import pytest
from support.telemetry import sent_by_openinference

from llama_index_rag_metrics import RetrievalDataset, evaluate, read_traces, score_rankings

pytest.importorskip("phoenix.server", reason="needs arize-phoenix: pip install arize-phoenix")
pytest.importorskip("openinference.instrumentation.llama_index", reason="records the spans")
client = pytest.importorskip("phoenix.client", reason="needs arize-phoenix-client")
otlp = pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
bm25 = pytest.importorskip("llama_index.retrievers.bm25", reason="a real retriever")

from llama_index.core.schema import TextNode  # noqa: E402

pytestmark = pytest.mark.phoenix

METRICS = ["ndcg@10", "mrr", "recall@2"]
TEXTS = {
    "rome": "Rome was founded on seven hills above the river Tiber.",
    "tiber": "The Tiber carries the rain of Umbria past Rome to the sea.",
    "venus": "Venus is the second planet and the hottest: its clouds keep the heat.",
    "雨": '梅雨 brings weeks of rain, <b>"warm"</b> & grey.',
}
QUERIES = {
    "q1": "Which river flows through Rome?",
    "q2": "Which planet is the hottest?",
    "q3": "rain",
}
RELEVANT = {"q1": ["tiber", "rome"], "q2": {"venus": 2}, "q3": ["雨"]}
PATIENCE = 120.0
"""Seconds that a server on a busy machine gets to start, and to store what it received."""


def free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that keeps everything in a folder of its own."""
    folder, port = tmp_path_factory.mktemp("phoenix"), free_port()
    environment = {
        **os.environ,
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
    }
    url, log = f"http://127.0.0.1:{port}", folder / "log"
    command = [sys.executable, "-m", "phoenix.server.main", "serve"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        end = time.monotonic() + PATIENCE
        while not answers(f"{url}/healthz"):
            is_starting = process.poll() is None and time.monotonic() < end
            assert is_starting, log.read_text()[-2000:]
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def recorded(url: str) -> AbstractContextManager[None]:
    """What runs inside is recorded, and sent to the server."""
    return sent_by_openinference(otlp.OTLPSpanExporter(f"{url}/v1/traces"))


def stored(read: Any, n_rows: int) -> Any:
    """What the server has, as soon as it has that many rows."""
    end = time.monotonic() + PATIENCE
    while (frame := read()) is None or len(frame) < n_rows:
        assert time.monotonic() < end, "the server didn't store what it received"
        time.sleep(0.2)
    return frame


def test_evaluation_is_read_back(server: str) -> None:
    dataset = RetrievalDataset(queries=QUERIES, relevance=RELEVANT)
    nodes = [TextNode(text=text, id_=item, metadata={"n": 1}) for item, text in TEXTS.items()]
    retriever = bm25.BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=3)
    with recorded(server):
        direct = evaluate(retriever, dataset, METRICS, workers=3)
    assert direct.run.failed == {}
    spans = client.Client(base_url=server).spans
    n_spans = 2 * len(QUERIES)  # retrieve and _retrieve
    frame = stored(spans.get_spans_dataframe, n_spans)
    records = spans.get_spans(project_identifier="default")
    # frames come with ten decimals, records with all of them
    for source, precision in ((frame, 5e-11), (records, 0.0)):
        run = read_traces(source, questions=dataset)
        assert (run.keys(), run.queries, run.notes) == (direct.run.keys(), QUERIES, ())
        for query_id, expected in direct.run.items():
            ranking = run[query_id]
            assert list(ranking.ids) == list(expected.ids)
            assert ranking.texts == expected.texts
            assert ranking.scores == pytest.approx(expected.scores, rel=0, abs=precision)
        scores = score_rankings(RELEVANT, run, METRICS)
        for metric in METRICS:
            assert scores[metric].tobytes() == direct.scores[metric].tobytes()
