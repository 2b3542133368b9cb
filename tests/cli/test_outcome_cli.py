"""`--json` of every command: one shape, errors included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from support.command_line import run

from llama_index_rag_metrics import RetrievalDataset, Scores
from llama_index_rag_metrics.cli import app

FIELDS = ["format", "command", "exit_code", "error", "decision", "result"]
IDS = [f"q{number}" for number in range(4)]

DOES = {  # what each command does with the files of `folder`, and how it ends
    "demo": (["--no-progress"], 0),
    "evaluate": (["-d", "d.json", "-r", "bm25", "-m", "mrr", "--no-progress"], 0),
    "gate": (["scores.json", "--rule", "mrr >= 0.9"], 1),
    "init": (["index", "made"], 0),
    "labels agree": (["judged.jsonl", "judged.jsonl"], 0),
    "labels check": (["d.json"], 0),
    "labels move": (["d.json", "corpus.jsonl", "-o", "moved.json"], 0),
    "labels pool": (["a.jsonl", "b.jsonl", "-d", "d.json", "-o", "pool.jsonl"], 0),
    "labels review": (["items.jsonl", "-o", "reviewed.jsonl"], 0),
    "metrics": (["ndcg"], 0),
    "score": (["a.jsonl", "b.jsonl", "--qrels", "qrels.txt", "-m", "mrr"], 0),
    "show": (["q1", "a.jsonl", "--qrels", "qrels.txt"], 0),
}


def commands(group: Any = None, before: str = "") -> list[str]:
    group = group or typer.main.get_command(app)
    names = []
    for name, command in group.commands.items():
        called = f"{before}{name}"
        names += commands(command, f"{called} ") if hasattr(command, "commands") else [called]
    return names


def lines(path: str, *records: object) -> None:
    Path(path).write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    texts = {f"d{number}": f"Passage {number} is about kiln {number}." for number in range(4)}
    wanted = {query_id: [f"d{query_id[1]}"] for query_id in IDS}
    asked = {query_id: f"What is kiln {query_id[1]}?" for query_id in IDS}
    RetrievalDataset(asked, wanted, texts).save("d.json")
    lines("corpus.jsonl", *({"_id": name, "text": text} for name, text in texts.items()))
    for name, order in (("a", [*texts]), ("b", [*texts][::-1])):
        ranking = {"retrieved_ids": order, "scores": [0.9, 0.7, 0.5, 0.3]}
        ranking["retrieved_texts"] = [texts[each] for each in order]
        rows = ({"query_id": each, "query": asked[each], **ranking} for each in IDS)
        lines(f"{name}.jsonl", *rows)
    Path("qrels.txt").write_text("".join(f"{each} 0 d{each[1]} 1\n" for each in IDS))
    some = ({"query_id": each, "expected_ids": wanted[each] if each > "q1" else []} for each in IDS)
    lines("some.jsonl", *some)
    for name, values in (("scores", [1.0, 0.5, 0.0, 0.5]), ("other", [1.0, 1.0, 0.5, 0.5])):
        Scores(IDS, {"mrr": values}, name=name).to_json(f"{name}.json")
    lines("items.jsonl", {"query_id": "q0", "query": "?", "doc_id": "d0", "text": "Passage"})
    lines("judged.jsonl", {"query_id": "q0", "doc_id": "d0", "grade": 1})
    return tmp_path


def written(called: str, arguments: list[str], code: int) -> dict[str, Any]:
    ended = run(*called.split(), *arguments, "--json", "outcome.json")
    assert ended.exit_code == code, ended.output
    outcome: dict[str, Any] = json.loads(Path("outcome.json").read_text("utf-8"))
    assert list(outcome) == FIELDS
    assert outcome["format"] == "rag-metrics result, version 1"
    assert (outcome["command"], outcome["exit_code"]) == (called, code)
    return outcome


def test_all_commands_are_known() -> None:
    assert sorted(DOES) == sorted(commands())


@pytest.mark.parametrize("called", DOES)
def test_what_it_found(called: str, folder: Path) -> None:
    arguments, code = DOES[called]
    outcome = written(called, arguments, code)
    assert outcome["error"] is None
    assert outcome["decision"] or outcome["result"]


@pytest.mark.parametrize("called", ["gate", "labels pool", "metrics", "score"])
def test_a_dash_prints_it_and_nothing_else(called: str, folder: Path) -> None:
    arguments, code = DOES[called]
    outcome = written(called, arguments, code)
    ended = run(*called.split(), *arguments, "--json", "-")
    assert (ended.exit_code, json.loads(ended.stdout)) == (code, outcome)
    assert ended.stderr  # what people read
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("called", "option"),
    [("gate", "--html"), ("score", "--html"), ("score", "--output"), ("labels pool", "--output")],
)
def test_a_dash_is_no_other_file(called: str, option: str, folder: Path) -> None:
    arguments, _ = DOES[called]
    error = written(called, [*arguments, option, "-"], 2)["error"]
    assert (
        error == f"{option}: expected the name of a file: only --json is printed with -, got '-'."
    )
    assert not Path("-").exists()


def test_a_dash_prints_an_error(folder: Path) -> None:
    ended = run("gate", "nosuch.json", "--rule", "mrr >= 0.9", "--json", "-")
    assert (ended.exit_code, json.loads(ended.stdout)["exit_code"]) == (2, 2)


@pytest.mark.parametrize("called", [each for each in DOES if each not in ("demo", "init")])
def test_an_error_is_in_it(called: str, folder: Path) -> None:
    """Of a file that isn't there, or of a metric."""
    names = {"d.json", "spans.jsonl", "judged.jsonl", "items.jsonl", "scores.json", "a.jsonl"}
    gone = ["nosuch" if each in {*names, "ndcg"} else each for each in DOES[called][0]]
    outcome = written(called, gone, 2)
    assert "nosuch" in outcome["error"]
    assert outcome["result"] is None


def test_what_the_command_reads_is_not_overwritten(folder: Path) -> None:
    before = Path("scores.json").read_text()
    ended = run("gate", "scores.json", "--rule", "mrr >= 0.9", "--json", "scores.json")
    assert (ended.exit_code, Path("scores.json").read_text()) == (2, before)


def test_scores_in_it_are_read_as_scores(folder: Path) -> None:
    before = written("evaluate", DOES["evaluate"][0], 0)
    Path("outcome.json").rename("measured.json")
    outcome = written("gate", ["measured.json", "--rule", "mrr >= 0.5"], 0)
    assert outcome["result"]["verdicts"][0]["value"] == before["result"]["bm25"]["means"]["mrr"]
