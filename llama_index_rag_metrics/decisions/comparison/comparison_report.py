"""The report of a comparison: the decision, differences, means, slices, pairs, holes; figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.decisions.calibration import EXPLAINED as CALIBRATED
from llama_index_rag_metrics.decisions.calibration import calibration_table
from llama_index_rag_metrics.decisions.comparison.difference import Difference
from llama_index_rag_metrics.decisions.comparison.holes import EXPLAINED, hole_tables
from llama_index_rag_metrics.evaluation.results.curves import curve_figures
from llama_index_rag_metrics.evaluation.results.results_report import system_of
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.figure import Axis, Draw, Figure, Series
from llama_index_rag_metrics.report.numbers import counted, hover, p_value, percent, span_of_bar
from llama_index_rag_metrics.scores import scores_report
from llama_index_rag_metrics.scores.systems import System

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.comparison.comparison import Comparison

_CORRECTIONS = {"max-t": "max-t", "holm": "Holm", "benjamini-hochberg": "Benjamini–Hochberg"}
_TESTS = {
    "randomisation": "randomisation test",
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon's signed-rank test",
}
_ALL_PAIRS = (
    "Every pair with all pairs in mind: a stricter question than whether one system differs from "
    "the baseline, or is the best."
)

_MOST_TABLES = 3
"""Up to this many other systems get a table each."""

_LABELS: dict[m.Tone, str] = {"best": "better", "alarm": "worse", "normal": "undecided"}

_BINS = 31
_MOST_BARS = 3
_BOX = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles that a box shows of a system's differences: 9 in 10 are between its ends."""


def comparison_report(comparison: Comparison) -> m.Report:
    systems = [
        system_of(comparison.systems[name] if results is None else results, name)
        for name in comparison.names
        for results in [comparison.results[name]]
    ]
    metrics, primary = list(comparison.metric_names), comparison.settings.primary
    n = len(comparison.query_ids)
    return m.Report(
        title=title_of(comparison),
        lead=f"{counted(n)} compared by {counted(len(metrics), 'metric', 'metrics')}",
        decision=decisions(comparison),
        further=[
            statement
            for metric in metrics
            if metric != primary or len(comparison.others) > _MOST_TABLES
            for statement in _statements(comparison, metric)
        ],
        about=scores_report.about(systems),
        sections=_sections(comparison, systems),
        failures=scores_report.failures(systems),
        notes=_notes(comparison, systems),
        glossary=scores_report.glossary(metrics),
        metrics=metrics,
        primary=primary,
        figures=_figures(comparison, systems),
        queries=partial(scores_report.queries_of, systems, metrics, compared=True),
        records=_records(comparison),
    )


def _sections(comparison: Comparison, systems: list[System]) -> list[m.Section]:
    calibrations, names = comparison.calibrations, comparison.names

    def peoples_interval_of(number: int, metric: str) -> Any:
        if names[number] in calibrations:
            return calibrations[names[number]][metric].human
        return comparison.means[names[number], metric]

    calibrated = [
        calibration_table(f"{name}: human and judged questions", calibration.metrics)
        for name, calibration in calibrations.items()
    ]
    holes = hole_tables(comparison.holes)
    return [
        m.Section("Differences", list(_differences(comparison)), text=settings_of(comparison)),
        scores_report.summary_section(
            systems,
            comparison.metric_names,
            peoples_interval_of,
            title=f"{'Means by people alone' if calibrations else 'Means'}, queries, latency",
            place="detail",
        ),
        m.Section("Human and judged questions", calibrated, CALIBRATED),
        m.Section("Slices", list(_slices(comparison)), aside=True),
        m.Section("Pairs", list(_pairs(comparison)), _ALL_PAIRS, aside=True),
        m.Section("Unjudged items", holes, EXPLAINED, aside=True, folded=True),
    ]


def title_of(comparison: Comparison) -> str:
    """Such as "hybrid and lsa against bm25"."""
    others, baseline = comparison.others, [comparison.baseline]
    return f"{scores_report.listed(others)} against {scores_report.listed(baseline)}"


def decisions(comparison: Comparison) -> list[m.Statement]:
    """The decision by the primary metric, and the verdicts of a few systems."""
    verdicts = _statements(comparison, comparison.settings.primary)
    if len(verdicts) == 1:
        return verdicts
    decision = m.Statement(comparison.decision)
    return [decision, *(verdicts if len(verdicts) <= _MOST_TABLES else ())]


def _statements(comparison: Comparison, metric: str) -> list[m.Statement]:
    return [
        m.Statement(difference.verdict, _tone(difference), _LABELS[_tone(difference)])
        for difference in comparison
        if difference.metric == metric
    ]


def _tone(difference: Difference) -> m.Tone:
    if not difference.significant:
        return "normal"
    return "best" if difference.gain > 0 else "alarm"


def settings_of(comparison: Comparison) -> str:
    """How the numbers were made, in one sentence."""
    settings = comparison.settings
    if settings.correction == "none":
        corrected = "not corrected for their number"
    else:
        corrected = (
            f"corrected ({_CORRECTIONS[settings.correction]}) for the systems compared by "
            f"{settings.primary}, the primary metric"
        )
        if len(comparison.metric_names) > 1:
            corrected += ", and separately for all other metrics"
    return (
        f"{percent(settings.confidence)} intervals with pseudo-queries; p of the "
        f"{_TESTS[settings.test]}, two-sided, {corrected}; seed {settings.seed}."
    )


def _notes(comparison: Comparison, systems: list[System]) -> list[str]:
    notes = scores_report.gathered(
        (difference.note, f"{difference.metric} of {difference.system}")
        for difference in comparison
    )
    own = list(comparison.notes)
    return [*own, *notes, *(note for note in scores_report.remarks(systems) if note not in own)]


def _differences(comparison: Comparison) -> Iterator[m.Table]:
    """One table a system, the primary metric first; of many systems one table a metric."""
    others, primary = comparison.others, comparison.settings.primary
    secondary = [metric for metric in comparison.metric_names if metric != primary]
    if len(others) > _MOST_TABLES:
        for metric in (primary, *secondary):
            yield m.Table(
                f"{metric} against {comparison.baseline}",
                _difference_head(comparison, "system"),
                [[_difference_row(name, comparison[name, metric]) for name in others]],
                first="system",
                place="summary" if metric == primary else "detail",
            )
        return
    for name in others:
        parts = [
            [_difference_row(metric, comparison[name, metric]) for metric in metrics]
            for metrics in ([primary], secondary)
            if metrics
        ]
        title = f"{name} against {comparison.baseline}"
        yield m.Table(title, _difference_head(comparison, name), parts)


def _slices(comparison: Comparison) -> Iterator[m.Table]:
    key, metric = str(comparison.settings.slices), comparison.settings.primary
    for name in comparison.others if comparison.slices else ():
        rows = []
        for value, part in comparison.slices.items():
            label = "without" if value is None else str(value)
            rows.append(_difference_row(f"{label} ({part[name, metric].n})", part[name, metric]))
        head, title = _difference_head(comparison, name), f"{metric} of {name} by {key}"
        yield m.Table(title, head, [rows], first=key, place="detail")


def _pairs(comparison: Comparison) -> Iterator[m.Table]:
    metric, alpha = comparison.settings.primary, comparison.settings.alpha
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    if not pairs:
        return
    names, sign = comparison.names, -1.0 if lower_is_better(metric) else 1.0
    cells, rows = {}, []
    for pair in pairs:
        key, difference, is_shown = (pair.system, pair.other), pair.difference, pair.p <= alpha
        for both, lead in ((key, difference), (key[::-1], -difference)):
            won: m.Tone = "best" if sign * lead > 0 else "alarm"
            cells[both] = m.Cell(lead, "signed", won if is_shown else "normal")
        numbers = [
            m.Cell(difference, "signed"),
            m.Cell(None, "range", low=pair.low, high=pair.high),
            m.Cell(pair.p, "p", "best" if is_shown else "normal"),
        ]
        rows.append(m.Row(f"{pair.system} − {pair.other}", numbers))
    none = m.Cell(None, tone="quiet")
    square = [m.Row(name, [cells.get((name, other), none) for other in names]) for name in names]
    interval = f"{percent(comparison.settings.confidence)} interval"
    yield m.Table(
        f"Who beats whom by {metric}", names, [square], first="row minus column", place="page"
    )
    yield m.Table(
        f"All pairs by {metric} (max-t)",
        ["difference", interval, "p"],
        [rows],
        first="pair",
        place="detail",
    )


def _difference_head(comparison: Comparison, name: str) -> list[str]:
    corrected = "p" if comparison.settings.correction == "none" else "corrected p"
    interval = f"{percent(comparison.settings.confidence)} interval"
    numbers = ["difference", interval, corrected, "better / same / worse", "effect size"]
    return [comparison.baseline, name, *numbers]


def _difference_row(label: str, difference: Difference) -> m.Row:
    if not difference.n:
        return m.Row(label, [m.Cell(None, tone="quiet")] * 7)
    tone = _tone(difference)
    return m.Row(
        label,
        [
            m.Cell(difference.baseline_mean, "score"),
            m.Cell(difference.mean, "score"),
            m.Cell(difference.difference, "signed", tone),
            m.Cell(None, "range", low=difference.low, high=difference.high),
            m.Cell(difference.p_corrected, "p", tone),
            m.Cell((difference.wins, difference.ties, difference.losses), "tally"),
            m.Cell(difference.effect_size, "effect"),
        ],
    )


def _records(comparison: Comparison) -> m.Records:
    """One row a difference; with slices, a column `slice`, None for all queries."""
    parts = [(None, comparison), *comparison.slices.items()]
    rows = [{"slice": value, **asdict(difference)} for value, part in parts for difference in part]
    columns = [field.name for field in fields(Difference)]
    return m.Records.of(rows, ["slice", *columns] if comparison.slices else columns)


def _figures(comparison: Comparison, systems: list[System]) -> dict[str, Draw]:
    def interval_of(number: int, metric: str) -> Any:
        return comparison.means[comparison.names[number], metric]

    def chosen(name: str | None) -> Sequence[str]:
        return comparison.metric_names if name is None else [name]

    return {
        "means": lambda name: scores_report.means_figure(systems, chosen(name), interval_of),
        "differences": lambda name: _difference_figure(comparison, chosen(name)),
        "distribution": lambda name: _distribution_figure(
            comparison, name or comparison.settings.primary
        ),
        **curve_figures(systems, comparison.query_ids),
        "latency": lambda _: scores_report.latency_figure(systems),
    }


def _difference_figure(comparison: Comparison, metrics: Sequence[str]) -> Figure:
    """Each system's differences from the baseline; hollow where they aren't significant."""
    series = []
    for number, name in enumerate(comparison.others, 1):
        known = [each for metric in metrics if (each := comparison[name, metric]).n]
        series.append(
            Series(
                name,
                number,
                [difference.difference for difference in known],
                [difference.metric for difference in known],
                [difference.low for difference in known],
                [difference.high for difference in known],
                [f"corrected p {p_value(difference.p_corrected)}" for difference in known],
                [not difference.significant for difference in known],
            )
        )
    shown = [each for each in comparison if each.metric in metrics]
    ends = [*filter(None, chain(*((each.low, each.difference, each.high) for each in shown)))]
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = 0.06 * (high - low) or 0.1
    return Figure(
        "points",
        Axis(f"difference from {comparison.baseline}", ends=(low - room, high + room)),
        Axis(),
        series,
        f"%{{y}}: {hover('x', 'signed')} %{{customdata}}",
        zero_line=True,
    )


def _distribution_figure(comparison: Comparison, metric: str) -> Figure:
    """How many queries changed by how much; of many systems the median, quartiles and ends."""
    columns = {name: list(comparison.by_query(name, metric).values()) for name in comparison.others}
    axis = Axis(f"{metric}, system minus {comparison.baseline}")
    if len(columns) > _MOST_BARS:
        boxes = [
            Series(name, number, np.quantile(column, _BOX).tolist(), [])
            for number, (name, column) in enumerate(columns.items(), 1)
            if column
        ]
        return Figure("boxes", axis, Axis(), boxes, "", zero_line=True)
    changes = [abs(value) for column in columns.values() for value in column]
    widest = max(changes, default=0.0) or 1.0
    edges = np.linspace(-widest, widest, _BINS + 1)
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    remarks = [span_of_bar(*ends) for ends in pairwise(edges.tolist())]
    series = []
    for number, (name, column) in enumerate(columns.items(), 1):
        counts, _ = np.histogram([value for value in column if value], edges)
        label = f"{name} ({column.count(0.0)} the same)"
        series.append(Series(label, number, middles, counts.tolist(), remarks=remarks))
    hovered = "%{customdata}: %{y} queries"
    return Figure("bars", axis, Axis("queries"), series, hovered, zero_line=True)
