"""What `--help` shows of each command: all of it, in groups, as wide as the terminal."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest
import typer
from support.command_line import run
from typer.testing import CliRunner

from llama_index_rag_metrics.cli import app


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command and those below it, each with the words that call it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *path, name)


COMMANDS = list(commands(typer.main.get_command(app)))


def words(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize(
    ("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS]
)
def test_nothing_is_cut_off(path: tuple[str, ...], command: Any) -> None:
    output = run(*path, "--help").output

    assert max(map(len, output.splitlines())) <= 80
    shown = words(output)
    for parameter in command.params:
        assert words(parameter.help) in shown
        if parameter.param_type_name == "option":
            assert all(option in shown for option in parameter.opts)
    for name, below in getattr(command, "commands", {}).items():
        summary = below.help.split("\n\n")[0]
        assert f"{name} {words(summary)}" in shown


@pytest.mark.parametrize("columns", [100, 140])
def test_it_is_as_wide_as_the_terminal(columns: int) -> None:
    code = (
        "from llama_index_rag_metrics_cli import main; main()"  # CliRunner has 80 columns, always
    )
    environment = {**os.environ, "COLUMNS": str(columns)}
    command = [sys.executable, "-c", code, "evaluate", "--help"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    longest = max(map(len, shown.stdout.splitlines()))
    assert columns - 15 < longest <= columns


@pytest.mark.parametrize(
    ("path", "default"),
    [
        (["evaluate"], "Default: the largest cutoff; at least 10 if a metric has none."),
        (["evaluate"], "--workers N How many questions to ask at once. Default: 8."),
        (["evaluate"], "RetrievalDataset.load reads. Required."),
        (["gate"], "Repeatable. Default with a baseline: the first metric"),
        (["labels", "pool"], "Default: those of the dataset."),
        (["labels", "check"], "Default: the dataset's own corpus."),
        (["score"], "Default: table."),
    ],
)
def test_defaults_are_plain_and_shown_once(path: list[str], default: str) -> None:
    output = words(run(*path, "--help").output)
    assert output.count(default) == 1
    assert "[default" not in output
    assert "[required" not in output


@pytest.mark.parametrize(("path", "command"), COMMANDS[1:], ids=lambda part: str(part)[:40])
def test_values_have_names_that_a_person_reads(path: tuple[str, ...], command: Any) -> None:
    for parameter in command.params:
        if not getattr(parameter, "is_flag", False):
            assert re.fullmatch(r"[A-Z_]+(=[A-Z_]+)?|[a-z0-9|]+", parameter.metavar), parameter.name
        assert "<" not in (parameter.metavar or "")


@pytest.mark.parametrize(("path", "command"), COMMANDS[1:], ids=lambda part: str(part)[:40])
def test_many_options_are_in_groups(path: tuple[str, ...], command: Any) -> None:
    options = [each for each in command.params if each.param_type_name == "option"]
    grouped = [each for each in options if each.rich_help_panel]
    assert grouped in ([], options)
    assert bool(grouped) == (len(options) > 9)
    for _, together in groupby(grouped, key=lambda option: option.rich_help_panel):
        assert len(list(together)) <= 6


def test_a_heading_for_each_group() -> None:
    lines = run("evaluate", "--help").output.splitlines()
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == [
        "What to ask, and whom:",
        "Metrics:",
        "Recognising labelled passages:",
        "Running:",
        "Output:",
        "Examples:",
    ]


def test_a_short_option_means_the_same_everywhere() -> None:
    """But for score, whose -n is trec_eval's."""
    meanings: dict[str, set[str]] = {}
    for path, command in COMMANDS:
        for parameter in command.params:
            for flag in parameter.opts:
                if len(flag) == 2 and path != ("score",):
                    meanings.setdefault(flag, set()).add(max(parameter.opts, key=len))
    assert {flag: names for flag, names in meanings.items() if len(names) > 1} == {}
    assert meanings["-r"] == {"--retriever"}


def test_examples_are_calls_that_the_commands_take() -> None:
    n_examples = 0
    for path, command in COMMANDS:
        if hasattr(command, "commands"):
            continue
        lines = run(*path, "--help").output.splitlines()
        calls = [line.partition(" > ")[0] for line in lines if line.startswith("  rag-metrics ")]
        examples = [shlex.split(call) for call in calls]
        assert examples, path
        for _, *arguments in examples:
            assert tuple(arguments[: len(path)]) == path
            command.make_context("rag-metrics", arguments[len(path) :])
            n_examples += 1
    assert n_examples > 12


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colour_where_the_terminal_has_it(
    variables: dict[str, str], is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    shown = CliRunner().invoke(app, ["evaluate", "--help"], color=True).output
    assert ("\x1b[36m" in shown) == is_coloured
    assert "\x1b" not in run("evaluate", "--help").output


def test_a_line_for_each_exit_code() -> None:
    lines = [line.strip() for line in run("gate", "--help").output.splitlines()]
    assert [line[:12] for line in lines if line.startswith("Exit code")] == [
        "Exit code 0:",
        "Exit code 1:",
        "Exit code 2:",
    ]


def test_a_wrong_option_is_named_in_plain_text() -> None:
    result = run("score", "a.run", "--max-retrieved", "0")
    assert result.exit_code == 2
    assert "\nError: Invalid value for '--max-retrieved' / '-M': " in result.stderr
