"""The report of a sweep: the decision, and a row for each configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.decisions.sweeps.grid import varied
from llama_index_rag_metrics.evaluation.results.results_report import system_of
from llama_index_rag_metrics.report import Cell, Records, Report, Row, Section, Statement, Table
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import counted, hover, percent, score, seconds
from llama_index_rag_metrics.scores.scores_report import about, failures, glossary, remarks
from llama_index_rag_metrics.scores.systems import System

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.sweeps.sweep_result import Configuration, Sweep


def tradeoff_figure(sweep: Sweep, metric: str) -> Figure | None:
    """Every configuration by its tokens and its quality, coloured by p95; hollow off the front."""
    known = {
        configuration: (configuration.tokens, mean)
        for configuration in sweep.finished
        if configuration.tokens is not None and (mean := configuration.mean(metric)) is not None
    }
    if not known:
        return None
    front = {configuration.name for configuration in sweep.front}
    series = Series(
        "configurations",
        0,
        [tokens for tokens, _ in known.values()],
        [mean for _, mean in known.values()],
        remarks=[_remark(configuration, metric) for configuration in known],
        hollow=[configuration.name not in front for configuration in known],
        z=[configuration.p95 and configuration.p95 * 1e3 for configuration in known]
        if sweep.is_timed
        else (),
    )
    return Figure(
        "marks",
        Axis("tokens a query"),
        Axis(metric),
        [series],
        "%{customdata}",
        z=Axis("p95, ms"),
    )


def heat_map_figure(sweep: Sweep, metric: str) -> Figure | None:
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
    series = Series(
        metric,
        0,
        [x for x, _ in means],
        [y for _, y in means],
        z=list(means.values()),
    )
    return Figure(
        "cells",
        Axis(first),
        Axis(second),
        [series],
        f"{first} %{{x}}, {second} %{{y}}: {hover('z')}",
        z=Axis(metric),
    )


def _remark(configuration: Configuration, metric: str) -> str:
    parts: Mapping[str, float | None] = {
        metric: configuration.mean(metric),
        "tokens": configuration.tokens,
    }
    numbers = [f"{name} {score(value)}" for name, value in parts.items() if value is not None]
    timed = [] if configuration.p95 is None else [f"p95 {seconds(configuration.p95)}"]
    return f"{configuration.name}: {', '.join([*numbers, *timed])}"


_MOST_LISTED = 10


def sweep_report(sweep: Sweep) -> Report:
    systems = [
        system_of(configuration.results, configuration.name)
        for configuration in sweep
        if configuration.results is not None
    ]
    n = max((system.scores.counts.scored for system in systems), default=0)
    configurations = Section("Configurations", [_table(sweep)], text=_how(sweep))
    return Report(
        title=f"Sweep over {', '.join(_parameters(sweep)) or 'one configuration'}",
        lead=f"{counted(len(sweep), 'configuration', 'configurations')}, "
        f"{counted(n)} scored by {counted(len(sweep.metric_names), 'metric', 'metrics')}",
        decision=_decision(sweep),
        about=_about(systems) if systems else (),
        sections=[
            *([configurations] if sweep.finished else []),
            *([Section("Failed", [_failed(sweep)])] if sweep.failed else []),
        ],
        failures=failures(systems),
        notes=[*_notes(sweep), *(remarks(systems) if systems else ())],
        glossary=glossary(sweep.metric_names),
        metrics=sweep.metric_names,
        primary=sweep.primary,
        figures={
            "tradeoff": lambda metric: tradeoff_figure(sweep, metric or sweep.primary),
            "heat_map": lambda metric: heat_map_figure(sweep, metric or sweep.primary),
        },
        records=_records(sweep),
    )


def _about(systems: Sequence[System]) -> list[tuple[str, str]]:
    """What all configurations have in common."""
    first = systems[0].about
    common = {
        label
        for label in first
        if all(system.about.get(label) == first[label] for system in systems)
    }
    return [(label, text) for label, text in about(systems) if label in common]


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
    parameters, others = _parameters(sweep), _others(sweep)
    kept = {configuration.name for configuration in sweep.undefeated}
    front = {configuration.name for configuration in sweep.front}
    costs = _cost_head(sweep)
    rows = []
    for rank, configuration in enumerate(sweep.ranked, 1):
        cell = Cell.of(configuration.mean(sweep.primary), "score")
        interval = sweep.interval(configuration)
        quality = cell._replace(tone="best" if configuration.name in kept else "normal")
        rows.append(
            Row(
                str(rank),
                [
                    *(Cell(configuration.shown.get(name, "")) for name in parameters),
                    quality,
                    Cell("score", "bounds", low=interval.low, high=interval.high),
                    *_cost_cells(costs, configuration),
                    Cell("yes" if configuration.name in front else ""),
                    *(Cell.of(configuration.mean(metric), "score") for metric in others),
                ],
            )
        )
    interval_head = f"{percent(sweep.confidence)} interval"
    head = [*parameters, sweep.primary, interval_head, *costs, "Pareto", *others]
    return Table(
        f"Configurations by {sweep.primary}",
        head,
        [rows],
        first="",
        text_columns=len(parameters),
    )


def _cost_head(sweep: Sweep) -> list[str]:
    prices = any(configuration.price is not None for configuration in sweep.finished)
    tokens = any(configuration.tokens is not None for configuration in sweep.finished)
    return [
        *(["tokens a query"] if tokens else []),
        *(["price of 1,000"] if prices else []),
        *(["p95"] if sweep.is_timed else []),
    ]


def _cost_cells(costs: Sequence[str], configuration: Configuration) -> list[Cell]:
    cells = {
        "tokens a query": Cell.of(configuration.tokens, "count"),
        "price of 1,000": Cell.of(configuration.price, "score"),
        "p95": Cell.of(configuration.p95, "seconds"),
    }
    return [cells[name] for name in costs]


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


def _notes(sweep: Sweep) -> list[str]:
    if sweep.is_timed:
        return []
    return ["several configurations were evaluated at once, so that latencies aren't compared"]


def _parameters(sweep: Sweep) -> list[str]:
    return list(dict.fromkeys(name for configuration in sweep for name in configuration.params))


def _others(sweep: Sweep) -> list[str]:
    return [metric for metric in sweep.metric_names if metric != sweep.primary]


def _records(sweep: Sweep) -> Records:
    kept, front = (
        {configuration.name for configuration in some} for some in (sweep.undefeated, sweep.front)
    )
    columns: dict[str, list[Any]] = {
        "configuration": [configuration.name for configuration in sweep]
    }
    for name in _parameters(sweep):
        columns[name] = [_exported(configuration, name) for configuration in sweep]
    columns |= {
        metric: [configuration.mean(metric) for configuration in sweep]
        for metric in sweep.metric_names
    }
    columns |= {
        "tokens": [configuration.tokens for configuration in sweep],
        "price_per_1000": [configuration.price for configuration in sweep],
        "p95": [configuration.p95 if sweep.is_timed else None for configuration in sweep],
        "undefeated": [configuration.name in kept for configuration in sweep],
        "pareto": [configuration.name in front for configuration in sweep],
        "error": [configuration.error or None for configuration in sweep],
    }
    return Records(columns)


def _exported(configuration: Configuration, name: str) -> Any:
    """A value of a parameter: a number or None as it is, anything else as a text."""
    value, text = configuration.params.get(name), configuration.shown.get(name)
    return value if isinstance(value, (int, float, type(None))) and text == str(value) else text
