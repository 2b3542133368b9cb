"""The command line as a whole: commands and their help, missing extras, the list of metrics."""

import inspect
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from support.command_line import run
from support.evaluate_command import current_folder
from support.paths import ROOT

from llama_index_rag_metrics import METRICS, RetrievalDataset, __version__, write_qrels, write_run
from llama_index_rag_metrics.cli import app
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
def test_reader_that_stops_reading_loses_nothing(folder: Path) -> None:
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


def test_bare_call_lists_the_commands() -> None:
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
def test_missing_extra_is_one_sentence(
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


def test_shell_can_complete_the_command() -> None:
    assert "--install-completion" in run("--help").output


MOST_OPTIONS = 70


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command, with the words that call it."""
    if not hasattr(command, "commands"):
        yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *path, name)


COMMANDS = dict(commands(typer.main.get_command(app)))


def options_of(path: tuple[str, ...]) -> list[Any]:
    return [each for each in COMMANDS[path].params if each.param_type_name == "option"]


def words(text: str) -> str:
    """A text without frames and line breaks."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_is_not_cut_off(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = run(*path, "--help").output
    assert max(map(len, output.splitlines())) <= 80
    assert "…" not in output
    shown = words(output)
    assert words(COMMANDS[path].help.partition("\n\n")[0]) in shown
    assert "Exit code 2: the command can't run as written." in shown
    for parameter in options_of(path):
        assert all(option in shown for option in parameter.opts)
        assert parameter.rich_help_panel in shown


def test_options_are_few_and_mean_the_same_everywhere() -> None:
    """But what they write, or how many of what, differs."""
    assert sum(len(options_of(path)) for path in COMMANDS) <= MOST_OPTIONS
    meanings: dict[str, set[tuple[str, ...]]] = {}
    for path in COMMANDS:
        for option in options_of(path):
            for flag in option.opts:
                meanings.setdefault(flag, set()).add(tuple(option.opts))
    assert all(len(spellings) == 1 for spellings in meanings.values())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_example_is_a_call_that_the_command_takes(path: tuple[str, ...]) -> None:
    example = COMMANDS[path].epilog.partition("\n\n")[0]
    _, _, *arguments = shlex.split(example)
    assert tuple(arguments[: len(path)]) == path
    COMMANDS[path].make_context("rag-metrics", arguments[len(path) :])


def test_page_names_every_command_and_no_option_that_there_isnt() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for path in COMMANDS:
        assert path[-1] in page
    known = {flag for path in COMMANDS for option in options_of(path) for flag in option.opts}
    known |= {"--no-progress", "--help", "--version", "--install-completion"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page)) <= known


@pytest.mark.parametrize("arguments", [(), ("labels",)])
def test_group_shows_its_commands(arguments: tuple[str, ...]) -> None:
    shown = words(run(*arguments, "--help").output)
    for path, command in COMMANDS.items():
        if path[:-1] == arguments:
            assert f"{path[-1]} {words(command.help.partition(chr(10) * 2)[0])}" in shown
