"""The report of the stages of a pipeline: what each reaches, gains, loses and takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from llama_index_rag_metrics.evaluation.results.curve_figures import curve_figures
from llama_index_rag_metrics.evaluation.results.results_report import system_of
from llama_index_rag_metrics.report import Cell, Listing, QueryAnswers, Report, Row, Tone
from llama_index_rag_metrics.scores.scores_report import listed, systems_report

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.stages import Change, StageResults

_CHANGES: dict[Change, tuple[str, Tone]] = {
    "gained": ("relevant, brought in", "normal"),
    "lost": ("relevant, dropped", "alarm"),
    "raised": ("relevant, moved up", "normal"),
    "lowered": ("relevant, moved down", "normal"),
}
_LISTED_LOSSES = 10


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
                *(Cell.of(counts[stage, kind], "count", tone) for stage in further),
            ],
        )
        for kind, (label, tone) in _CHANGES.items()
    ]


def _latencies(stages: StageResults) -> list[Row]:
    latencies = stages.stage_latency.values()
    return [
        Row(
            f"this stage {percentile}",
            [Cell.of(getattr(latency, percentile, None), "seconds") for latency in latencies],
        )
        for percentile in ("p50", "p95")
    ]


def _lost(stages: StageResults) -> Iterator[Listing]:
    for stage, results in stages.items():
        lost, texts = stages.lost(stage), results.scores.queries
        queries = [
            QueryAnswers(change.query_id, texts.get(change.query_id, ""), remarks=[str(change)])
            for change in lost[:_LISTED_LOSSES]
        ]
        yield Listing.of(f"Lost by {stage}", queries, len(lost))
