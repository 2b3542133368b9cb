"""Exit codes and the words on standard error that go with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from llama_index_rag_metrics.errors import RagMetricsError

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation import EvaluationResults
    from llama_index_rag_metrics.gate import GateReport

FAILED_QUERIES, RULE_BROKEN, WRONG_USAGE, INTERRUPTED = 1, 1, 2, 130


@contextmanager
def exit_codes(journal: Path | None = None) -> Iterator[None]:
    """Turn what the user can mend into one line and exit code 2, and Ctrl-C into 130.

    Args:
        journal: where finished queries are kept, for the word on that after Ctrl-C.
    """
    try:
        yield
    except RagMetricsError as error:
        _say(str(error))
        raise typer.Exit(WRONG_USAGE) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        _say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        raise typer.Exit(WRONG_USAGE) from None
    except KeyboardInterrupt:
        kept = (
            "nothing was kept; --journal DIR keeps finished queries"
            if journal is None
            else f"finished queries are kept in {journal}; the same command goes on from there"
        )
        _say(f"interrupted: {kept}")
        raise typer.Exit(INTERRUPTED) from None


def exit_for(results: Sequence[EvaluationResults]) -> None:
    """End with exit code 1 when a query failed."""
    if any(one.scores.failed for one in results):
        raise typer.Exit(FAILED_QUERIES)


def exit_for_gate(report: GateReport, *, strict: bool) -> None:
    """End with exit code 1 when a rule is broken; warn when so few queries can't tell."""
    if report.outcome == "inconclusive" and not strict:
        _say("inconclusive, which --strict makes exit code 1")
    if report.broken(strict=strict):
        raise typer.Exit(RULE_BROKEN)


def _say(message: str) -> None:
    typer.echo(f"rag-metrics: {' '.join(message.split())}", err=True)
