"""`rag-metrics score` by tokens: the tokenizer that is named, and the texts that it needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llama_index_rag_metrics.cli import app

TEXTS = {"a": "one two three", "b": "four five"}


def measured_run(folder: Path) -> Path:
    """Two chunks of five words in all; what is expected is the second half of the document."""
    row = {
        "query_id": "q1",
        "retrieved_ids": ["a", "b"],
        "retrieved_texts": list(TEXTS.values()),
        "retrieved_spans": [["book", 0, 13], ["book", 14, 23]],
        "expected_spans": [["book", 8, 23]],
    }
    path = folder / "run.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return path


def test_tokens_by_the_tokenizer_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_words.py").write_text("words = str.split\nnothing = 5\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run = measured_run(tmp_path)
    arguments = ["score", str(run), "-m", "span_recall@4tokens", "--json", "-"]
    result = CliRunner().invoke(app, [*arguments, "--tokenizer", "my_words:words"])
    assert result.exit_code == 0, result.output
    (scores,) = json.loads(result.output).values()
    # of 4 words "a" fits, with "three": 5 of 15 characters
    assert scores["means"] == {"span_recall@4tokens": pytest.approx(5 / 15)}
    for spec, message in {
        "my_words:nothing": "a function from a text to its tokens",
        "my_words:lacking": "my_words.py has no function `lacking` (it has",
        "no_encoding": "cl100k_base",
    }.items():
        result = CliRunner().invoke(app, [*arguments, "--tokenizer", spec])
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())
