"""The command line: each command makes the calls that a program would make."""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path
from typing import Annotated, TextIO

import typer

from llama_index_rag_metrics.cli.demo import run_demo
from llama_index_rag_metrics.cli.evaluate import run_evaluate
from llama_index_rag_metrics.cli.exit_codes import exit_words, say
from llama_index_rag_metrics.cli.gate import run_gate
from llama_index_rag_metrics.cli.judge import run_judge
from llama_index_rag_metrics.cli.labels import labels
from llama_index_rag_metrics.cli.metric_listing import list_metrics
from llama_index_rag_metrics.cli.nuggets import run_nuggets
from llama_index_rag_metrics.cli.score import run_score

__all__ = ["app", "main"]

SCRIPTS = ("rag-metrics", "llama-index-rag-metrics")
"""The names of the command; the second is the package's name, which `uvx` expects."""

app = typer.Typer(
    name="rag-metrics",
    help="Retrieval evaluation for LlamaIndex.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its columns cut long words off at 80 characters
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", epilog=exit_words("demo"))(run_demo)
app.command("evaluate", epilog=exit_words("evaluate"))(run_evaluate)
app.command("score", epilog=exit_words("score"))(run_score)
app.command("judge", epilog=exit_words("judge"))(run_judge)
app.command("gate", epilog=exit_words("gate"))(run_gate)
app.command("metrics", epilog=exit_words("metrics"))(list_metrics)
labels.command("nuggets", epilog=exit_words("labels nuggets"))(run_nuggets)
app.add_typer(labels)


def main() -> None:
    """Run the command line; a character that the terminal can't show becomes a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.showwarning = _say_warning
    called = Path(sys.argv[0]).stem
    app(prog_name=called if called in SCRIPTS else SCRIPTS[0])


def _say_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    say(f"{category.__name__}: {message}")


def _print_version(wanted: bool) -> None:
    if wanted:
        from llama_index_rag_metrics import __version__

        typer.echo(f"rag-metrics {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Retrieval evaluation for LlamaIndex: exact metrics, counts, latency, the worst queries."""
