"""What a sweep decides, in sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report.numbers import (
    count,
    counted,
    given,
    percent,
    questions,
    rounded_up,
    score,
    seconds,
    times,
    two_digits_up,
)
from llama_index_rag_metrics.runtime.masking import join_first

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.sweeps.sweep_result import Configuration, Sweep

_MOST_ERRORS = 3

SAVINGS = {"tokens": 0.05, "p95": 0.5}
"""The least share of a cost that counts as saved: a p95 differs much from run to run."""


def saves(cost: str, more: float, less: float) -> bool:
    """Whether one cost is lower than another by a share that counts."""
    return less < more * (1 - SAVINGS[cost])


def decision(sweep: Sweep) -> str:
    """What to take, or what is missing."""
    n_failed = len(sweep.failed)
    if not sweep.finished:
        errors = join_first([*dict.fromkeys(each.error for each in sweep.failed)], _MOST_ERRORS)
        failed = counted(n_failed, "configuration", "configurations")
        return f"Nothing was measured: {failed} failed ({errors})."
    if len(sweep.finished) == 1:
        reason = "the others failed" if n_failed else "there is nothing to compare it with"
        return f"Only {sweep.finished[0].name} was evaluated: {reason}."
    if n_failed:
        failed = f"No decision: {n_failed} of {len(sweep)} configurations failed and may be better."
        return f"{failed} Of the others: {_among_finished(sweep)}"
    return _among_finished(sweep)


def costs(sweep: Sweep) -> str:
    """What the recommended configuration costs, beside the best mean; "" where none is."""
    chosen = sweep.recommended
    if chosen is None or not sweep.costs or len(sweep.finished) < 2 or sweep.is_same:
        return ""
    best = sweep.ranked[0]
    if chosen is best:
        parts = [
            f"{_best(sweep)} ({_mean(sweep, best)})",
            *(_cost(each, best) for each in sweep.costs),
        ]
        return f"It has the {', '.join(parts)}."
    parts = [f"{_mean(sweep, chosen)} instead of {_mean(sweep, best)}"]
    parts += [
        f"{_cost(cost, chosen)} instead of {_FORMS[cost](getattr(best, cost))}"
        f"{_change(cost, getattr(best, cost), getattr(chosen, cost))}"
        for cost in sweep.costs
    ]
    return f"Against the {_best(sweep)}, {best.name}: {', '.join(parts)}."


def tied(sweep: Sweep) -> str:
    """How many are statistically tied; "" where there is a winner, or nothing to go by."""
    n, n_tied = len(sweep.finished), len(sweep.undefeated)
    if n_tied < 2 or not sweep.n_questions or sweep.is_same:
        return ""
    if n_tied == n:
        return f"{'Both' if n == 2 else f'All {n}'} are statistically tied."
    return f"{n_tied} of {n} are statistically tied; the others are shown to be worse."


def _among_finished(sweep: Sweep) -> str:
    n, chosen, asked = len(sweep.finished), sweep.recommended, questions(sweep.n_questions)
    if not sweep.n_questions:
        return f"Nothing can be compared: no question has a value for all {n} configurations."
    if sweep.is_same and chosen is not None:
        costs = ", ".join(_cost(each, chosen) for each in sweep.costs)
        is_cheaper = any(
            saves(cost, getattr(each, cost), getattr(chosen, cost))
            for cost in sweep.costs
            for each in sweep.finished
        )
        take = f"take the cheapest, {chosen.name} ({costs})" if is_cheaper else "take any of them"
        return f"The {n} configurations score the same on {sweep.primary}, on all {asked}: {take}."
    (first, *others) = sweep.undefeated
    if not others:
        start = f"{first.name} is the best of {n} on {sweep.primary}"
        if chosen is None or chosen is first:
            return f"{start}."
        return f"{start}; {chosen.name} costs less and is at most {_bound(sweep, chosen)} worse."
    if chosen is not None:
        confidence = f"({percent(sweep.confidence)} confidence, {asked})"
        worse = f"at most {_bound(sweep, chosen)} worse than the best"
        if not sweep.at_most_worse(chosen):
            worse = "no worse than any other"
        return f"Take {chosen.name}: it is {worse} of {n} on {sweep.primary} {confidence}."
    best, needed = sweep.ranked[0], sweep.questions_needed
    within = f"is within {given(sweep.tolerance)} of the best" if sweep.tolerance else "is the best"
    until = "" if needed is None else f" until there are about {two_digits_up(needed)}"
    bound = sweep.at_most_worse(best)
    worse = f" and is at most {_bound(sweep, best)} worse than the best" if bound < math.inf else ""
    return (
        f"{asked} can't show which of {n} configurations {within} on {sweep.primary}. "
        f"Keep {best.name}{until}: it has the {_best(sweep)} ({_mean(sweep, best)}){worse}."
    )


def _change(cost: str, before: float, after: float) -> str:
    """By how much a cost differs; "" for less than counts."""
    if not before or not (saves(cost, before, after) or saves(cost, after, before)):
        return ""
    return f" ({times(after / before)})"


_FORMS = {"tokens": count, "p95": seconds}


def _cost(cost: str, configuration: Configuration) -> str:
    text = _FORMS[cost](getattr(configuration, cost))
    return f"{text} tokens a question" if cost == "tokens" else f"p95 {text}"


def _mean(sweep: Sweep, configuration: Configuration) -> str:
    return score(sweep.common_mean(configuration), digits=3)


def _best(sweep: Sweep) -> str:
    return f"{'lowest' if lower_is_better(sweep.primary) else 'highest'} mean"


def _bound(sweep: Sweep, configuration: Configuration) -> str:
    return rounded_up(sweep.at_most_worse(configuration), 3)
