"""The report of totals: means and counts of scores that weren't kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from llama_index_rag_metrics.report import Records, Report, Row, Section, Table
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.scores.glossary import glossary
from llama_index_rag_metrics.scores.rows import counts_rows, score_cell

if TYPE_CHECKING:
    from llama_index_rag_metrics.scoring.totals import ScoreTotals


def totals_report(totals: ScoreTotals) -> Report:
    """The report of some totals; as a table, one row with all means and counts."""
    name, counts, metrics = totals.name or "score", totals.counts, totals.metric_names
    means = {metric: totals.means[metric] if totals.n(metric) else None for metric in metrics}
    rows = [Row(metric, [score_cell(mean)]) for metric, mean in means.items()]
    parts = [rows, [*counts_rows([counts])]]
    table = Table("", [name], parts, fold="Counts", by_system=True)
    values = {"run": totals.name, **means, **asdict(counts)}
    return Report(
        title=f"Retrieval of {name}",
        lead=f"{counted(counts.scored)} scored by {counted(len(metrics), 'metric', 'metrics')}",
        sections=[Section("Means", [table])],
        notes=totals.notes,
        glossary=glossary(metrics),
        metrics=metrics,
        records=Records({label: [value] for label, value in values.items()}),
    )
