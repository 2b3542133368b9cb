"""How `score` prints scores: as a table, JSON or CSV, or in the lines of trec_eval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import typer
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.cli.exit_codes import say
from llama_index_rag_metrics.evaluation.results.results_report import print_results
from llama_index_rag_metrics.report.reportable import csv_text
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores import scores_export as export
from llama_index_rag_metrics.scores.trec_eval import (
    LEFT_OUT,
    Version,
    columns,
    leaves_out,
    metrics_of,
    report_lines,
)


class TrecLines:
    """The lines of trec_eval, of the measures that it calls by these names."""

    def __init__(
        self,
        names: Sequence[str] | None,
        version: Version,
        min_grade: float | None,
        per_query: bool,
        complete: bool,
        summary: bool,
    ) -> None:
        self._names = names or ["official"]
        self._version = version
        self._measures = columns(self._names, min_grade, version=version)
        self._per_query, self._complete, self._summary = per_query, complete, summary

    @property
    def metrics(self) -> list[BaseRetrievalMetric]:
        """The metrics behind the measures."""
        return metrics_of(self._measures)

    def lines(self, systems: Iterable[Scores]) -> list[str]:
        """The lines of every run."""
        return [
            line
            for scores in systems
            for line in report_lines(
                scores,
                self._measures,
                per_query=self._per_query,
                complete=self._complete,
                summary=self._summary,
                version=self._version,
            )
        ]

    def print(self, lines: Iterable[str]) -> None:
        """Print them, and on standard error which measures of trec_eval's aren't there."""
        typer.echo("\n".join(lines))
        if leaves_out(self._names):
            say(f"trec_eval's all_trec also has {', '.join(LEFT_OUT)}; these aren't computed")


def print_scores(systems: Sequence[Scores], form: str, *, per_query: bool) -> None:
    """Print scores as "json", "csv" or a table."""
    if form == "json":
        typer.echo(export.to_json(systems))
    elif form == "csv":
        records = export.per_query(systems) if per_query else export.means(systems)
        typer.echo(csv_text(records), nl=False)
    else:
        print_results(systems, worst=0, per_query=per_query)
