"""The application: how every command begins, ends, refuses, and shows what it found.

A command ends with exit code 2 and one line on standard error where its user can mend what is
wrong, and with 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from llama_index_rag_metrics.runtime.atomic_files import is_stream, write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError
from llama_index_rag_metrics_cli import run_package

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

    from llama_index_rag_metrics.report.model import Report
    from llama_index_rag_metrics.report.reportable import Reportable

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
STDOUT = Path("-")
_WRITTEN = ("json", "html", "output")  # options that name files which a command writes
_CALLED = {  # arguments of the package that a command calls otherwise
    "index_or_nodes": ("corpus", "new_nodes", "nodes"),
    "judgements": ("qrels", "output"),
    "metric": ("rule",),
    "metrics": ("metric",),
    "rules": ("rule",),
    "path": ("output",),
    "questions": ("dataset",),
    "nodes": ("dataset",),
    "num_questions_per_chunk": ("n",),
}


class Command(TyperCommand):
    """A command that refuses in one line, which names its options."""

    def invoke(self, ctx: Any) -> Any:
        names = {str(parameter.name): _shown_name(parameter) for parameter in self.params}
        try:
            _check_files(names, ctx.params)
            run_package()
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except KeyboardInterrupt:
            journal = ctx.params.get("journal")
            state = "nothing was written"
            if journal is not None:
                state = f"finished questions are kept in {journal}"
            say(f"interrupted: {state}")
            raise typer.Exit(INTERRUPTED) from None
        except (RagMetricsError, OSError) as error:
            say(_message(error, names))
            raise typer.Exit(WRONG_USAGE) from None


def _shown_name(parameter: Any) -> str:
    longest: str = max(parameter.opts, key=len)
    if longest.startswith("-"):
        return longest
    metavar: str = getattr(parameter, "metavar", None) or longest.upper()
    return metavar.removesuffix("...")


_SETTINGS = {
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "rich",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = typer.Typer(name="rag-metrics", **_SETTINGS)  # type: ignore[arg-type]
labels = typer.Typer(name="labels", **_SETTINGS)  # type: ignore[arg-type]
app.add_typer(labels, help="Check labels, move them to new nodes, add to them.")


def command(
    group: typer.Typer, name: str, example: str, failed: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command; its help ends with an example and the exit codes."""
    codes = "Exit code 2: the command can't run as written."
    if failed:
        codes = f"Exit code 1: {failed}. {codes}"
    return group.command(name, cls=Command, epilog=f"Example: {example}\n\n{codes}")


def _check_files(names: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Refuse files that can't be written, or would replace what is read, before any work."""
    options: dict[Path, str] = {}
    for name, path in _named_files(values):
        option = names.get(name, name)
        try:
            place = Path(path).resolve()
        except UnicodeEncodeError:  # half an emoji
            raise InvalidInput(option, str(path), "whole characters") from None
        if name in _WRITTEN and not (name == "json" and path == STDOUT):
            _check_writable(option, Path(path))
            if place in options and not is_stream(place):
                raise InvalidInput(option, str(path), f"another file than that of {options[place]}")
        options[place] = option


def _named_files(values: Mapping[str, Any]) -> Iterator[tuple[str, str | Path]]:
    """Yield each argument that may name a file, with the path; files to be written come last."""
    for name in sorted(values, key=_WRITTEN.__contains__):
        value = values[name]
        for path in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(path, (str, Path)) and str(path):
                yield name, path


def _check_writable(option: str, path: Path) -> None:
    # a file is replaced by another beside it
    target = path if is_stream(path) else path.absolute().parent
    if path == STDOUT or not os.access(target, os.W_OK):
        expected = "a file in a folder that exists and may be written to"
        raise InvalidInput(option, str(path), expected)


def _message(error: RagMetricsError | OSError, names: Mapping[str, str]) -> str:
    """The message of an error, in which a command's options have the names that users type."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    options = dict(names)
    for argument, called in _CALLED.items():
        for name in called:
            if name in names:
                options.setdefault(argument, names[name])
    message = str(error)
    if isinstance(error, InvalidInput):
        argument, space, detail = error.argument.partition(" ")
        message = error.worded(f"{options.get(argument, argument)}{space}{detail}")
    message = re.sub(r", or None( for \w+)?, got", ", got", message)
    message = message.replace("columns={field: your column}", "--columns FIELD=NAME")
    message = re.sub(r"columns=\{'(\w+)': '(.+?)'\}", r"--columns \1=\2", message)
    for argument, option in options.items():
        message = re.sub(rf"\b{argument}=('[^']*')", rf"{option} \1", message)
        message = re.sub(rf"\b{argument}=(\.\.\.)?(?![\w'])", option, message)
    return message.replace("=...", "=…")


def split_names(text: str) -> list[str]:
    """Return the names between commas; a comma within a name's parentheses doesn't count."""
    names, is_inside = [""], False
    for part in re.split(r"([(),])", text):
        is_inside = part == "(" or (is_inside and part != ")")
        if part == "," and not is_inside:
            names.append("")
        else:
            names[-1] += part
    return names


def chosen_metrics(names: Iterable[str] | None) -> list[BaseRetrievalMetric]:
    """The metrics of those names, which may be joined by commas; by default the usual ones."""
    from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS, metrics

    single_names: list[str] = []
    for name in names or ():
        single_names += map(str.strip, split_names(name))
    return metrics(single_names or DEFAULT_METRICS)


def fail_if(something_is_wrong: object) -> None:
    if something_is_wrong:
        raise typer.Exit(FAILED)


def say(message: str) -> None:
    """Print a message on standard error, in one line; what is in it can't steer a terminal."""
    from llama_index_rag_metrics.report.text import one_line

    typer.echo(f"rag-metrics: {one_line(message)}", err=True)


def tell(sentence: str) -> None:
    with unbroken_pipe():
        typer.echo(sentence)


def show(result: Reportable, json: Path | None, html: Path | None = None) -> None:
    if html is not None:
        result.to_html(html)
    show_report(result.report(), result.to_json(), json)


def show_report(report: Report, numbers: str, json: Path | None) -> None:
    """Print a report, after its numbers were written as JSON; or print these instead of it."""
    from llama_index_rag_metrics.report.terminal import print_report

    if json == STDOUT:
        tell(numbers.rstrip("\n"))
        return
    if json is not None:
        write_text(json, f"{numbers.rstrip()}\n")
    with unbroken_pipe():
        print_report(report)


@contextmanager
def unbroken_pipe() -> Iterator[None]:
    """Print within, and go on where nobody reads it any more, as behind `| head`."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the latter is what rich makes of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
