"""The command line as a whole: its commands, missing extras, and the list of metrics."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from support.command_line import run
from support.evaluate_command import current_folder

from llama_index_rag_metrics import METRICS, RetrievalDataset, __version__, write_qrels, write_run
from llama_index_rag_metrics.cli.evaluate import run_evaluate
from llama_index_rag_metrics.evaluation.plan import Plan

SCRIPT = """
import sys
import llama_index_rag_metrics_cli as script
sys.argv[0] = "rag-metrics"
try:
    script.main()
finally:
    print("loaded:", *sys.modules, file=sys.stderr)
"""
HEAVY = {"llama_index", "numpy", "pandas", "polars", "pyarrow", "scipy"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with current_folder(tmp_path, monkeypatch):
        yield tmp_path


def test_version() -> None:
    result = run("--version")

    assert (result.exit_code, result.stdout) == (0, f"rag-metrics {__version__}\n")


def script(*arguments: str) -> tuple[str, set[str]]:
    """What the installed script prints, and the modules that it loads."""
    command = [sys.executable, "-c", SCRIPT, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return ended.stdout, set(ended.stderr.partition("loaded: ")[2].split())


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["evaluate", "--help"], ["labels", "check", "--help"]]
)
def test_help_is_shown_without_what_takes_long_to_import(arguments: list[str]) -> None:
    printed, loaded = script(*arguments)

    is_version = arguments == ["--version"]
    assert (printed == f"rag-metrics {__version__}\n") == is_version
    assert ("Show this message and exit." in printed) != is_version
    assert HEAVY & loaded == set()
    assert any(name.startswith("llama_index_rag_metrics_cli") for name in loaded)


def test_ctrl_c_while_it_starts_is_one_line() -> None:
    code = """
import sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
import llama_index_rag_metrics_cli as script
script.main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 130
    assert ended.stderr == "rag-metrics: interrupted: nothing was written\n"


@pytest.mark.slow
def test_a_reader_that_stops_reading_loses_nothing(folder: Path) -> None:
    write_run({"q1": ["d1"], "q2": ["d2"]}, "a.run")
    write_qrels({"q1": ["d1"], "q2": ["d1"]}, "q.txt")
    command = [sys.executable, "-c", SCRIPT, "score", "a.run", "--qrels", "q.txt"]
    process = subprocess.Popen(
        [*command, "--json", "scores.json", "--html", "report.html"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate()
    assert process.returncode == 0
    assert b"Error" not in errors.partition(b"loaded:")[0]
    assert json.loads(Path("scores.json").read_text("utf-8"))["a"]["means"]
    assert Path("report.html").read_text("utf-8").rstrip().endswith("</html>")


@pytest.mark.slow
def test_warnings_are_plain_lines(folder: Path) -> None:
    """Of the package, by its message alone; of libraries, with the kind that Python gives them."""
    RetrievalDataset(
        {"q1": "Who?", "q2": "Why?"}, {"q1": ["d1"], "q2": ["d1"]}, {"d1": "She."}
    ).save("d.json")
    Path("mine.py").write_text("""
import warnings
def failing():
    warnings.warn("an option\\nis gone", FutureWarning)
    def ask(query):
        raise ConnectionError("refused")
    return ask
""")
    arguments = ("evaluate", "-d", "d.json", "-r", "mine:failing", "-m", "mrr", "--no-progress")
    command = [sys.executable, "-c", SCRIPT, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[:-1] == [
        "rag-metrics: FutureWarning: an option is gone",
        "rag-metrics: retrieval failed on every question, 2 times with: ConnectionError: refused",
    ]


def test_options_have_the_defaults_of_evaluate() -> None:
    parameters = inspect.signature(run_evaluate).parameters
    of_evaluate = {field.name: field.default for field in fields(Plan) if field.name != "dataset"}
    in_both = parameters.keys() & of_evaluate.keys()

    assert len(in_both) == 7
    for name in in_both:
        assert parameters[name].default == of_evaluate[name]


def test_without_a_command_it_says_which_there_are() -> None:
    result = run()

    for command in ("demo", "evaluate", "score", "metrics"):
        assert f" {command} " in result.output


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (["demo"], "llama_index.retrievers.bm25"),
        (["demo"], "sklearn"),
        (["evaluate", "-d", "beir", "-r", "lsa"], "sklearn"),
    ],
)
def test_a_missing_extra_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], module: str
) -> None:
    for loaded in list(sys.modules):
        if loaded == module or loaded.startswith(f"{module}."):
            monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    result = run(*arguments)

    assert result.exit_code == 2
    assert re.search(r"python -m pip install .*\[demo\]'$", result.stderr)
    assert len(result.stderr.splitlines()) == 1


def test_metrics_lists_the_whole_table() -> None:
    result = run("metrics")
    words = result.stdout.split()

    assert result.exit_code == 0
    assert set(METRICS) <= set(words)
    assert "corpus_size=…" in words
    assert "rr," in words


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("ndcg", ["ndcg     0 to 1", "mode=linear", "also called ndcg_cut"]),
        ("map", ["ap       0 to 1"]),
        ("P_5", ["precision   0 to 1"]),
        ("f1", ["= f(beta=1)"]),
        ("accuracy", ["accuracy", "corpus_size=…"]),
        ("dcg", ["0 to ∞"]),
    ],
)
def test_metrics_tells_all_about_one(name: str, parts: list[str]) -> None:
    result = run("metrics", name)

    assert result.exit_code == 0, result.output
    for part in parts:
        assert part in result.stdout


def test_a_shell_can_complete_the_command() -> None:
    assert "--install-completion" in run("--help").output
