"""`rag-metrics chunks`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import refusal, run

from llama_index_rag_metrics import Relevance, RetrievalDataset, chunk_ceiling

TEXT = "Enceladus has geysers. Triton circles Neptune backwards."
DATASET = RetrievalDataset(
    {"q1": "Geysers?", "q2": "Backwards?"},
    {"q1": Relevance.of_spans([("moons", 0, 22)]), "q2": Relevance.of_spans([("moons", 23, 56)])},
    {"moons": TEXT},
)
CHUNKS = {"a": TEXT[:40], "b": TEXT[40:]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    DATASET.save("spans.jsonl")
    lines = [json.dumps({"_id": key, "text": text}) for key, text in CHUNKS.items()]
    Path("chunks.jsonl").write_text("\n".join(lines))
    Path("mine.py").write_text(
        f"def words(): return {TEXT.split()!r}\ndef made(): return {CHUNKS!r}"
    )


@pytest.mark.parametrize("chunks", ["chunks.jsonl", "mine:made"])
def test_it_is_what_python_says(chunks: str) -> None:
    ceiling = chunk_ceiling(DATASET, CHUNKS, name=chunks)
    shown = run("chunks", "spans.jsonl", chunks, "--json", "ceiling.json", "--html", "page.html")
    assert shown.exit_code == 0
    assert "no retriever can have more than" in " ".join(shown.stdout.split())
    assert json.loads(Path("ceiling.json").read_text())["result"] == json.loads(ceiling.to_json())
    assert "Precision Ω" in Path("page.html").read_text("utf-8")
    printed = run("chunks", "spans.jsonl", chunks, "--format", "json").stdout
    assert json.loads(printed) == json.loads(ceiling.to_json())


def test_tokens_are_counted_by_the_tokenizer_that_is_named() -> None:
    Path("count.py").write_text("def words(text): return text.split()")
    options = ["--tokenizer", "count:words", "--format", "json"]
    rows = json.loads(run("chunks", "spans.jsonl", "chunks.jsonl", *options).stdout)
    assert [row["tokens"] for row in rows] == [6, 6 + 2]


def test_what_is_refused() -> None:
    RetrievalDataset({"q": "?"}, {"q": ["a"]}, {"a": TEXT}).save("ids.jsonl")
    assert "labels with places" in refusal(run("chunks", "ids.jsonl", "chunks.jsonl"))
    Path("other.jsonl").write_text('{"_id": "a", "text": "Io has volcanoes."}')
    message = refusal(run("chunks", "spans.jsonl", "other.jsonl"))
    assert message.startswith("CHUNKS: expected offsets or texts in the documents that labels are")
    assert "CHUNKS" in refusal(run("chunks", "spans.jsonl", "mine:words"))
