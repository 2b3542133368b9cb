"""What `--help` shows of each command: all of it, in groups, at 80 columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from support.command_line import run
from support.paths import ROOT

from llama_index_rag_metrics.cli import app

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
def test_nothing_is_cut_off(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_an_example_is_a_call_that_the_command_takes(path: tuple[str, ...]) -> None:
    example = COMMANDS[path].epilog.partition("\n\n")[0]
    _, _, *arguments = shlex.split(example)
    assert tuple(arguments[: len(path)]) == path
    COMMANDS[path].make_context("rag-metrics", arguments[len(path) :])


def test_the_page_names_every_command_and_no_option_that_there_isnt() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for path in COMMANDS:
        assert path[-1] in page
    known = {flag for path in COMMANDS for option in options_of(path) for flag in option.opts}
    known |= {"--no-progress", "--help", "--version", "--install-completion"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page)) <= known


@pytest.mark.parametrize("arguments", [(), ("labels",)])
def test_a_group_shows_its_commands(arguments: tuple[str, ...]) -> None:
    shown = words(run(*arguments, "--help").output)
    for path, command in COMMANDS.items():
        if path[:-1] == arguments:
            assert f"{path[-1]} {words(command.help.partition(chr(10) * 2)[0])}" in shown
