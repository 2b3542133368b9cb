"""`rag-metrics evaluate --repeats`, and what the gate makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import refusal, run
from support.evaluate_command import current_folder, evaluate

from llama_index_rag_metrics import Run, read_run, write_run

TIMES = """
    from collections import Counter
    from threading import Lock

    asked, lock = Counter(), Lock()

    def moody():
        def ask(query):
            with lock:
                asked[query] += 1
                time = asked[query]
            open("asked.txt", "a").write(query + "\\n")
            return ["d1", "d2", "d3"] if time % 2 else []
        return ask
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with current_folder(tmp_path, monkeypatch):
        module = tmp_path / "my_factories.py"
        own = "\n".join(line[4:] for line in TIMES.splitlines())
        module.write_text(module.read_text(encoding="utf-8") + own, encoding="utf-8")
        yield tmp_path


def test_questions_are_asked_several_times(folder: Path) -> None:
    metrics = "hit_rate@3"
    command = ("-r", "my_factories:moody", "-m", metrics, "--journal", "kept")
    shown = evaluate(*command, "--repeats", "4", "--json", "scores.json", "-o", "run.parquet")
    assert shown.exit_code == 0, shown.output
    (kept,) = json.loads(Path("scores.json").read_text(encoding="utf-8")).values()
    assert len(kept["repeats"]) == 4
    # found the first and the third time
    assert kept["means"] == {"hit_rate@3": pytest.approx(0.5)}
    assert "Asked 4 times, " in " ".join(shown.stdout.split())
    assert len(read_run("run.parquet").repeats) == 4
    asked = Path("asked.txt").read_text(encoding="utf-8")
    again = evaluate(*command, "--repeats", "4")
    assert again.exit_code == 0, again.output
    assert Path("asked.txt").read_text(encoding="utf-8") == asked

    by_rule = ("gate", "scores.json", "--rule")
    assert run(*by_rule, "hit_rate@3 >= 0.5").exit_code == 0
    assert run(*by_rule, "hit_rate@3 >= 0.6").exit_code == 1


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_numbered_runs_of_a_file_all_count(folder: Path, ending: str) -> None:
    """Of ranks 1 and 2 the mean."""
    times = Run(repeats=[Run({"q": ["a"]}), Run({"q": ["b", "a"]})])
    write_run(times, f"run.{ending}")
    Path("qrels.tsv").write_text("q\t0\ta\t1\n", encoding="utf-8")
    command = ("score", f"run.{ending}", "--qrels", "qrels.tsv", "-m", "mrr", "--json", "-")
    assert json.loads(run(*command).stdout)["run"]["means"] == {"mrr": 0.75}


def test_a_file_that_tells_no_times_apart_is_refused_first(folder: Path) -> None:
    refused = evaluate("-r", "my_factories:moody", "--repeats", "2", "-o", "out.trec")
    assert "--output: expected a file that ends in .jsonl" in refusal(refused)
    assert not Path("asked.txt").exists()
