"""The report of calibrated scores: people's, the judge's and the calibrated means side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from llama_index_rag_metrics.decisions.calibration import Calibrated, Calibration
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import digits_of, mean_of, percent
from llama_index_rag_metrics.scores.scores_report import glossary

EXPLAINED = (
    "Calibrated means use the judge only as far as people's scores of the same questions confirm "
    "it (prediction-powered inference). Worth: how many questions scored by people would be as "
    "precise, which goes by the correlation of both sides' scores of a question. The judge's own "
    "mean is shown for comparison; it isn't evidence."
)
_HEAD = ("calibrated", "people alone", "judge alone", "worth", "correlation")


def calibration_report(calibration: Calibration) -> m.Report:
    metrics = [*calibration]
    name = f" of {calibration.name}" if calibration.name else ""
    most = max(metrics, key=lambda metric: metric.n_judged)
    intervals = f"{percent(calibration.confidence)} intervals"
    tables = [calibration_table("", calibration.metrics)]
    tables += [
        calibration_table(f"{calibration.slice_key}: {'without' if value is None else value}", part)
        for value, part in calibration.slices.items()
    ]
    return m.Report(
        title=f"Calibrated scores{name}",
        lead=f"{most.n_human:,} human and {most.n_judged:,} judged questions",
        decision=[
            m.Statement(metric.sentence, "best" if metric.helps else "open") for metric in metrics
        ],
        sections=[m.Section("Calibrated means", tables, f"{intervals}. {EXPLAINED}")],
        notes=calibration.notes,
        glossary=glossary(calibration.metrics),
        metrics=[*calibration.metrics],
        records=_records(calibration),
    )


def calibration_table(title: str, metrics: Mapping[str, Calibrated]) -> m.Table:
    return m.Table(title, _HEAD, [[_row(metric) for metric in metrics.values()]])


def _row(metric: Calibrated) -> m.Row:
    human = metric.human
    return m.Row(
        metric.metric,
        [
            _mean(metric.mean, metric.n_human, metric.low, metric.high),
            _mean(human.mean, metric.n_human, human.low, human.high),
            _mean(metric.judge_mean, metric.n_human)._replace(tone="quiet"),
            m.Cell(math.floor(metric.worth), "count", "best" if metric.helps else "quiet"),
            m.Cell(metric.correlation, "signed", "quiet", digits=digits_of(metric.n_human)),
        ],
    )


def _mean(value: float, n: int, low: float | None = None, high: float | None = None) -> m.Cell:
    known = None if math.isnan(value) else value
    return mean_of(m.Cell(known, "score", low=low, high=high), n)


def _records(calibration: Calibration) -> m.Records:
    """One row a metric; with slices, one a slice and metric, None for all questions."""
    parts = [(None, calibration.metrics), *calibration.slices.items()]
    rows = [{"slice": value, **_flat(metric)} for value, part in parts for metric in part.values()]
    return m.Records.of(rows, [name for name in rows[0] if name != "slice" or calibration.slices])


def _flat(metric: Calibrated) -> dict[str, Any]:
    """The numbers of people alone under names of their own."""
    row: dict[str, Any] = asdict(metric)
    human = row.pop("human")
    return {**row, **{f"human_{part}": human[part] for part in ("mean", "low", "high")}}
