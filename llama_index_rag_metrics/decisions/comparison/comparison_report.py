"""The report of a comparison: the decision, differences, means, slices, pairs, holes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.decisions.calibration_report import EXPLAINED as CALIBRATED
from llama_index_rag_metrics.decisions.calibration_report import calibration_table
from llama_index_rag_metrics.decisions.comparison.comparison_figures import (
    difference_figure,
    distribution_figure,
)
from llama_index_rag_metrics.decisions.comparison.difference import Difference
from llama_index_rag_metrics.decisions.comparison.holes import EXPLAINED, hole_tables
from llama_index_rag_metrics.evaluation.results.curve_figures import curve_figures
from llama_index_rag_metrics.evaluation.results.results_report import system_of
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import (
    Cell,
    Records,
    Report,
    Row,
    Section,
    Statement,
    Table,
    Tone,
)
from llama_index_rag_metrics.report.figure import Draw
from llama_index_rag_metrics.report.numbers import counted, percent
from llama_index_rag_metrics.scores.scores_report import (
    about,
    failures,
    gathered,
    glossary,
    latency_figure,
    listed,
    means_figure,
    queries_of,
    remarks,
    summary_section,
)
from llama_index_rag_metrics.scores.systems import System

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.comparison.comparison import Comparison

_CORRECTIONS = {
    "max-t": "max-t",
    "holm": "Holm",
    "benjamini-hochberg": "Benjamini–Hochberg",
}
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
"""Of this many other systems each has a table of its own."""

_LABELS: dict[Tone, str] = {"best": "better", "alarm": "worse", "normal": "undecided"}


def comparison_report(comparison: Comparison) -> Report:
    systems = systems_of(comparison)
    metrics = list(comparison.metric_names)
    primary = comparison.settings.primary
    n = len(comparison.query_ids)
    return Report(
        title=title_of(comparison),
        lead=f"{counted(n)} compared by {counted(len(metrics), 'metric', 'metrics')}",
        decision=decisions(comparison),
        further=[
            statement
            for metric in metrics
            if metric != primary or len(comparison.others) > _MOST_TABLES
            for statement in statements(comparison, metric)
        ],
        about=about(systems),
        sections=_sections(comparison, systems),
        failures=failures(systems),
        notes=remarks_of(comparison, systems),
        glossary=glossary(metrics),
        metrics=metrics,
        primary=primary,
        figures=_figures(comparison, systems),
        queries=partial(queries_of, systems, metrics, compared=True),
        records=_records(comparison),
    )


def _sections(comparison: Comparison, systems: list[System]) -> list[Section]:
    calibrations, primary = comparison.calibrations, comparison.settings.primary

    def peoples_interval_of(number: int, metric: str) -> Any:
        name = comparison.names[number]
        if name in calibrations:
            return calibrations[name][metric].human
        return comparison.means[name, metric]

    summary = f"{'Means by people alone' if calibrations else 'Means'}, queries, latency"
    return [
        Section("Differences", list(_differences(comparison)), text=settings_of(comparison)),
        summary_section(
            systems, comparison.metric_names, peoples_interval_of, title=summary, place="detail"
        ),
        *_optional(
            "Human and judged questions",
            [
                calibration_table(f"{name}: human and judged questions", calibration.metrics)
                for name, calibration in calibrations.items()
            ],
            text=CALIBRATED,
        ),
        *_optional("Slices", list(_slices(comparison, primary)), aside=True),
        *_optional("Pairs", list(_pairs(comparison, primary)), text=_ALL_PAIRS, aside=True),
        *_optional(
            "Unjudged items",
            hole_tables(comparison.holes),
            text=EXPLAINED,
            aside=True,
            folded=True,
        ),
    ]


def _figures(comparison: Comparison, systems: list[System]) -> dict[str, Draw]:
    def interval_of(number: int, metric: str) -> Any:
        return comparison.means[comparison.names[number], metric]

    def chosen(name: str | None) -> Sequence[str]:
        return comparison.metric_names if name is None else [name]

    return {
        "means": lambda name: means_figure(systems, chosen(name), interval_of),
        "differences": lambda name: difference_figure(comparison, chosen(name)),
        "distribution": lambda name: distribution_figure(
            comparison, name or comparison.settings.primary
        ),
        **curve_figures(systems, comparison.query_ids),
        "latency": lambda _: latency_figure(systems),
    }


def systems_of(comparison: Comparison) -> list[System]:
    systems = []
    for name in comparison.names:
        results = comparison.results[name]
        systems.append(system_of(comparison.systems[name] if results is None else results, name))
    return systems


def title_of(comparison: Comparison) -> str:
    """Such as "hybrid and lsa against bm25"."""
    return f"{listed(comparison.others)} against {listed([comparison.baseline])}"


def decisions(comparison: Comparison) -> list[Statement]:
    """What it comes to by the primary metric, and where there are several systems, for each."""
    decision = statements(comparison, comparison.settings.primary)
    if len(decision) == 1:
        return decision
    return [Statement(comparison.decision), *(decision if len(decision) <= _MOST_TABLES else ())]


def statements(comparison: Comparison, metric: str) -> list[Statement]:
    """Of each other system, by one metric: the verdict."""
    return [
        Statement(difference.verdict, tone(difference), _LABELS[tone(difference)])
        for difference in comparison
        if difference.metric == metric
    ]


def tone(difference: Difference) -> Tone:
    if not difference.significant:
        return "normal"
    return "best" if difference.gain > 0 else "alarm"


def settings_of(comparison: Comparison) -> str:
    """How the numbers were made, in one sentence."""
    made = comparison.settings
    if made.correction == "none":
        corrected = "not corrected for their number"
    else:
        corrected = (
            f"corrected ({_CORRECTIONS[made.correction]}) for the systems compared by "
            f"{made.primary}, the primary metric"
        )
        if len(comparison.metric_names) > 1:
            corrected += ", and separately for all other metrics"
    return (
        f"{percent(made.confidence)} intervals with pseudo-queries; p of the {_TESTS[made.test]}, "
        f"two-sided, {corrected}; seed {made.seed}."
    )


def remarks_of(comparison: Comparison, systems: list[System]) -> list[str]:
    notes = gathered(
        (difference.note, f"{difference.metric} of {difference.system}")
        for difference in comparison
    )
    own = list(comparison.notes)
    return [*own, *notes, *(note for note in remarks(systems) if note not in own)]


def _optional(heading: str, tables: list[Table], text: str = "", **options: Any) -> list[Section]:
    return [Section(heading, tables, text, **options)] if tables else []


def _differences(comparison: Comparison) -> Iterator[Table]:
    """One table a system, the primary metric first; of many systems one table a metric."""
    others, primary = comparison.others, comparison.settings.primary
    secondary = [metric for metric in comparison.metric_names if metric != primary]
    if len(others) > _MOST_TABLES:
        for metric in (primary, *secondary):
            rows = [_difference_row(name, comparison[name, metric]) for name in others]
            yield Table(
                f"{metric} against {comparison.baseline}",
                _difference_head(comparison, "system"),
                [rows],
                first="system",
                place="summary" if metric == primary else "detail",
            )
        return
    for name in others:
        groups = [
            [_difference_row(metric, comparison[name, metric]) for metric in metrics]
            for metrics in ([primary], secondary)
            if metrics
        ]
        title = f"{name} against {comparison.baseline}"
        yield Table(title, _difference_head(comparison, name), groups)


def _slices(comparison: Comparison, metric: str) -> Iterator[Table]:
    key = str(comparison.settings.slices)
    for name in comparison.others if comparison.slices else ():
        rows = []
        for value, part in comparison.slices.items():
            label = "without" if value is None else str(value)
            rows.append(_difference_row(f"{label} ({part[name, metric].n})", part[name, metric]))
        yield Table(
            f"{metric} of {name} by {key}",
            _difference_head(comparison, name),
            [rows],
            first=key,
            place="detail",
        )


def _pairs(comparison: Comparison, metric: str) -> Iterator[Table]:
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    if not pairs:
        return
    names, alpha = comparison.names, comparison.settings.alpha
    lower = lower_is_better(metric)
    cells = {}
    for pair in pairs:
        for system, other, difference in (
            (pair.system, pair.other, pair.difference),
            (pair.other, pair.system, -pair.difference),
        ):
            won: Tone = "best" if (difference > 0) != lower else "alarm"
            look: Tone = won if pair.p <= alpha else "normal"
            cells[system, other] = Cell(difference, "signed", look)
    yield Table(
        f"Who beats whom by {metric}",
        names,
        [
            [
                Row(name, [cells.get((name, other), Cell(None, tone="quiet")) for other in names])
                for name in names
            ]
        ],
        first="row minus column",
        place="page",
    )
    yield Table(
        f"All pairs by {metric} (max-t)",
        ["difference", f"{percent(comparison.settings.confidence)} interval", "p"],
        [
            [
                Row(
                    f"{pair.system} − {pair.other}",
                    [
                        Cell(pair.difference, "signed"),
                        Cell(None, "range", low=pair.low, high=pair.high),
                        Cell(pair.p, "p", "best" if pair.p <= alpha else "normal"),
                    ],
                )
                for pair in pairs
            ]
        ],
        first="pair",
        place="detail",
    )


def _difference_head(comparison: Comparison, name: str) -> list[str]:
    corrected = "p" if comparison.settings.correction == "none" else "corrected p"
    return [
        comparison.baseline,
        name,
        "difference",
        f"{percent(comparison.settings.confidence)} interval",
        corrected,
        "better / same / worse",
        "effect size",
    ]


def _difference_row(label: str, difference: Difference) -> Row:
    if not difference.n:
        return Row(label, [Cell(None, tone="quiet")] * 7)
    look = tone(difference)
    return Row(
        label,
        [
            Cell(difference.baseline_mean, "score"),
            Cell(difference.mean, "score"),
            Cell(difference.difference, "signed", look),
            Cell(None, "range", low=difference.low, high=difference.high),
            Cell(difference.p_corrected, "p", look),
            Cell((difference.wins, difference.ties, difference.losses), "tally"),
            Cell(difference.effect_size, "effect"),
        ],
    )


def _records(comparison: Comparison) -> Records:
    """One row a difference; with slices, a column `slice`, None for all queries."""
    parts = [(None, comparison), *comparison.slices.items()]
    rows = [(value, asdict(difference)) for value, part in parts for difference in part]
    sliced = {"slice": [value for value, _ in rows]} if comparison.slices else {}
    columns = {field.name: [row[field.name] for _, row in rows] for field in fields(Difference)}
    return Records({**sliced, **columns})
