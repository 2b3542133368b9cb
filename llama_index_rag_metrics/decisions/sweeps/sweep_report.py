"""The report of a sweep: the decision, and a row for each configuration; figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.decisions.clusters import clusters_in_words
from llama_index_rag_metrics.decisions.sweeps import sweep_result as sentences
from llama_index_rag_metrics.decisions.sweeps.sweep_result import SAVINGS
from llama_index_rag_metrics.decisions.sweeps.sweeping import varied
from llama_index_rag_metrics.evaluation.results.evaluation_results import system_of
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import (
    counted,
    given,
    mean_of,
    percent,
    questions,
    rounded_up,
    score,
    seconds,
)
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.scores_report import failures, glossary, remarks
from llama_index_rag_metrics.scores.systems import System

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.sweeps.sweep_result import Configuration, Sweep

_MOST_LISTED, _MOST_PAIRS = 3, 15
_DIGITS = 3
_CONFIGURATIONS, _FAILED = "Configurations", "Failed"
_COSTS: Sequence[tuple[str, str, m.Form]] = (
    ("tokens a question", "tokens", "count"),
    ("p95", "p95", "seconds"),
)


def sweep_report(sweep: Sweep) -> m.Report:
    systems = [
        system_of(configuration.results, configuration.name)
        for configuration in sweep
        if configuration.results is not None
    ]
    n = len(set[str]().union(*(system.scores.due(sweep.primary) for system in systems)))
    notes = remarks(systems, partial(_listed, sweep))
    if (of_query := sweep.question_clusters) is not None:
        notes.append(f"{clusters_in_words(sweep.clusters, of_query)}, each counted as one")
    if sweep.finished and (missing := n - sweep.n_questions):
        left_out = f"left out of ranks and bounds: {questions(missing)}"
        notes.insert(0, f"{left_out} that not every configuration has a value for")
    return m.Report(
        title=f"Sweep over {', '.join(_parameters(sweep)) or 'one configuration'}",
        lead=f"{counted(len(sweep), 'configuration', 'configurations')}, "
        f"{questions(n)}, "
        f"{counted(len(sweep.metric_names), 'metric', 'metrics')}",
        decision=_decision(sweep),
        about=_about(systems) if systems else (),
        sections=[
            m.Section(_CONFIGURATIONS, [_table(sweep)] if sweep.finished else [], _how(sweep)),
            m.Section(_FAILED, [_failed(sweep)] if sweep.failed else []),
        ],
        failures=failures(systems),
        notes=notes,
        glossary=glossary(sweep.metric_names),
        metrics=sweep.metric_names,
        primary=sweep.primary,
        figures={"tradeoff": lambda metric: _tradeoff_figure(sweep, metric or sweep.primary)},
        records=_records(sweep),
    )


def _about(systems: Sequence[System]) -> list[tuple[str, str]]:
    """What all configurations have in common."""
    first, *others = (system.about for system in systems)
    return [pair for pair in first.items() if all(pair in other.items() for other in others)]


def _decision(sweep: Sweep) -> list[m.Statement]:
    is_decided = sweep.recommended is not None and len(sweep.finished) > 1
    tone: m.Tone = "alarm" if sweep.failed else "best" if is_decided else "open"
    evidence = _FAILED if sweep.failed else _CONFIGURATIONS
    first = m.Statement(sweep.decision, tone, evidence=evidence)
    others = filter(None, (sentences.costs(sweep), sentences.tied(sweep)))
    return [first, *(m.Statement(text, evidence=_CONFIGURATIONS) for text in others)]


def _table(sweep: Sweep) -> m.Table:
    """Best mean first."""
    parameters = _parameters(sweep)
    others = [metric for metric in sweep.metric_names if metric != sweep.primary]
    costs = {
        head: (name, kind)
        for head, name, kind in _COSTS
        if any(getattr(each, name) is not None for each in sweep.finished)
    }
    rows = []
    for rank, configuration in enumerate(sweep.ranked, 1):
        interval, bound = sweep.interval(configuration), _bound(sweep, configuration)
        at_most = None if bound is None else float(rounded_up(bound, _DIGITS))
        cells = [
            _standing(sweep, configuration),
            *(m.Cell(configuration.shown.get(name, "")) for name in parameters),
            _mean(sweep, configuration, sweep.primary),
            m.Cell.of(at_most, "score")._replace(digits=_DIGITS),
            *(m.Cell.of(getattr(configuration, name), kind) for name, kind in costs.values()),
            m.Cell("score", "bounds", low=interval.low, high=interval.high, digits=_DIGITS),
            *(_mean(sweep, configuration, metric) for metric in others),
        ]
        rows.append(m.Row(str(rank), cells))
    interval_head = f"{percent(sweep.confidence)} interval"
    head = ["standing", *parameters, sweep.primary, "at most worse by", *costs]
    return m.Table(
        f"Configurations on {sweep.primary}",
        [*head, interval_head, *others],
        [rows],
        first="rank",
        text_columns=1 + len(parameters),
        sortable=True,
    )


def _mean(sweep: Sweep, configuration: Configuration, metric: str) -> m.Cell:
    return mean_of(m.Cell.of(configuration.mean(metric), "score"), sweep.n_questions, _DIGITS)


def _standing(sweep: Sweep, configuration: Configuration) -> m.Cell:
    if configuration == sweep.recommended:
        return m.Cell("take", tone="best")
    if sweep.undefeated == (configuration,):
        return m.Cell("best", tone="best")
    if configuration in sweep.within:
        return m.Cell(f"within {given(sweep.tolerance)}")
    return m.Cell("tied") if configuration in sweep.undefeated else m.Cell("worse", tone="quiet")


def _failed(sweep: Sweep) -> m.Table:
    rows = [
        m.Row(configuration.name, [m.Cell(configuration.error or "no question has a value")])
        for configuration in sweep.failed
    ]
    return m.Table("Failed configurations", ["error"], [rows], "configuration", text_columns=1)


def _listed(sweep: Sweep, names: Sequence[str]) -> str:
    """Some configurations: by the one value that they alone have, else the first few by name."""
    values = {pair for configuration in sweep.finished for pair in configuration.shown.items()}
    for parameter, value in sorted(values):
        having = [each.name for each in sweep.finished if each.shown.get(parameter) == value]
        if set(having) == set(names):
            return f"{parameter}={value}"
    return join_first(names, _MOST_LISTED)


def _how(sweep: Sweep) -> str:
    saved = ", ".join(f"{percent(share)} of {cost}" for cost, share in SAVINGS.items())
    return (
        f"At most worse by: how far the true mean on {sweep.primary} may lie from the best "
        f"configuration's; all bounds hold at once with {percent(sweep.confidence)} confidence. "
        f"Take: the cheapest of those within {given(sweep.tolerance)}, by tokens, then p95 (a "
        f"saving is at least {saved}). Tied: no other one is shown to be better; so can be one "
        "with a lower mean than one that is worse, if it varies more between questions. Best: "
        "shown to beat every other one; if all are equal, a winner is named in at most "
        f"{percent(1 - sweep.confidence)} of sweeps."
    )


def _parameters(sweep: Sweep) -> list[str]:
    return list(dict.fromkeys(name for configuration in sweep for name in configuration.params))


def _records(sweep: Sweep) -> m.Records:
    rows = [
        {
            "configuration": configuration.name,
            **{name: _exported(configuration, name) for name in _parameters(sweep)},
            **{metric: configuration.mean(metric) for metric in sweep.metric_names},
            "tokens": configuration.tokens,
            "p95": configuration.p95,
            "at_most_worse": _bound(sweep, configuration),
            "recommended": configuration == sweep.recommended,
            "undefeated": configuration in sweep.undefeated,
            "error": configuration.error or None,
        }
        for configuration in sweep
    ]
    return m.Records.of(rows, rows[0])


def _bound(sweep: Sweep, configuration: Configuration) -> float | None:
    """None for a configuration that failed, and where there is no bound."""
    if configuration not in sweep.finished:
        return None
    bound = sweep.at_most_worse(configuration)
    return bound if bound < math.inf else None


def _exported(configuration: Configuration, name: str) -> Any:
    """A value of a parameter: a number or None as it is, anything else as a text."""
    value, text = configuration.params.get(name), configuration.shown.get(name)
    return value if isinstance(value, (int, float, type(None))) and text == str(value) else text


def _tradeoff_figure(sweep: Sweep, metric: str) -> Figure | None:
    """Every configuration by its tokens and its quality; the recommended one has its name."""
    points = {
        configuration: (configuration.tokens, mean)
        for configuration in sweep.finished
        if configuration.tokens is not None and (mean := configuration.mean(metric)) is not None
    }
    if not points:
        return None
    names = varied([configuration.shown for configuration in sweep])
    series = Series(
        "configurations",
        0,
        [tokens for tokens, _ in points.values()],
        [mean for _, mean in points.values()],
        remarks=[_remark(configuration, metric) for configuration in points],
        labels=[_label(each, names) if each is sweep.recommended else "" for each in points],
    )
    return Figure("marks", Axis("tokens a question"), Axis(metric), [series])


def _label(configuration: Configuration, names: Sequence[str]) -> str:
    return ", ".join(configuration.shown.get(name, "") for name in names)


def _remark(configuration: Configuration, metric: str) -> str:
    mean, tokens, p95 = configuration.mean(metric), configuration.tokens, configuration.p95
    parts = [
        "" if mean is None else f"{metric} {score(mean)}",
        "" if tokens is None else f"tokens {score(tokens)}",
        "" if p95 is None else f"p95 {seconds(p95)}",
    ]
    return f"{configuration.name}: {', '.join(filter(None, parts))}"
