"""The stages of a pipeline, rounded: the rows that go below the means of each."""

from __future__ import annotations

from collections import Counter

from llama_index_rag_metrics.evaluation import StageResults
from llama_index_rag_metrics.evaluation.stages import Change
from llama_index_rag_metrics.report.summary import (
    NO_VALUE,
    Cell,
    Row,
    System,
    Tone,
    plain,
    system_of,
    time_cell,
)

_CHANGES: dict[Change, tuple[str, Tone]] = {
    "gained": ("relevant, brought in", "normal"),
    "lost": ("relevant, dropped", "alarm"),
    "raised": ("relevant, moved up", "normal"),
    "lowered": ("relevant, moved down", "normal"),
}


def stage_systems(stages: StageResults) -> list[System]:
    """The stages as the systems of a report."""
    return [system_of(plain(stage), results) for stage, results in stages.items()]


def stage_rows(stages: StageResults) -> list[list[Row]]:
    """What each stage did to the relevant items, and how long it took alone."""
    counts = Counter((one.stage, one.kind) for one in stages.changes)
    further = list(stages)[1:]
    changes = [
        Row(
            label,
            [
                Cell(NO_VALUE, "quiet"),
                *(_count(counts[stage, kind], tone) for stage in further),
            ],
        )
        for kind, (label, tone) in _CHANGES.items()
    ]
    latencies = [
        Row(
            f"this stage {percentile}",
            [
                time_cell(None if one is None else getattr(one, percentile))
                for one in stages.stage_latency.values()
            ],
        )
        for percentile in ("p50", "p95")
    ]
    return [changes, latencies]


def _count(count: int, tone: Tone) -> Cell:
    return Cell(f"{count:,}", tone if count else "quiet")
