"""The command line: each command makes the calls that a program would make."""

from __future__ import annotations

import io
import sys
import warnings
from importlib.metadata import version
from typing import Annotated, Any

import typer

from . import evaluate, gate, init, labels, metrics, score, show  # noqa: F401
from .commands import app, say

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; a character that the terminal can't show becomes a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with warnings.catch_warnings():
        warnings.showwarning = _say_warning
        warnings.filterwarnings("ignore", module=r"pydantic\.")  # of models, for who wrote them
        app(prog_name="rag-metrics")


def _say_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    sentence = str(message)
    if not issubclass(category, UserWarning):
        sentence = f"{category.__name__}: {message}"
    say(sentence)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"rag-metrics {version('llama-index-rag-metrics')}")
        raise typer.Exit


_VERSION = typer.Option("--version", callback=_print_version, is_eager=True, help="The version.")


@app.callback(epilog="Example: rag-metrics evaluate -d eval/dataset.jsonl -r my_package:build")
def _root(version: Annotated[bool, _VERSION] = False) -> None:
    """Retrieval evaluation for LlamaIndex: which retriever is better, and where each fails."""
