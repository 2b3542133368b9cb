"""What a sweep says: its decision, and what the recommended configuration costs."""

from __future__ import annotations

import math
from typing import Any

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

from .choice import Choice
from .configuration import Configuration, Cost, saves

_MOST_ERRORS = 3

_DECISIONS = {
    "nothing measured": "Nothing was measured: {failed} failed ({errors}).",
    "failed": (
        "No decision: {failed} of {total} configurations failed and may be better. Of the others: "
        "{decision}"
    ),
    "single": "Only {best} was evaluated: there is nothing to compare it with.",
    "single, others failed": "Only {best} was evaluated: the others failed.",
    "nothing in common": (
        "Nothing can be compared: no question has a value for all {n} configurations."
    ),
    "the same": (
        "The {n} configurations score the same on {metric}, on all {questions}: take any of them."
    ),
    "the same, cheapest": (
        "The {n} configurations score the same on {metric}, on all {questions}: take the cheapest, "
        "{recommended} ({costs})."
    ),
    "winner": "{winner} is the best of {n} on {metric}.",
    "winner, another is cheaper": (
        "{winner} is the best of {n} on {metric}; {recommended} costs less and is at most {bound} "
        "worse."
    ),
    "take": (
        "Take {recommended}: it is at most {bound} worse than the best of {n} on {metric} "
        "({confidence} confidence, {questions})."
    ),
    "take, no worse": (
        "Take {recommended}: it is no worse than any other of {n} on {metric} ({confidence} "
        "confidence, {questions})."
    ),
    "too few": (
        "Not enough questions to choose one of {n} configurations that {aim} on {metric}: {until}"
        "keep {best}. It has the {highest} ({mean} on {questions}){limit}."
    ),
}
_UNTIL = "until you have about {needed}, "
_LIMIT = " and is at most {bound} worse than the best"
_COSTS = {
    "of the best": "It has the {highest} ({mean}), {costs}.",
    "of another": "Against the {highest}, {best}: {mean} instead of {best_mean}, {costs}.",
    "tokens": "{amount} tokens a question",
    "p95": "p95 {amount}",
    "against": "{cost} instead of {amount}",
    "against, saved": "{cost} instead of {amount} ({times})",
}


def decision_in_words(choice: Choice) -> str:
    """The result in one or two sentences."""
    errors = dict.fromkeys(configuration.error for configuration in choice.failed)
    if not choice.finished:
        failed = counted(len(choice.failed), "configuration", "configurations")
        listed = join_first([*errors], _MOST_ERRORS)
        return _DECISIONS["nothing measured"].format(failed=failed, errors=listed)
    if len(choice.finished) == 1:
        name = choice.finished[0].name
        if choice.failed:
            return _DECISIONS["single, others failed"].format(best=name)
        return _DECISIONS["single"].format(best=name)
    text = _decision_on_finished(choice)
    if not choice.failed:
        return text
    failures = len(choice.failed)
    return _DECISIONS["failed"].format(failed=failures, total=len(choice), decision=text)


def costs_in_words(choice: Choice) -> str:
    """What the recommended configuration costs, beside the best mean; "" where none is."""
    recommended = choice.recommended
    if recommended is None or not choice.costs or len(choice.finished) < 2 or choice.is_same:
        return ""
    best = choice.ranked[0]
    if recommended is best:
        kind, costs = "of the best", _costs(choice, best)
    else:
        kind = "of another"
        costs = ", ".join(_cost_against(cost, recommended, best) for cost in choice.costs)
    return _COSTS[kind].format(
        highest=_highest(choice),
        best=best.name,
        mean=_mean(choice, recommended),
        best_mean=_mean(choice, best),
        costs=costs,
    )


def _decision_on_finished(choice: Choice) -> str:
    """The decision on two configurations or more that were evaluated."""
    fields: dict[str, Any] = {
        "n": len(choice.finished),
        "metric": choice.primary,
        "questions": questions(choice.n_questions),
        "confidence": percent(choice.confidence),
    }
    recommended, leader = choice.recommended, choice.leader
    if recommended is not None:
        fields["recommended"] = recommended.name
        fields["costs"] = _costs(choice, recommended)
        fields["bound"] = _bound(choice, recommended)
    if leader is not None:
        fields["winner"] = leader.name
    kind = _kind(choice)
    if kind == "too few":
        fields |= _fields_of_too_few(choice)
    return _DECISIONS[kind].format(**fields)


def _kind(choice: Choice) -> str:
    """Which of the decisions it is."""
    recommended, leader = choice.recommended, choice.leader
    if not choice.n_questions:
        return "nothing in common"
    if choice.is_same and recommended is not None:
        if _is_cheaper(choice, recommended):
            return "the same, cheapest"
        return "the same"
    if leader is not None:
        if recommended in (None, leader):
            return "winner"
        return "winner, another is cheaper"
    if recommended is None:
        return "too few"
    if choice.at_most_worse(recommended):
        return "take"
    return "take, no worse"


def _fields_of_too_few(choice: Choice) -> dict[str, str]:
    best, needed = choice.ranked[0], choice.questions_needed
    fields = {"aim": "is the best", "until": "", "limit": "", "best": best.name}
    if choice.tolerance:
        fields["aim"] = f"is within {given(choice.tolerance)} of the best"
    if needed is not None:
        fields["until"] = _UNTIL.format(needed=two_digits_up(needed))
    if choice.at_most_worse(best) < math.inf:
        fields["limit"] = _LIMIT.format(bound=_bound(choice, best))
    return {**fields, "highest": _highest(choice), "mean": _mean(choice, best)}


def _is_cheaper(choice: Choice, recommended: Configuration) -> bool:
    """Whether it costs less than any other one."""
    for cost in choice.costs:
        amounts = [getattr(configuration, cost) for configuration in choice.finished]
        if saves(cost, max(amounts), getattr(recommended, cost)):
            return True
    return False


def _highest(choice: Choice) -> str:
    if lower_is_better(choice.primary):
        return "lowest mean"
    return "highest mean"


def _mean(choice: Choice, configuration: Configuration) -> str:
    return score(choice.common_mean(configuration), digits=3)


def _bound(choice: Choice, configuration: Configuration) -> str:
    bound = choice.at_most_worse(configuration)
    if bound == math.inf:
        return ""
    return rounded_up(bound, 3)


def _costs(choice: Choice, configuration: Configuration) -> str:
    return ", ".join(_cost(cost, configuration) for cost in choice.costs)


def _cost(cost: Cost, configuration: Configuration) -> str:
    return _COSTS[cost].format(amount=_amount(cost, configuration))


def _cost_against(cost: Cost, recommended: Configuration, best: Configuration) -> str:
    """A cost beside that of the best mean, and by how much it differs where that counts."""
    amount, amount_of_best = getattr(recommended, cost), getattr(best, cost)
    is_less, is_more = saves(cost, amount_of_best, amount), saves(cost, amount, amount_of_best)
    kind, factor = "against", ""
    if amount_of_best and (is_less or is_more):
        kind, factor = "against, saved", times(amount / amount_of_best)
    return _COSTS[kind].format(
        cost=_cost(cost, recommended), amount=_amount(cost, best), times=factor
    )


def _amount(cost: Cost, configuration: Configuration) -> str:
    amount = getattr(configuration, cost)
    if cost == "tokens":
        return count(amount)
    return seconds(amount)
