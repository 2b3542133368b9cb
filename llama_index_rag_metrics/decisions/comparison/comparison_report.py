"""The report of a comparison: the decision, differences, means, slices; figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.decisions.comparison.comparison import Difference, Outcome
from llama_index_rag_metrics.evaluation.results.evaluation_results import curve_figures, system_of
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.drawing import short_names, without_prefix
from llama_index_rag_metrics.report.figure import Axis, Draw, Figure, Series
from llama_index_rag_metrics.report.numbers import (
    between,
    counted,
    digits_for,
    percent,
    questions,
    signed,
    span_of_bar,
)
from llama_index_rag_metrics.statistics.intervals import HasEnds
from llama_index_rag_metrics.stories import results_report
from llama_index_rag_metrics.stories.first_line import with_failures
from llama_index_rag_metrics.stories.label_view import System, best_first
from llama_index_rag_metrics.stories.results_report import queries_of

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.comparison.comparison import Comparison

_MOST_TABLES = 3
"""Up to this many other systems get a table each."""
_SLICES = "Slices"

_TONES: dict[Outcome, m.Tone] = {"better": "best", "worse": "alarm"}

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
    decision = with_failures(decisions(comparison), systems, primary)
    n = len(comparison.query_ids)
    return m.Report(
        title=title_of(comparison),
        lead=f"{questions(n)} compared on {counted(len(metrics), 'metric', 'metrics')}",
        decision=decision,
        further=[
            statement
            for metric in metrics
            if metric != primary or len(comparison.others) > _MOST_TABLES
            for statement in _statements(comparison, metric)
        ],
        about=results_report.about(systems),
        sections=_sections(comparison, systems),
        failures=results_report.failures(systems),
        notes=results_report.unsaid(_notes(comparison, systems), decision),
        glossary=results_report.glossary(metrics),
        metrics=metrics,
        primary=primary,
        figures=_figures(comparison, systems),
        queries=partial(queries_of, systems, metrics, compared=True),
        records=_records(comparison),
    )


def _sections(comparison: Comparison, systems: list[System]) -> list[m.Section]:
    names = comparison.names

    def interval_of(number: int, metric: str) -> Any:
        return comparison.means[names[number], metric]

    by_turn = results_report.slice_tables(systems, (), comparison.settings.primary)
    return [
        m.Section("Differences", list(_differences(comparison)), text=settings_of(comparison)),
        results_report.summary_section(
            systems,
            comparison.metric_names,
            interval_of,
            title="Means, questions, latency",
            place="detail",
            primary=comparison.settings.primary,
            digits={metric: _digits(comparison, metric) for metric in comparison.metric_names},
        ),
        m.Section(_SLICES, [*by_turn], aside=True),
    ]


def title_of(comparison: Comparison) -> str:
    """Such as "hybrid and lsa against bm25"."""
    short = short_names(comparison.names)
    others = results_report.listed([short[name] for name in comparison.others])
    return f"{others} against {results_report.listed([short[comparison.baseline]])}"


def decisions(comparison: Comparison) -> list[m.Statement]:
    """The decision by the primary metric, and the verdicts of a few systems that were measured."""
    verdicts = _statements(comparison, comparison.settings.primary)
    if len(comparison.others) < 2:
        return verdicts
    decision = m.Statement(comparison.decision)
    return [decision, *(verdicts if len(comparison.others) <= _MOST_TABLES else ())]


def _statements(comparison: Comparison, metric: str) -> list[m.Statement]:
    return [
        m.Statement(
            difference.verdict,
            _tone(difference),
            "the same" if difference.n > 1 and not difference.changed else difference.outcome,
        )
        for difference in comparison.measured
        if difference.metric == metric
    ]


def _tone(difference: Difference) -> m.Tone:
    return _TONES.get(difference.outcome, "normal")


def _interval(difference: HasEnds, changed: object, digits: int) -> m.Cell:
    """Empty where no question changed, as the sentence says."""
    if not changed:
        return m.Cell(None, "range")
    return m.Cell(None, "range", low=difference.low, high=difference.high, digits=digits)


def settings_of(comparison: Comparison) -> str:
    """How the numbers were made."""
    settings, n_systems = comparison.settings, len(comparison.names)
    are_others = len(comparison.others) * (len(comparison.metric_names) - 1) > 1
    made = f"{percent(settings.confidence)} confidence intervals decide."
    if n_systems > 2:
        made += f" They hold for all {n_systems:,} systems at once"
        apart = f": on {settings.primary} by itself, on the other metrics together"
        return f"{made}{apart if are_others else ''}."
    if are_others:
        made += f" On metrics other than {settings.primary} they hold for all of them at once."
    return made


def _notes(comparison: Comparison, systems: list[System]) -> list[str]:
    notes = results_report.gathered(
        (difference.note, f"{difference.metric} of {difference.system}")
        for difference in comparison
    )
    own = list(comparison.notes)
    return [*own, *notes, *(note for note in results_report.remarks(systems) if note not in own)]


def _differences(comparison: Comparison) -> Iterator[m.Table]:
    """One table a system, the primary metric first; of many systems one table a metric."""
    others, primary = comparison.others, comparison.settings.primary
    secondary = [metric for metric in comparison.metric_names if metric != primary]
    if len(others) > _MOST_TABLES:
        prefix, short = without_prefix(comparison.names)
        for metric in (primary, *secondary):
            rows = [
                _difference_row(
                    short[number], comparison[name, metric], _digits(comparison, metric)
                )
                for number, name in _in_order(comparison, metric)
            ]
            yield m.Table(
                f"{metric} against {short_names(comparison.names)[comparison.baseline]}",
                ["baseline", *_difference_head(comparison, "system")[1:]],
                [rows],
                first=f"{prefix}…" if prefix else "system",
                system_rows=True,
                place="summary" if metric == primary else "detail",
            )
        return
    for name in others:
        parts = [
            [
                _difference_row(metric, comparison[name, metric], _digits(comparison, metric))
                for metric in metrics
            ]
            for metrics in ([primary], secondary)
            if metrics
        ]
        title = f"{name} against {comparison.baseline}"
        yield m.Table(title, _difference_head(comparison, name), parts)


def _difference_head(comparison: Comparison, name: str) -> list[str]:
    interval = f"{percent(comparison.settings.confidence)} interval"
    numbers = ["difference", interval, "better / same / worse"]
    return [comparison.baseline, name, *numbers]


def _digits(comparison: Comparison, metric: str) -> int:
    """Those of all differences on a metric, so that its means stand in columns."""
    return max(digits_for(each.n, each) for each in comparison if each.metric == metric)


def _difference_row(label: str, difference: Difference, digits: int) -> m.Row:
    if not difference.n:
        return m.Row(label, [m.Cell(None, tone="quiet")] * 5)
    tone = _tone(difference)
    return m.Row(
        label,
        [
            m.Cell(difference.baseline_mean, "score", digits=digits),
            m.Cell(difference.mean, "score", digits=digits),
            m.Cell(difference.difference, "signed", tone, digits=digits),
            _interval(difference, difference.changed, digits),
            m.Cell((difference.wins, difference.ties, difference.losses), "tally"),
        ],
    )


def _records(comparison: Comparison) -> m.Records:
    """One row a difference."""
    return m.Records.of(
        [asdict(difference) for difference in comparison],
        [field.name for field in fields(Difference)],
    )


def _figures(comparison: Comparison, systems: list[System]) -> dict[str, Draw]:
    def interval_of(number: int, metric: str) -> Any:
        return comparison.means[comparison.names[number], metric]

    def chosen(name: str | None) -> Sequence[str]:
        return comparison.metric_names if name is None else [name]

    return {
        "means": lambda name: results_report.means_figure(
            systems, chosen(name), interval_of, compared=True
        ),
        "differences": lambda name: _difference_figure(comparison, chosen(name)),
        "distribution": lambda name: _distribution_figure(
            comparison, name or comparison.settings.primary
        ),
        **curve_figures(systems, comparison.query_ids),
    }


def _difference_figure(comparison: Comparison, metrics: Sequence[str]) -> Figure:
    """Each system's differences from the baseline; hollow where the interval holds 0."""
    series = []
    for number, name in _in_order(comparison, metrics[0]):
        known = [each for metric in metrics if (each := comparison[name, metric]).n]
        series.append(
            Series(
                name,
                number,
                [difference.difference for difference in known],
                [difference.metric for difference in known],
                [difference.low for difference in known],
                [difference.high for difference in known],
                list(map(_pointed_at, known)),
                [_tone(difference) == "normal" for difference in known],
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
        zero_line=True,
    )


def _pointed_at(difference: Difference) -> str:
    ends = between(difference.low, difference.high)
    return f"{difference.metric}: {signed(difference.difference)} ({ends})"


def _distribution_figure(comparison: Comparison, metric: str) -> Figure:
    """How many queries changed by how much; of many systems the median, quartiles and ends."""
    columns = {name: comparison.by_query(name, metric) for name in comparison.others}
    axis = Axis(f"{metric}, system minus {comparison.baseline}")
    if len(columns) > _MOST_BARS:
        boxes = [
            _box(name, number, [*columns[name].values()])
            for number, name in _in_order(comparison, metric)
            if columns[name]
        ]
        return Figure("boxes", axis, Axis(), boxes, zero_line=True)
    changes = [abs(value) for column in columns.values() for value in column.values()]
    widest = max(changes, default=0.0) or 1.0
    edges = np.linspace(-widest, widest, _BINS + 1)
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    spans = [span_of_bar(*ends) for ends in pairwise(edges.tolist())]
    series = []
    for number, (name, column) in enumerate(columns.items(), 1):
        changed = {query_id: value for query_id, value in column.items() if value}
        bars = np.minimum(np.searchsorted(edges, [*changed.values()], "right") - 1, _BINS - 1)
        members: list[list[str]] = [[] for _ in range(_BINS)]
        for query_id, bar in zip(changed, bars.tolist(), strict=True):
            members[bar].append(query_id)
        label = f"{name} ({len(column) - len(changed)} the same)"
        counts = list(map(len, members))
        remarks = [
            f"{name} minus {comparison.baseline} on {metric}, {span}: {questions(n)}"
            for span, n in zip(spans, counts, strict=True)
        ]
        series.append(Series(label, number, middles, counts, remarks=remarks, members=members))
    return Figure("bars", axis, Axis("questions", is_count=True), series, zero_line=True)


def _box(name: str, number: int, changes: Sequence[float]) -> Series:
    ends = np.quantile(changes, _BOX).tolist()
    low, first, median, third, high = map(signed, ends)
    remark = f"median {median}, half from {first} to {third}, 9 in 10 from {low} to {high}"
    return Series(name, number, ends, [], remarks=[remark])


def _in_order(comparison: Comparison, metric: str) -> list[tuple[int, str]]:
    """The other systems with their positions; of many the best comes first."""
    means = [comparison.means[name, metric].mean for name in comparison.names]
    return [(number, comparison.names[number]) for number in best_first(means, metric) if number]
