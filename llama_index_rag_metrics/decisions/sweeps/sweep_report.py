"""The report of a sweep: the decision, a row for each configuration, quality against tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llama_index_rag_metrics.decisions.comparison.pairing import clusters_in_words
from llama_index_rag_metrics.decisions.result_columns import Column, records_of, table_of
from llama_index_rag_metrics.evaluation.evaluation_results import system_of
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import (
    counted,
    mean_of,
    percent,
    questions,
    rounded_up,
    score,
)
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.results_report import failures, glossary, remarks, unsaid

from .choice import Choice
from .configuration import Configuration
from .sweep_sentences import costs_in_words, decision_in_words

_DIGITS = 3
_CONFIGURATIONS, _FAILED = "Configurations", "Failed"
_HOW = (
    "At most worse by: how far the true mean on {metric} may lie below the best configuration's; "
    "all bounds hold at once with {confidence} confidence."
)
_LEFT_OUT = "left out of ranks and bounds: {questions} that not every configuration has a value for"


def sweep_report(choice: Choice) -> m.Report:
    """The report of a sweep."""
    systems = [system_of(results, name) for name, results in choice.all_results.items()]
    n_questions = len(_questions(systems, choice.primary))
    parameters = _parameters(choice)
    sizes = [
        counted(len(choice), "configuration", "configurations"),
        questions(n_questions),
        counted(len(choice.metric_names), "metric", "metrics"),
    ]
    statements = _statements(choice)
    return m.Report(
        title=f"Sweep over {', '.join(parameters) or 'one configuration'}",
        lead=", ".join(sizes),
        decision=statements,
        about=_about(systems),
        sections=_sections(choice),
        failures=failures(systems),
        notes=[*_notes(choice, n_questions), *unsaid(remarks(systems), statements)],
        glossary=glossary(choice.metric_names),
        metrics=choice.metric_names,
        primary=choice.primary,
        figures={"tradeoff": lambda metric: _tradeoff_figure(choice, metric or choice.primary)},
        records=records_of(list(choice), _record_columns(choice)),
    )


def _statements(choice: Choice) -> list[m.Statement]:
    tone: m.Tone = "open"
    evidence = _CONFIGURATIONS
    if choice.failed:
        tone, evidence = "alarm", _FAILED
    elif choice.recommended is not None and len(choice.finished) > 1:
        tone = "best"
    statements = [m.Statement(decision_in_words(choice), tone, evidence=evidence)]
    costs = costs_in_words(choice)
    if costs:
        statements.append(m.Statement(costs, evidence=_CONFIGURATIONS))
    return [*statements, *_label_statements(choice)]


def _label_statements(choice: Choice) -> list[m.Statement]:
    """Who graded, or that labels don't fit, where it holds for all configurations."""
    notes = [results.scores.label_notes for results in choice.all_results.values()]
    if not notes:
        return []
    common = set(notes[0]).intersection(*notes)
    return [m.Statement(f"{note}.", "alarm") for note in notes[0] if note in common]


def _questions(systems: Sequence[System], metric: str) -> set[str]:
    """The questions that have a value in any configuration, or should have one."""
    query_ids: set[str] = set()
    for system in systems:
        query_ids |= system.scores.by_query(metric).keys()
        query_ids |= system.scores.due(metric)
    return query_ids


def _notes(choice: Choice, n_questions: int) -> list[str]:
    notes = []
    if choice.finished and n_questions > choice.n_questions:
        missing = questions(n_questions - choice.n_questions)
        notes.append(_LEFT_OUT.format(questions=missing))
    if choice.question_clusters is not None:
        notes.append(f"{clusters_in_words(None, choice.question_clusters)}, each counted as one")
    return notes


def _about(systems: Sequence[System]) -> list[tuple[str, str]]:
    """What all configurations have in common."""
    if not systems:
        return []
    common = set(systems[0].about.items())
    for system in systems:
        common &= system.about.items()
    return [pair for pair in systems[0].about.items() if pair in common]


def _sections(choice: Choice) -> list[m.Section]:
    sections = []
    if choice.finished:
        how = _HOW.format(metric=choice.primary, confidence=percent(choice.confidence))
        sections.append(m.Section(_CONFIGURATIONS, [_table(choice)], how))
    if choice.failed:
        error: Column[Configuration] = Column("error", _error_cell)
        name: Column[Configuration] = Column("configuration", lambda failure: failure.name)
        title = "Failed configurations"
        table = table_of(title, choice.failed, [error], label=name, text_columns=1)
        sections.append(m.Section(_FAILED, [table]))
    return sections


def _error_cell(configuration: Configuration) -> m.Cell:
    return m.Cell(configuration.error or "no question has a value")


def _table(choice: Choice) -> m.Table:
    """The configurations, best mean first."""
    ranks = {configuration: rank for rank, configuration in enumerate(choice.ranked, 1)}
    rank: Column[Configuration] = Column("rank", lambda each: str(ranks[each]))
    parameters = [_parameter_column(choice, name) for name in _parameters(choice)]
    primary, *metrics = [_mean_column(choice, metric) for metric in choice.metric_names]

    def bound(configuration: Configuration) -> m.Cell:
        at_most = _bound(choice, configuration)
        if at_most is not None:
            at_most = float(rounded_up(at_most, _DIGITS))
        return m.Cell.of(at_most, "score")._replace(digits=_DIGITS)

    def interval(configuration: Configuration) -> m.Cell:
        ends = choice.interval(configuration)
        return m.Cell("score", "bounds", low=ends.low, high=ends.high, digits=_DIGITS)

    columns = [*parameters, primary, Column("at most worse by", bound), *_cost_columns(choice)]
    columns += [Column(f"{percent(choice.confidence)} interval", interval), *metrics]
    title = f"Configurations on {choice.primary}"
    n_texts = len(parameters)
    return table_of(title, choice.ranked, columns, label=rank, text_columns=n_texts, sortable=True)


def _parameter_column(choice: Choice, parameter: str) -> Column[Configuration]:
    def cell(configuration: Configuration) -> m.Cell:
        text = m.Cell(configuration.texts.get(parameter, ""))
        if configuration is choice.recommended:
            return text._replace(tone="best")
        return text

    return Column(parameter, cell)


def _mean_column(choice: Choice, metric: str) -> Column[Configuration]:
    def cell(configuration: Configuration) -> m.Cell:
        mean = m.Cell.of(configuration.mean(metric), "score")
        return mean_of(mean, choice.n_questions, _DIGITS)

    return Column(metric, cell)


def _cost_columns(choice: Choice) -> list[Column[Configuration]]:
    """The costs that any configuration has."""
    columns: list[Column[Configuration]] = []
    if any(configuration.tokens is not None for configuration in choice.finished):
        columns.append(Column("tokens a question", lambda row: m.Cell.of(row.tokens, "count")))
    if any(configuration.p95 is not None for configuration in choice.finished):
        columns.append(Column("p95", lambda row: m.Cell.of(row.p95, "seconds")))
    return columns


def _record_columns(choice: Choice) -> list[Column[Configuration]]:
    def parameter(name: str) -> Column[Configuration]:
        return Column(name, lambda row: _exported(row, name))

    def mean(metric: str) -> Column[Configuration]:
        return Column(metric, lambda row: row.mean(metric))

    return [
        Column("configuration", lambda row: row.name),
        *map(parameter, _parameters(choice)),
        *map(mean, choice.metric_names),
        Column("tokens", lambda row: row.tokens),
        Column("p95", lambda row: row.p95),
        Column("at_most_worse", lambda row: _bound(choice, row)),
        Column("recommended", lambda row: row is choice.recommended),
        Column("not_beaten", lambda row: row in choice.not_beaten),
        Column("error", lambda row: row.error or None),
    ]


def _parameters(choice: Choice) -> list[str]:
    names: dict[str, None] = {}
    for configuration in choice:
        names |= dict.fromkeys(configuration.params)
    return list(names)


def _bound(choice: Choice, configuration: Configuration) -> float | None:
    """How much worse at most; None for a configuration that failed, and where there is no bound."""
    if configuration not in choice.finished or math.isinf(choice.at_most_worse(configuration)):
        return None
    return choice.at_most_worse(configuration)


def _exported(configuration: Configuration, name: str) -> Any:
    """A value of a parameter: a number or None as it is, anything else as a text."""
    value, text = configuration.params.get(name), configuration.texts.get(name)
    if isinstance(value, (int, float, type(None))) and text == str(value):
        return value
    return text


def _tradeoff_figure(choice: Choice, metric: str) -> Figure | None:
    """Every configuration by its tokens and its quality; the recommended one has its name."""
    tokens, means, labels, notes = [], [], [], []
    for configuration in choice.finished:
        mean = configuration.mean(metric)
        if configuration.tokens is not None and mean is not None:
            tokens.append(configuration.tokens)
            means.append(mean)
            is_recommended = configuration is choice.recommended
            labels.append(configuration.name * is_recommended)
            notes.append(f"{configuration}; tokens {score(configuration.tokens)}")
    if not tokens:
        return None
    series = Series("configurations", 0, tokens, means, remarks=notes, labels=labels)
    return Figure("marks", Axis("tokens a question"), Axis(metric), [series])
