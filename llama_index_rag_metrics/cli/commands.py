"""The application: how every command begins, ends, refuses, and shows what it found.

A command ends with exit code 2 and one line on standard error where its user can mend what is
wrong, and with 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import reload
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from llama_index_rag_metrics.runtime.atomic_files import is_stream, write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

    from llama_index_rag_metrics.report.model import Report
    from llama_index_rag_metrics.report.reportable import Reportable

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
STDOUT = Path("-")
_WRITTEN = ("json", "html", "output", "page")  # options that name files which a command writes
_PACKAGE = "llama_index_rag_metrics"
_CALLED = {  # arguments of the package that a command calls otherwise
    "index_or_nodes": ("corpus", "new_nodes", "nodes"),
    "judgements": ("qrels", "output"),
    "metrics": ("metric",),
    "path": ("output",),
    "num_questions_per_chunk": ("n",),
}
_REMEDIES = {  # how a command is given what an error says that it lacks
    "texts": "A metric of texts needs questions and texts, which `rag-metrics evaluate` has.",
    "matcher": "A matcher needs what it compares: `rag-metrics evaluate --matcher` has it.",
    "llm": "Set Settings.llm in the module of --retriever.",
    "embed_model": "Set Settings.embed_model in the module of --retriever.",
    "spans": "Give RUN as JSON lines with retrieved_spans.",
    "scores": "Give RUN as a TREC run, or as JSON lines with scores.",
    "tokens": "Give RUN as JSON lines with retrieved_texts, or use a cutoff by rank, such as @10.",
}


class Command(TyperCommand):
    """A command that refuses in one line, which names its options."""

    def invoke(self, ctx: Any) -> Any:
        names = {str(parameter.name): _shown_name(parameter) for parameter in self.params}
        try:
            _check_files(names, ctx.params)
            package = sys.modules[_PACKAGE]
            if not hasattr(package, "__all__"):  # the script leaves it out, so that help is quick
                reload(package)
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except KeyboardInterrupt:
            say("interrupted: nothing was written")
            raise typer.Exit(INTERRUPTED) from None
        except (RagMetricsError, OSError) as error:
            say(_message(error, names), is_error=True)
            raise typer.Exit(WRONG_USAGE) from None


def _shown_name(parameter: Any) -> str:
    """What a user calls it: --option or ARGUMENT."""
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
    """Refuse files that couldn't be written, before any work."""
    unwritable: dict[Path, str] = {}
    for name, value in values.items():
        for path in value if isinstance(value, (list, tuple)) else [value]:
            if name not in _WRITTEN and isinstance(path, (str, Path)) and str(path):
                place = _resolved(names.get(name, name), path)
                unwritable[place] = "a file that the command doesn't read"
    for name in _WRITTEN:
        path, option = values.get(name), names.get(name, name)
        if path is None or (name == "json" and path == STDOUT):
            continue
        if path == STDOUT:
            raise InvalidInput(option, "-", "the name of a file")
        place = _resolved(option, path)
        check_writable(option, path)
        if not is_stream(path):
            if place in unwritable:
                raise InvalidInput(option, str(path), unwritable[place])
            unwritable[place] = f"another file than that of {option}"


def _resolved(option: str, path: str | Path) -> Path:
    try:
        return Path(path).resolve()
    except UnicodeEncodeError:  # half an emoji
        raise InvalidInput(option, str(path), "whole characters") from None


def check_writable(option: str, path: Path) -> None:
    """Refuse a file in a folder that isn't there, or where nothing may be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InvalidInput(option, str(path), "a file in a folder that exists")
    # a file is replaced by another beside it
    if not os.access(path if is_stream(path) else folder, os.W_OK):
        raise InvalidInput(option, str(path), "a file that may be written")


def _message(error: RagMetricsError | OSError, names: Mapping[str, str]) -> str:
    """The message of an error, with a command's names of its arguments."""
    from llama_index_rag_metrics.files.lines import RENAMING, LacksField

    if isinstance(error, InvalidInput):
        argument, space, detail = error.argument.partition(" ")
        called = [name for name in (argument, *_CALLED.get(argument, ())) if name in names]
        display_name = names[called[0]] if called else argument
        remedy = _REMEDIES.get(error.lacks, error.remedy)
        return error.worded(f"{display_name}{space}{detail}", remedy)
    if isinstance(error, LacksField):
        return str(error).replace(RENAMING, "")
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


@contextmanager
def interrupted(state: str, path: Path | None = None) -> Iterator[None]:
    """Say after Ctrl-C what is kept of the work, if there is such a file."""
    try:
        yield
    except KeyboardInterrupt:
        is_kept = path is None or path.exists()
        say(f"interrupted: {state if is_kept else 'nothing was kept'}")
        raise typer.Exit(INTERRUPTED) from None


def chosen_metrics(names: Iterable[str] | None) -> list[BaseRetrievalMetric]:
    """The metrics of those names, which may be joined by commas; by default the usual ones."""
    from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS, metrics, split_names

    single = [part.strip() for name in names or () for part in split_names(name)]
    return metrics(single or DEFAULT_METRICS)


def say_of_threshold(min_score: float | None, systems: int, noun: str) -> None:
    """Say that one threshold doesn't fit several systems unless their scores are of one kind."""
    if min_score is not None and systems > 1:
        say(f"--min-score cuts {systems} {noun} at the same score: only scores of one kind compare")


def fail_if(something_is_wrong: object) -> None:
    """End with exit code 1 where something is wrong."""
    if something_is_wrong:
        raise typer.Exit(FAILED)


def say(message: str, *, is_error: bool = False) -> None:
    """Print a message on standard error, in one line; what is in it can't steer a terminal."""
    from llama_index_rag_metrics.report.escape import terminal

    line = f"rag-metrics: {terminal(message)}"
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if is_error and not is_plain:
        line = typer.style(line, fg="red")
    typer.echo(line, err=True)


def tell(sentence: str) -> None:
    """Print a sentence on standard output."""
    with unbroken_pipe():
        typer.echo(sentence)


def show(result: Reportable, json: Path | None, html: Path | None = None) -> None:
    """Write a result to the files that were asked for, and print its report."""
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
    """Print within; what nobody reads any more, as behind `| head`, doesn't end the command."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the latter is what rich makes of it
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
