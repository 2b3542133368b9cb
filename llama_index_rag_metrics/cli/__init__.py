"""The command line: each command makes the calls that a program would make."""

from __future__ import annotations

import io
import sys
import warnings
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, TextIO

import typer

# the commands, in the order of the help
# isort: off
from llama_index_rag_metrics.cli import evaluate, score, show  # noqa: F401
from llama_index_rag_metrics.cli import gate, labels, init  # noqa: F401

# isort: on
from llama_index_rag_metrics.cli.commands import app, run_package, say
from llama_index_rag_metrics.cli.help import epilog
from llama_index_rag_metrics.runtime.errors import EveryQueryFailed

__all__ = ["app", "main"]

SCRIPTS = ("rag-metrics", "llama-index-rag-metrics")
"""The names of the command; the second is the package's name, which `uvx` expects."""


def main() -> None:
    """Run the command line; a character that the terminal can't show becomes a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    called = Path(sys.argv[0]).stem
    with warnings.catch_warnings():
        warnings.showwarning = _say_warning
        warnings.filterwarnings("ignore", module=r"pydantic\.")  # of models, for who wrote them
        app(prog_name=called if called in SCRIPTS else SCRIPTS[0])


def _say_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    is_said = issubclass(category, UserWarning)
    is_error = issubclass(category, EveryQueryFailed)
    say(str(message) if is_said else f"{category.__name__}: {message}", is_error=is_error)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            version = version_of("llama-index-rag-metrics")
        except PackageNotFoundError:  # a copy that nobody installed
            run_package()
            version = sys.modules[__name__.partition(".")[0]].__version__
        typer.echo(f"rag-metrics {version}")
        raise typer.Exit


_EXAMPLES = """\
rag-metrics demo
rag-metrics evaluate -d eval/dataset.jsonl -r bm25 -r my_package:build
rag-metrics score before.run after.run --qrels qrels.txt -m ndcg@10
rag-metrics COMMAND --help"""


@app.callback(epilog=epilog(_EXAMPLES, ()))
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Retrieval evaluation for LlamaIndex: which retriever is better, and where each fails."""
