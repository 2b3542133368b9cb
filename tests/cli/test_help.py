"""What `--help` shows of each command, on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from support.command_line import run

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


@pytest.mark.parametrize(
    ("path", "default"),
    [
        (["evaluate"], "[default: (the largest cutoff; at least 10 if a metric has none)"),
        (["gate"], "[default: (all of them)]"),
        (["labels", "pool"], "[default: (the labels of the dataset)]"),
        (["labels", "check"], "[default: (the dataset's own corpus)]"),
        (["score"], "[default: table]"),
    ],
)
def test_defaults_are_shown_once(path: list[str], default: str) -> None:
    assert words(run(*path, "--help").output).count(default) == 1


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
