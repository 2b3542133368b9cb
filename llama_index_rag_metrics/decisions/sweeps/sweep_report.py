"""The report of a sweep: the decision, a row for each configuration, quality against tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.decisions.clusters import clusters_in_words
from llama_index_rag_metrics.decisions.result_columns import Column, records_of, table_of
from llama_index_rag_metrics.evaluation.results.evaluation_results import system_of
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import (
    counted,
    mean_of,
    percent,
    questions,
    rounded_up,
    score,
    seconds,
)
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.results_report import failures, glossary, remarks

from .configuration import Configuration

if TYPE_CHECKING:
    from .sweep_result import Sweep

_DIGITS = 3
_CONFIGURATIONS, _FAILED = "Configurations", "Failed"
_HOW = (
    "At most worse by: how far the true mean on {metric} may lie below the best configuration's; "
    "all bounds hold at once with {confidence} confidence."
)
_LEFT_OUT = "left out of ranks and bounds: {questions} that not every configuration has a value for"


def sweep_report(sweep: Sweep) -> m.Report:
    systems = [
        system_of(configuration.results, configuration.name)
        for configuration in sweep
        if configuration.results is not None
    ]
    n_questions = len(_questions(systems, sweep.primary))
    parameters = _parameters(sweep)
    tables = [_table(sweep)] if sweep.finished else []
    how = _HOW.format(metric=sweep.primary, confidence=percent(sweep.confidence))
    failed = [_failed_table(sweep)] if sweep.failed else []
    sizes = [
        counted(len(sweep), "configuration", "configurations"),
        questions(n_questions),
        counted(len(sweep.metric_names), "metric", "metrics"),
    ]
    return m.Report(
        title=f"Sweep over {', '.join(parameters) or 'one configuration'}",
        lead=", ".join(sizes),
        decision=_decision(sweep),
        about=_about(systems),
        sections=[m.Section(_CONFIGURATIONS, tables, how), m.Section(_FAILED, failed)],
        failures=failures(systems),
        notes=[*_notes(sweep, n_questions), *remarks(systems)],
        glossary=glossary(sweep.metric_names),
        metrics=sweep.metric_names,
        primary=sweep.primary,
        figures={"tradeoff": lambda metric: _tradeoff_figure(sweep, metric or sweep.primary)},
        records=records_of(list(sweep), _record_columns(sweep)),
    )


def _questions(systems: Sequence[System], metric: str) -> set[str]:
    """The questions that have a value in any configuration, or should have one."""
    query_ids: set[str] = set()
    for system in systems:
        query_ids |= system.scores.by_query(metric).keys()
        query_ids |= system.scores.due(metric)
    return query_ids


def _notes(sweep: Sweep, n_questions: int) -> list[str]:
    notes = []
    missing = n_questions - sweep.n_questions if sweep.finished else 0
    if missing:
        notes.append(_LEFT_OUT.format(questions=questions(missing)))
    if sweep.question_clusters is not None:
        notes.append(f"{clusters_in_words(None, sweep.question_clusters)}, each counted as one")
    return notes


def _about(systems: Sequence[System]) -> list[tuple[str, str]]:
    """What all configurations have in common."""
    if not systems:
        return []
    first, *others = [system.about for system in systems]
    return [pair for pair in first.items() if all(pair in other.items() for other in others)]


def _decision(sweep: Sweep) -> list[m.Statement]:
    tone: m.Tone = "open"
    if sweep.failed:
        tone = "alarm"
    elif sweep.recommended is not None and len(sweep.finished) > 1:
        tone = "best"
    evidence = _FAILED if sweep.failed else _CONFIGURATIONS
    others = [sweep.grading, sweep.costs_in_words, sweep.tied_in_words]
    statements = [m.Statement(text, evidence=_CONFIGURATIONS) for text in others if text]
    return [m.Statement(sweep.decision, tone, evidence=evidence), *statements]


def _table(sweep: Sweep) -> m.Table:
    """Best mean first."""
    ranks = {configuration: rank for rank, configuration in enumerate(sweep.ranked, 1)}
    label: Column[Configuration] = Column("rank", lambda configuration: str(ranks[configuration]))
    return table_of(
        f"Configurations on {sweep.primary}",
        sweep.ranked,
        _columns(sweep),
        label=label,
        text_columns=len(_parameters(sweep)),
        sortable=True,
    )


def _columns(sweep: Sweep) -> list[Column[Configuration]]:
    def text_of(parameter: str) -> Column[Configuration]:
        def cell(configuration: Configuration) -> m.Cell:
            is_chosen = configuration is sweep.recommended
            tone: m.Tone = "best" if is_chosen else "normal"
            return m.Cell(configuration.texts.get(parameter, ""), tone=tone)

        return Column(parameter, cell)

    def mean_on(metric: str) -> Column[Configuration]:
        def cell(configuration: Configuration) -> m.Cell:
            mean = m.Cell.of(configuration.mean(metric), "score")
            return mean_of(mean, sweep.n_questions, _DIGITS)

        return Column(metric, cell)

    def bound(configuration: Configuration) -> m.Cell:
        at_most = _bound(sweep, configuration)
        shown = None if at_most is None else float(rounded_up(at_most, _DIGITS))
        return m.Cell.of(shown, "score")._replace(digits=_DIGITS)

    def interval(configuration: Configuration) -> m.Cell:
        ends = sweep.interval(configuration)
        return m.Cell("score", "bounds", low=ends.low, high=ends.high, digits=_DIGITS)

    columns = [text_of(parameter) for parameter in _parameters(sweep)]
    columns += [mean_on(sweep.primary), Column("at most worse by", bound)]
    if any(configuration.tokens is not None for configuration in sweep.finished):
        columns.append(
            Column(
                "tokens a question", lambda configuration: m.Cell.of(configuration.tokens, "count")
            )
        )
    if any(configuration.p95 is not None for configuration in sweep.finished):
        columns.append(Column("p95", lambda configuration: m.Cell.of(configuration.p95, "seconds")))
    columns.append(Column(f"{percent(sweep.confidence)} interval", interval))
    return columns + [mean_on(metric) for metric in sweep.metric_names[1:]]


def _failed_table(sweep: Sweep) -> m.Table:
    return table_of(
        "Failed configurations",
        sweep.failed,
        [Column("error", lambda each: m.Cell(each.error or "no question has a value"))],
        label=Column("configuration", lambda configuration: configuration.name),
        text_columns=1,
    )


def _record_columns(sweep: Sweep) -> list[Column[Configuration]]:
    def parameter(name: str) -> Column[Configuration]:
        return Column(name, lambda configuration: _exported(configuration, name))

    def mean(metric: str) -> Column[Configuration]:
        return Column(metric, lambda configuration: configuration.mean(metric))

    return [
        Column("configuration", lambda configuration: configuration.name),
        *[parameter(name) for name in _parameters(sweep)],
        *[mean(metric) for metric in sweep.metric_names],
        Column("tokens", lambda configuration: configuration.tokens),
        Column("p95", lambda configuration: configuration.p95),
        Column("at_most_worse", lambda configuration: _bound(sweep, configuration)),
        Column("recommended", lambda configuration: configuration is sweep.recommended),
        Column("not_beaten", lambda configuration: configuration in sweep.not_beaten),
        Column("error", lambda configuration: configuration.error or None),
    ]


def _parameters(sweep: Sweep) -> list[str]:
    return list(dict.fromkeys(name for configuration in sweep for name in configuration.params))


def _bound(sweep: Sweep, configuration: Configuration) -> float | None:
    """None for a configuration that failed, and where there is no bound."""
    if configuration not in sweep.finished:
        return None
    bound = sweep.at_most_worse(configuration)
    return bound if bound < math.inf else None


def _exported(configuration: Configuration, name: str) -> Any:
    """A value of a parameter: a number or None as it is, anything else as a text."""
    value, text = configuration.params.get(name), configuration.texts.get(name)
    is_plain = value is None or isinstance(value, (int, float))
    return value if is_plain and text == str(value) else text


def _tradeoff_figure(sweep: Sweep, metric: str) -> Figure | None:
    """Every configuration by its tokens and its quality; the recommended one has its name."""
    shown = [
        configuration
        for configuration in sweep.finished
        if configuration.tokens is not None and configuration.mean(metric) is not None
    ]
    if not shown:
        return None
    names = _varied_parameters(sweep)
    labels = []
    for configuration in shown:
        texts = [configuration.texts.get(name, "") for name in names]
        labels.append(", ".join(texts) if configuration is sweep.recommended else "")
    series = Series(
        "configurations",
        0,
        [configuration.tokens or 0.0 for configuration in shown],
        [configuration.mean(metric) or 0.0 for configuration in shown],
        remarks=[_remark(configuration, metric) for configuration in shown],
        labels=labels,
    )
    return Figure("marks", Axis("tokens a question"), Axis(metric), [series])


def _varied_parameters(sweep: Sweep) -> list[str]:
    """The parameters that have more than one value."""
    return [
        name
        for name in _parameters(sweep)
        if len({configuration.texts.get(name) for configuration in sweep}) > 1
    ]


def _remark(configuration: Configuration, metric: str) -> str:
    mean, tokens, p95 = configuration.mean(metric), configuration.tokens, configuration.p95
    parts = []
    if mean is not None:
        parts.append(f"{metric} {score(mean)}")
    if tokens is not None:
        parts.append(f"tokens {score(tokens)}")
    if p95 is not None:
        parts.append(f"p95 {seconds(p95)}")
    return f"{configuration.name}: {', '.join(parts)}"
