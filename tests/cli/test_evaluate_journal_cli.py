"""`rag-metrics evaluate --journal`: how it goes on, and what an interrupt keeps."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.evaluate_command import current_folder, evaluate, row
from support.paths import ROOT
from support.processes import start


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with current_folder(tmp_path, monkeypatch):
        yield tmp_path


def test_a_journal_is_gone_on_from(folder: Path) -> None:
    first = evaluate("-r", "my_factories:flaky", "-m", "mrr", "--journal", "kept")
    lines = (folder / "kept" / "flaky.jsonl").read_text(encoding="utf-8").splitlines()
    again = evaluate("-r", "my_factories:flaky", "-m", "recall", "--journal", "kept")
    other = evaluate("-r", "my_factories:flaky", "--top-k", "3", "--journal", "kept")

    assert first.exit_code == again.exit_code == 1
    assert len(lines) == 3  # what it is of, and two finished queries
    assert row(again, "recall") == ["0.33"]
    assert other.exit_code == 2
    assert "is of another run" in other.stderr


def test_another_depth_is_refused_and_the_first_one_named(folder: Path) -> None:
    evaluate("-r", "my_factories:of_nodes", "-m", "ndcg@10", "--journal", "kept")
    deeper = evaluate("-r", "my_factories:of_nodes", "-m", "recall@20", "--journal", "kept")
    results = evaluate(
        "-r", "my_factories:of_nodes", "-m", "recall@20", "--journal", "kept", "--top-k", "10"
    )

    expected = "run is 'my_factories:of_nodes, top 20', but the journal has"
    assert deeper.exit_code == 2
    assert f"{expected} 'my_factories:of_nodes, top 10'" in deeper.stderr
    assert results.exit_code == 0, results.output
    assert row(results, "recall@20") == ["1.00"]


@pytest.mark.parametrize("begin", ["", '{"format": "llama', "[1]\n", "\xff\n"])
def test_what_is_no_journal_is_refused(folder: Path, begin: str) -> None:
    (folder / "kept").mkdir()
    (folder / "kept" / "of_nodes.jsonl").write_bytes(begin.encode("latin-1"))
    result = evaluate("-r", "my_factories:of_nodes", "-m", "mrr", "--journal", "kept")

    assert result.exit_code == (2 if begin.endswith("\n") else 0), result.output


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
@pytest.mark.parametrize("journal", [True, False])
def test_ctrl_c_says_what_was_kept(folder: Path, journal: bool) -> None:
    arguments = [sys.executable, "-m", "llama_index_rag_metrics", "evaluate", "-d", "beir"]
    arguments += ["-r", "my_factories:slow", "-m", "mrr", "--workers", "1", "--no-progress"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = start(
        [*arguments, *(["--journal", "kept"] if journal else [])],
        {**environment, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert process.stdout.readline().split()[0] == "beir"
    assert "asked for potatoes\n" in process.stdout
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("rag-metrics: interrupted")
    assert ("kept in kept" in err) is journal
    assert ("nothing was written" in err) is not journal
    if journal:
        assert len((folder / "kept" / "slow.jsonl").read_text().splitlines()) == 2
