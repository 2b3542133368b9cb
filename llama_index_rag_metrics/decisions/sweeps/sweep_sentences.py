"""What a sweep says: its decision, and what the recommended configuration costs."""

from __future__ import annotations

import math

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

from .choice import Choice, Configuration, Cost, saves

_MOST_ERRORS = 3
_NOTHING = "Nothing was measured: {failed} failed ({errors})."
_DECISIONS = {
    "single": "Only {best} was evaluated: there is nothing to compare it with.",
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
    "winner": "{best} is the best of {n} on {metric}.",
    "winner, another is cheaper": (
        "{best} is the best of {n} on {metric}; {recommended} costs less and is at most {bound} "
        "worse."
    ),
    "take": (
        "Take {recommended}: it is at most {bound} worse than the best of {n} on {metric} "
        "({confidence} confidence, {questions})."
    ),
    "too few": (
        "Not enough questions to choose one of {n} configurations that {aim} on {metric}: {until}"
        "keep {best}. It has the {highest} ({mean} on {questions}){limit}."
    ),
}
_FAILED = (
    "No decision: {failed} of {total} configurations failed and may be better. Of the others: "
    "{decision}"
)
_COSTS_OF_BEST = "It has the {highest} ({mean}), {costs}."
_COSTS_OF_ANOTHER = "Against the {highest}, {best}: {mean} instead of {best_mean}, {costs}."
_COST = {"tokens": "{amount} tokens a question", "p95": "p95 {amount}"}
_AGAINST = "{cost} instead of {amount}"
_AGAINST_SAVED = "{cost} instead of {amount} ({times})"


def decision_in_words(choice: Choice) -> str:
    """The result in one or two sentences."""
    if not choice.finished:
        errors = dict.fromkeys(configuration.error for configuration in choice.failed)
        failed = counted(len(choice.failed), "configuration", "configurations")
        return _NOTHING.format(failed=failed, errors=join_first([*errors], _MOST_ERRORS))
    text = _DECISIONS[_kind(choice)].format(**_fields(choice))
    if choice.failed and len(choice.finished) > 1:
        return _FAILED.format(failed=len(choice.failed), total=len(choice), decision=text)
    return text


def costs_in_words(choice: Choice) -> str:
    """What the recommended configuration costs, beside the best mean; "" where none is."""
    recommended = choice.recommended
    if recommended is None or not choice.costs or len(choice.finished) < 2 or choice.is_same:
        return ""
    best = choice.ranked[0]
    fields = {"highest": _highest(choice), "mean": _mean(choice, recommended)}
    if recommended is best:
        return _COSTS_OF_BEST.format(costs=_costs(choice, best), **fields)
    costs = ", ".join(_cost_against(cost, recommended, best) for cost in choice.costs)
    best_mean = _mean(choice, best)
    return _COSTS_OF_ANOTHER.format(best=best.name, best_mean=best_mean, costs=costs, **fields)


def _kind(choice: Choice) -> str:
    """Which of the decisions it is."""
    recommended, leader = choice.recommended, choice.leader
    if len(choice.finished) == 1:
        return "single"
    if not choice.n_questions:
        return "nothing in common"
    if choice.is_same and recommended is not None:
        return "the same, cheapest" if _is_cheaper(choice, recommended) else "the same"
    if leader is not None:
        return "winner" if recommended in (None, leader) else "winner, another is cheaper"
    return "too few" if recommended is None else "take"


def _fields(choice: Choice) -> dict[str, object]:
    """What any of the decisions names."""
    best = choice.leader or choice.ranked[0]
    recommended = choice.recommended or best
    aim, until, limit = "is the best", "", ""
    if choice.tolerance:
        aim = f"is within {given(choice.tolerance)} of the best"
    if choice.questions_needed is not None:
        until = f"until you have about {two_digits_up(choice.questions_needed)}, "
    bound = _bound(choice, best)
    if bound:
        limit = f" and is at most {bound} worse than the best"
    return {
        "n": len(choice.finished),
        "metric": choice.primary,
        "questions": questions(choice.n_questions),
        "confidence": percent(choice.confidence),
        "highest": _highest(choice),
        "best": best.name,
        "mean": _mean(choice, best),
        "recommended": recommended.name,
        "costs": _costs(choice, recommended),
        "bound": _bound(choice, recommended),
        "aim": aim,
        "until": until,
        "limit": limit,
    }


def _is_cheaper(choice: Choice, recommended: Configuration) -> bool:
    """Whether it costs less than any other one."""
    for cost in choice.costs:
        highest = max(getattr(configuration, cost) for configuration in choice.finished)
        if saves(cost, highest, getattr(recommended, cost)):
            return True
    return False


def _highest(choice: Choice) -> str:
    return "lowest mean" if lower_is_better(choice.primary) else "highest mean"


def _mean(choice: Choice, configuration: Configuration) -> str:
    return score(choice.common_mean(configuration), digits=3)


def _bound(choice: Choice, configuration: Configuration) -> str:
    bound = choice.at_most_worse(configuration)
    return rounded_up(bound, 3) if math.isfinite(bound) else ""


def _costs(choice: Choice, configuration: Configuration) -> str:
    return ", ".join(_cost(cost, configuration) for cost in choice.costs)


def _cost(cost: Cost, configuration: Configuration) -> str:
    return _COST[cost].format(amount=_amount(cost, configuration))


def _cost_against(cost: Cost, recommended: Configuration, best: Configuration) -> str:
    """A cost beside that of the best mean, and by how much it differs where that counts."""
    amount, amount_of_best = getattr(recommended, cost), getattr(best, cost)
    fields = {"cost": _cost(cost, recommended), "amount": _amount(cost, best)}
    is_other = saves(cost, amount_of_best, amount) or saves(cost, amount, amount_of_best)
    if amount_of_best and is_other:
        return _AGAINST_SAVED.format(times=times(amount / amount_of_best), **fields)
    return _AGAINST.format(**fields)


def _amount(cost: Cost, configuration: Configuration) -> str:
    amount = getattr(configuration, cost)
    return count(amount) if cost == "tokens" else seconds(amount)
