"""What `--help` shows: options in groups, as wide as the terminal, and an example.

All of it comes from a command's signature and docstring. Typer's own panels aren't used: they have
a column for each kind of spelling, which leaves no room for the rest at 80 characters.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from inspect import Parameter, cleandoc
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

_ROW = re.compile(r"^ {4}(\w+)(?: \(([^)]*)\))?: (.+(?:\n {8}.+)*)", re.MULTILINE)
"""A row of `Args`: in brackets stand flags, and what help calls the value."""

_GROUP = re.compile(r"^ {4}(.+): (.+(?:\n {8}.+)*)", re.MULTILINE)
"""A row of `Groups`: a heading, and the options below it."""

_HYPHEN = "\N{NON-BREAKING HYPHEN}"
"""Stands for a hyphen while lines are broken, so that no option is."""

_WIDEST = 30
"""Of options beside their text; the text of wider ones begins on the next line."""


class HelpRow(NamedTuple):
    """The help of an argument: its flags, what its value is called, its text, and its default."""

    flags: list[str]
    metavar: str | None
    text: str
    default: str

    def described(self, parameter: Parameter, group: str | None) -> Parameter:
        """The parameter as Typer reads it."""
        kind: Any = parameter.annotation
        further: dict[str, Any] = {}
        if get_origin(kind) is Annotated:
            kind, further = get_args(kind)
        is_folder = further.get("file_okay") is False
        further = {
            "help": self._sentence(parameter),
            "metavar": "FOLDER" if is_folder else self.value(parameter, kind),
            "rich_help_panel": group,
            "show_default": False,
            **further,
        }
        is_option = parameter.kind is parameter.KEYWORD_ONLY
        about = typer.Option(*self.flags, **further) if is_option else typer.Argument(**further)
        return parameter.replace(annotation=Annotated[kind, about])

    def name(self, parameter: Parameter) -> str:
        """What a user calls it: --option or ARGUMENT."""
        is_option = parameter.kind is parameter.KEYWORD_ONLY
        return self.flags[0] if is_option else self.value(parameter, Any)

    def value(self, parameter: Parameter, kind: Any) -> str:
        """What stands for the value."""
        if self.metavar or parameter.kind is not parameter.KEYWORD_ONLY:
            return self.metavar or parameter.name.upper()
        kinds = [part for part in get_args(kind) if part is not type(None)] or [kind]
        if get_origin(kind) is Literal:
            return "|".join(get_args(kind))
        values = {int: "N", float: "NUMBER", Path: "FILE"}
        return values.get(kinds[0], self.flags[0].strip("-").upper().replace("-", "_"))

    def _sentence(self, parameter: Parameter) -> str:
        default = self.default or parameter.default
        if default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY:
            return f"{self.text} Required."
        has_one = default not in (None, parameter.empty) and not isinstance(default, bool)
        return f"{self.text} Default: {default}." if has_one else self.text


class Docstring:
    """What the docstring of a command says: its summary, its rows, groups of options, examples."""

    def __init__(self, text: str) -> None:
        self.summary, *sections = re.split(r"\n\n(?=(?:Args|Groups|Examples):\n)", text)
        by_name = dict(section.split(":\n", 1) for section in sections)
        self.rows = read_rows(by_name.get("Args", ""))
        self.groups = {
            name: heading
            for heading, names in _GROUP.findall(by_name.get("Groups", ""))
            for name in re.findall(r"\w+", names)
        }
        self.examples = cleandoc(by_name.get("Examples", ""))


def read_rows(text: str) -> dict[str, HelpRow]:
    """The help of each argument that `Args` describe."""
    rows = {}
    for name, brackets, words in _ROW.findall(text):
        parts = brackets.split(", ") if brackets else []
        flags = [part for part in parts if part.startswith("-")]
        if not any(flag.startswith("--") for flag in flags):
            flags.insert(0, f"{'-' if len(name) == 1 else '--'}{name.replace('_', '-')}")
        metavar = next((part for part in parts if not part.startswith("-")), None)
        sentence, _, default = " ".join(words.split()).partition(" Default: ")
        rows[name] = HelpRow(flags, metavar, sentence, default.rstrip("."))
    return rows


def epilog(examples: str, codes: Sequence[str]) -> str:
    """What stands below the options: examples, line by line, and the meaning of exit codes."""
    heading = styled("Examples:" if "\n" in examples else "Example:", bold=True)
    lines = [heading, *(f"  {line}" for line in examples.splitlines())]
    blocks = [lines if examples else [], codes]
    return "\n\n".join("\n".join(["\b", *block]) for block in blocks if block)


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write options, arguments and a group's commands below their headings."""
    sections: dict[str, list[tuple[str, str]]] = {}
    last = "Options"
    for parameter in command.get_params(ctx):
        is_argument = parameter.param_type_name == "argument"
        last = getattr(parameter, "rich_help_panel", None) or last
        row = _spelt(parameter), (parameter.help or "").replace("-", _HYPHEN)
        sections.setdefault("Arguments" if is_argument else last, []).append(row)
    for name, below in getattr(command, "commands", {}).items():
        sections.setdefault("Commands", []).append((name, below.help.partition("\n\n")[0]))
    names = [name for rows in sections.values() for name, _ in rows]
    width = max(len(name) for name in names if len(name) <= _WIDEST)
    for heading, rows in sections.items():
        with formatter.section(styled(heading, bold=True)):
            padded = [(styled(name.ljust(width), fg="cyan"), text) for name, text in rows]
            formatter.write_dl(padded, width)
    formatter.buffer[:] = [part.replace(_HYPHEN, "-") for part in formatter.buffer]


def _write_epilog(command: Any, ctx: Any, formatter: Any) -> None:
    if command.epilog:
        formatter.write_paragraph()
        formatter.write_text(command.epilog)


class _Helping:
    format_options = _write_options
    format_epilog = _write_epilog


class Command(_Helping, TyperCommand):
    """A command with such help."""


class Group(_Helping, TyperGroup):
    """A group of commands with such help."""


def _spelt(parameter: Any) -> str:
    """An option or an argument with its value: "-m, --metric METRIC"."""
    if parameter.param_type_name == "argument":
        return f"{parameter.metavar}{'...' if parameter.nargs == -1 else ''}"
    flags = ", ".join(sorted(parameter.opts, key=len))
    flags = "/".join([flags, *parameter.secondary_opts])
    return flags if parameter.is_flag else f"{flags} {parameter.metavar}"


def styled(text: str, **style: Any) -> str:
    """A text in colour, which is taken out again where the output is no terminal."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if is_plain else typer.style(text, **style)
