"""Exit codes and the words on standard error that go with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from llama_index_rag_metrics.cli.in_options import in_options
from llama_index_rag_metrics.errors import GateFailed, InvalidInput, RagMetricsError
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.writing import is_stream

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

    from llama_index_rag_metrics.evaluation import EvaluationResults
    from llama_index_rag_metrics.gate import GateReport
    from llama_index_rag_metrics.scores import Scores

FAILED_QUERIES, RULE_BROKEN, WRONG_USAGE, INTERRUPTED = 1, 1, 2, 130


@contextmanager
def exit_codes(
    kept: str = "nothing was kept",
    command: Callable[..., Any] | None = None,
    kept_in: Path | None = None,
) -> Iterator[None]:
    """Turn errors that the user can fix into one line and exit code 2, and Ctrl-C into 130.

    Args:
        kept: what to say after Ctrl-C about the work that was kept.
        command: the function of the command, for errors to name its options.
        kept_in: where it was kept; nothing was where that doesn't exist. None: anywhere.
    """
    try:
        yield
    except RagMetricsError as error:
        say(in_options(error, command))
        raise typer.Exit(WRONG_USAGE) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        raise typer.Exit(WRONG_USAGE) from None
    except KeyboardInterrupt:
        is_kept = kept_in is None or kept_in.exists()
        say(f"interrupted: {kept if is_kept else 'nothing was kept'}")
        raise typer.Exit(INTERRUPTED) from None


def exit_for(systems: Iterable[Scores]) -> None:
    """End with exit code 1 when a query failed."""
    if any(scores.failed for scores in systems):
        raise typer.Exit(FAILED_QUERIES)


def exit_for_results(
    results: Sequence[EvaluationResults], metrics: Sequence[BaseRetrievalMetric]
) -> None:
    """End with exit code 1 when a query failed, or a metric lacks a value that it should have.

    Metrics of texts have none if nothing was retrieved, the others none if nothing is relevant.
    """
    from llama_index_rag_metrics.text_metrics import TextMetric

    is_complete = not any(result.scores.failed for result in results)
    for result in results:
        scores = result.scores
        for metric in metrics:
            name = metric.metric_name
            due = set(scores.query_ids) - scores.excluded.keys()
            if isinstance(metric, TextMetric):
                due = {query_id for query_id, ranking in result.run.items() if ranking.ids}
            if missing := len(due - scores.by_query(name).keys()):
                say(f"{scores.name}: {name} has no value for {missing} of {len(due)} queries")
                is_complete = False
    if not is_complete:
        raise typer.Exit(FAILED_QUERIES)


def exit_for_gate(report: GateReport, *, strict: bool) -> None:
    """End with exit code 1 when a rule is broken; warn when one is inconclusive."""
    if report.outcome == "inconclusive" and not strict:
        say("inconclusive; --strict makes this exit code 1")
    if report.broken(strict=strict):
        raise typer.Exit(RULE_BROKEN)


@contextmanager
def refusal_to_store() -> Iterator[None]:
    """Print the verdicts of a baseline that wasn't stored, and end with exit code 1."""
    try:
        yield
    except GateFailed as error:
        typer.echo(str(error).strip())
        say("the baseline stays as it was, since a rule is broken; --force stores it anyway")
        raise typer.Exit(RULE_BROKEN) from None


def check_files(files: Mapping[str, Path | None], read: Iterable[Path | None] = ()) -> None:
    """Refuse files that couldn't be written, and a page whose extra is missing, before any work.

    Args:
        files: option to path; None where the option isn't given.
        read: files that the command reads, and must not overwrite.

    Raises:
        InvalidInput: a file can't be written there, is read, or is named by two options.
        MissingExtra: a page is wanted, and what it needs isn't installed.
    """
    taken = {path.resolve(): "a file that the command doesn't read" for path in read if path}
    for option, path in files.items():
        if path is None:
            continue
        if not is_stream(path):
            if (expected := taken.get(path.resolve())) is not None:
                raise InvalidInput(option, str(path), expected)
            taken[path.resolve()] = f"another file than that of {option}"
        folder = path.absolute().parent
        if not folder.is_dir():
            raise InvalidInput(option, str(path), "a file in a folder that exists")
        # a file is replaced by another beside it
        if not os.access(path if is_stream(path) else folder, os.W_OK):
            raise InvalidInput(option, str(path), "a file that may be written")
        if option == "--html":
            from llama_index_rag_metrics.report.html.libraries import check_libraries

            check_libraries()


def say(message: str) -> None:
    """Print a message on standard error, in one line; what is in it can't steer a terminal."""
    typer.echo(f"rag-metrics: {terminal(message)}", err=True)
