"""The report of a calibration: people's, the judge's and the calibrated means, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.report import Cell, Records, Report, Row, Section, Statement, Table
from llama_index_rag_metrics.report.numbers import percent
from llama_index_rag_metrics.scores.scores_report import glossary
from llama_index_rag_metrics.statistics.kappa import Kappa

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.calibration import Calibrated, Calibration

EXPLAINED = (
    "Calibrated means take from the judge only what people's scores of the same questions bear out "
    "(prediction-powered inference). Worth: how many questions scored by people would tell as "
    "much. The judge's own mean is shown to be told apart; it isn't evidence."
)
_HEAD = ("calibrated", "people alone", "judge alone", "worth", "kappa", "weighted kappa")


def calibration_report(calibration: Calibration) -> Report:
    metrics = [*calibration]
    name = f" of {calibration.name}" if calibration.name else ""
    most = max(metrics, key=lambda metric: metric.n_judged)
    intervals = f"{percent(calibration.confidence)} intervals"
    tables = [calibration_table("", calibration.metrics)]
    tables += [
        calibration_table(f"{calibration.slice_key}: {'without' if value is None else value}", part)
        for value, part in calibration.slices.items()
    ]
    return Report(
        title=f"Calibrated scores{name}",
        lead=f"{most.n_human:,} human and {most.n_judged:,} judged questions",
        decision=[
            Statement(metric.sentence, "best" if metric.helps else "open") for metric in metrics
        ],
        sections=[Section("Calibrated means", tables, f"{intervals}. {EXPLAINED}")],
        notes=calibration.notes,
        glossary=glossary(calibration.metrics),
        metrics=[*calibration.metrics],
        records=_records(calibration),
    )


def calibration_table(title: str, metrics: Mapping[str, Calibrated]) -> Table:
    return Table(title, _HEAD, [[_row(metric) for metric in metrics.values()]])


def _row(metric: Calibrated) -> Row:
    human = metric.human
    return Row(
        metric.metric,
        [
            Cell(_known(metric.mean), "score", low=metric.low, high=metric.high),
            Cell(_known(human.mean), "score", low=human.low, high=human.high),
            Cell(_known(metric.judge_mean), "score", "quiet"),
            Cell(math.floor(metric.worth), "count", "best" if metric.helps else "quiet"),
            _kappa(metric.kappa),
            _kappa(metric.weighted_kappa),
        ],
    )


def _kappa(kappa: Kappa | None) -> Cell:
    if kappa is None or math.isnan(kappa.kappa):
        return Cell(None, tone="quiet")
    return Cell(kappa.kappa, "score", low=kappa.low, high=kappa.high)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _records(calibration: Calibration) -> Records:
    """One row a metric; with slices, one a slice and metric, None for all questions."""
    parts = [(None, calibration.metrics), *calibration.slices.items()]
    rows = [{"slice": value, **_flat(metric)} for value, part in parts for metric in part.values()]
    return Records.of(rows, [name for name in rows[0] if name != "slice" or calibration.slices])


def _flat(metric: Calibrated) -> dict[str, Any]:
    """The numbers of nested results under names of their own."""
    row: dict[str, Any] = {}
    for key, value in asdict(metric).items():
        if key not in ("human", "kappa", "weighted_kappa"):
            row[key] = value
            continue
        for part in ("mean" if key == "human" else "kappa", "low", "high"):
            name = key if part == "kappa" else f"{key}_{part}"
            row[name] = None if value is None else value[part]
    return row
