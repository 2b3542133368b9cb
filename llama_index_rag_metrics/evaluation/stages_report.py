"""The report of the stages of a pipeline: what each reaches, gains, loses and takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from llama_index_rag_metrics.evaluation.results.curve_figures import curve_figures
from llama_index_rag_metrics.evaluation.results.results_report import system_of
from llama_index_rag_metrics.report import Cell, Listing, QueryAnswers, Report, Row, Tone
from llama_index_rag_metrics.scores.rows import time_cell
from llama_index_rag_metrics.scores.scores_report import listed, systems_report

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.stages import Change, StageResults

_CHANGES: dict[Change, tuple[str, Tone]] = {
    "gained": ("relevant, brought in", "normal"),
    "lost": ("relevant, dropped", "alarm"),
    "raised": ("relevant, moved up", "normal"),
    "lowered": ("relevant, moved down", "normal"),
}
_MOST_LOST = 10


def stages_report(stages: StageResults, *, full: bool = False) -> Report:
    systems = [system_of(results, stage) for stage, results in stages.items()]
    report = systems_report(systems, full=full, figures=curve_figures(systems))
    summary, *sections = report.sections
    (table,) = summary.tables
    table = replace(table, parts=[*table.parts, _changes(stages), _latencies(stages)])
    return replace(
        report,
        title=f"Stages: {listed(list(stages), most=9)}",
        sections=[replace(summary, tables=[table]), *sections],
        listings=list(_lost(stages)),
    )


def _changes(stages: StageResults) -> list[Row]:
    counts = Counter((change.stage, change.kind) for change in stages.changes)
    further = list(stages)[1:]
    return [
        Row(
            label,
            [
                Cell(None, tone="quiet"),
                *(
                    Cell(n, "count", tone if n else "quiet")
                    for n in (counts[stage, kind] for stage in further)
                ),
            ],
        )
        for kind, (label, tone) in _CHANGES.items()
    ]


def _latencies(stages: StageResults) -> list[Row]:
    latencies = stages.stage_latency.values()
    return [
        Row(
            f"this stage {percentile}",
            [
                time_cell(None if latency is None else getattr(latency, percentile))
                for latency in latencies
            ],
        )
        for percentile in ("p50", "p95")
    ]


def _lost(stages: StageResults) -> Iterator[Listing]:
    for stage in stages:
        if lost := stages.lost(stage):
            texts = stages[stage].scores.queries
            queries = [
                QueryAnswers(change.query_id, texts.get(change.query_id, ""), remarks=[str(change)])
                for change in lost[:_MOST_LOST]
            ]
            title = f"Lost by {stage}: {len(lost)}"
            yield Listing(title, queries, more=len(lost) - len(queries))
