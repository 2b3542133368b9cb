"""The report of a sweep: the decision, and a row for each configuration; figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.decisions.sweeps.grid import varied
from llama_index_rag_metrics.evaluation.results.results_report import system_of
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.model import (
    Cell,
    Records,
    Report,
    Row,
    Section,
    Statement,
    Table,
)
from llama_index_rag_metrics.report.numbers import counted, hover, percent, score, seconds
from llama_index_rag_metrics.scores.scores_report import about, failures, glossary, remarks
from llama_index_rag_metrics.scores.systems import System

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.sweeps.sweep_result import Configuration, Sweep

_MOST_LISTED = 10


def sweep_report(sweep: Sweep) -> Report:
    systems = [
        system_of(configuration.results, configuration.name)
        for configuration in sweep
        if configuration.results is not None
    ]
    n = max((system.scores.counts.scored for system in systems), default=0)
    notes = list(remarks(systems)) if systems else []
    if not sweep.is_timed:
        untimed = "several configurations were evaluated at once, so that latencies aren't compared"
        notes.insert(0, untimed)
    return Report(
        title=f"Sweep over {', '.join(_parameters(sweep)) or 'one configuration'}",
        lead=f"{counted(len(sweep), 'configuration', 'configurations')}, "
        f"{counted(n)} scored by {counted(len(sweep.metric_names), 'metric', 'metrics')}",
        decision=_decision(sweep),
        about=_about(systems) if systems else (),
        sections=[
            Section("Configurations", [_table(sweep)] if sweep.finished else [], _how(sweep)),
            Section("Failed", [_failed(sweep)] if sweep.failed else []),
        ],
        failures=failures(systems),
        notes=notes,
        glossary=glossary(sweep.metric_names),
        metrics=sweep.metric_names,
        primary=sweep.primary,
        figures={
            "tradeoff": lambda metric: _tradeoff_figure(sweep, metric or sweep.primary),
            "heat_map": lambda metric: _heat_map_figure(sweep, metric or sweep.primary),
        },
        records=_records(sweep),
    )


def _about(systems: Sequence[System]) -> list[tuple[str, str]]:
    """What all configurations have in common."""
    first, *others = (system.about for system in systems)
    return [
        (label, text)
        for label, text in about(systems)
        if label in first and all(other.get(label) == first[label] for other in others)
    ]


def _decision(sweep: Sweep) -> list[Statement]:
    statements = [Statement(sweep.decision, "open" if sweep.winner is None else "best")]
    if sweep.winner is None and 1 < len(sweep.undefeated) < len(sweep.finished):
        names = [configuration.name for configuration in sweep.undefeated]
        more = len(names) - _MOST_LISTED
        listed = "; ".join(names[:_MOST_LISTED]) + (f"; and {more} more" if more > 0 else "")
        statements.append(Statement(f"They are {listed}."))
    if sweep.failed:
        failed = counted(len(sweep.failed), "configuration", "configurations")
        statements.append(Statement(f"{failed} failed.", "alarm"))
    return statements


def _table(sweep: Sweep) -> Table:
    """Best first; those that no other one is shown to beat are marked."""
    parameters = _parameters(sweep)
    others = [metric for metric in sweep.metric_names if metric != sweep.primary]
    costs: dict[str, Callable[[Configuration], Cell]] = {}
    if any(configuration.tokens is not None for configuration in sweep.finished):
        costs["tokens a query"] = lambda configuration: Cell.of(configuration.tokens, "count")
    if any(configuration.price is not None for configuration in sweep.finished):
        costs["price of 1,000"] = lambda configuration: Cell.of(configuration.price, "score")
    if sweep.is_timed:
        costs["p95"] = lambda configuration: Cell.of(configuration.p95, "seconds")
    rows = []
    for rank, configuration in enumerate(sweep.ranked, 1):
        interval = sweep.interval(configuration)
        is_kept = configuration in sweep.undefeated
        quality = Cell.of(configuration.mean(sweep.primary), "score")
        cells = [
            *(Cell(configuration.shown.get(name, "")) for name in parameters),
            quality._replace(tone="best" if is_kept else "normal"),
            Cell("score", "bounds", low=interval.low, high=interval.high),
            *(cell_of(configuration) for cell_of in costs.values()),
            Cell("yes" if configuration in sweep.front else ""),
            *(Cell.of(configuration.mean(metric), "score") for metric in others),
        ]
        rows.append(Row(str(rank), cells))
    interval_head = f"{percent(sweep.confidence)} interval"
    head = [*parameters, sweep.primary, interval_head, *costs, "Pareto", *others]
    title = f"Configurations by {sweep.primary}"
    return Table(title, head, [rows], first="", text_columns=len(parameters))


def _failed(sweep: Sweep) -> Table:
    rows = [
        Row(configuration.name, [Cell(configuration.error or "no query has a value")])
        for configuration in sweep.failed
    ]
    return Table("Failed configurations", ["error"], [rows], first="", text_columns=1)


def _how(sweep: Sweep) -> str:
    return (
        f"The winner by {sweep.primary} beats every other configuration by a paired t-test. If "
        "there is no winner, every configuration is marked that none is shown to beat (max-t "
        "correction over its rivals). "
        f"Chance alone names a winner in at most {percent(1 - sweep.confidence)} of sweeps. "
        "Pareto: none is as good in quality, tokens and p95, and better in one of them."
    )


def _parameters(sweep: Sweep) -> list[str]:
    return list(dict.fromkeys(name for configuration in sweep for name in configuration.params))


def _records(sweep: Sweep) -> Records:
    rows = [
        {
            "configuration": configuration.name,
            **{name: _exported(configuration, name) for name in _parameters(sweep)},
            **{metric: configuration.mean(metric) for metric in sweep.metric_names},
            "tokens": configuration.tokens,
            "price_per_1000": configuration.price,
            "p95": configuration.p95 if sweep.is_timed else None,
            "undefeated": configuration in sweep.undefeated,
            "pareto": configuration in sweep.front,
            "error": configuration.error or None,
        }
        for configuration in sweep
    ]
    return Records.of(rows, rows[0])


def _exported(configuration: Configuration, name: str) -> Any:
    """A value of a parameter: a number or None as it is, anything else as a text."""
    value, text = configuration.params.get(name), configuration.shown.get(name)
    return value if isinstance(value, (int, float, type(None))) and text == str(value) else text


def _tradeoff_figure(sweep: Sweep, metric: str) -> Figure | None:
    """Every configuration by its tokens and its quality, coloured by p95; hollow off the front."""
    known = {
        configuration: (configuration.tokens, mean)
        for configuration in sweep.finished
        if configuration.tokens is not None and (mean := configuration.mean(metric)) is not None
    }
    if not known:
        return None
    latencies = [configuration.p95 and configuration.p95 * 1e3 for configuration in known]
    series = Series(
        "configurations",
        0,
        [tokens for tokens, _ in known.values()],
        [mean for _, mean in known.values()],
        remarks=[_remark(configuration, metric) for configuration in known],
        hollow=[configuration not in sweep.front for configuration in known],
        z=latencies if sweep.is_timed else (),
    )
    axes = Axis("tokens a query"), Axis(metric)
    return Figure("marks", *axes, [series], "%{customdata}", z=Axis("p95, ms"))


def _heat_map_figure(sweep: Sweep, metric: str) -> Figure | None:
    """The means by the first two parameters that vary, over the values of all others."""
    names = varied([configuration.shown for configuration in sweep])
    if len(names) < 2:
        return None
    first, second = names[:2]
    cells: dict[tuple[str, str], list[float]] = {}
    for configuration in sweep:
        key = configuration.shown.get(first, ""), configuration.shown.get(second, "")
        mean = configuration.mean(metric)
        cells.setdefault(key, []).extend([] if mean is None else [mean])
    means = {key: fsum(column) / len(column) if column else None for key, column in cells.items()}
    series = Series(metric, 0, [x for x, _ in means], [y for _, y in means], z=[*means.values()])
    hovered = f"{first} %{{x}}, {second} %{{y}}: {hover('z')}"
    return Figure("cells", Axis(first), Axis(second), [series], hovered, z=Axis(metric))


def _remark(configuration: Configuration, metric: str) -> str:
    mean, tokens, p95 = configuration.mean(metric), configuration.tokens, configuration.p95
    parts = [
        "" if mean is None else f"{metric} {score(mean)}",
        "" if tokens is None else f"tokens {score(tokens)}",
        "" if p95 is None else f"p95 {seconds(p95)}",
    ]
    return f"{configuration.name}: {', '.join(filter(None, parts))}"
