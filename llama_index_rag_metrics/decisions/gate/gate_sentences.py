"""The verdict in plain words, with the numbers that it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_index_rag_metrics.decisions.comparison.comparison_sentences import up_to_two_digits
from llama_index_rag_metrics.report.numbers import (
    count,
    counted,
    given,
    hundredths_up,
    percent,
    score,
    signed,
)

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.gate.rules import Rule
    from llama_index_rag_metrics.decisions.gate.verdicts import Verdict

_MOST_QUERIES = 100_000
"""More than anybody would label."""


def sentence(verdict: Verdict) -> str:
    """One plain sentence, or two where values are missing."""
    lacking = verdict.expected - verdict.n
    if lacking <= 0 or not verdict.n:
        return _finding(verdict)
    few = f"Only {verdict.n:,} of {counted(verdict.expected)} have {_value(verdict.rule)}"
    end = "" if verdict.covered else ": too few to judge by, whatever the numbers say"
    return f"{_finding(verdict)} {few}{end}."


def _finding(verdict: Verdict) -> str:
    rule, metric, n = verdict.rule, verdict.metric, verdict.n
    if not n:
        none = f"none of {counted(verdict.expected)} has {_value(rule)}"
        return f"{metric} can't be judged: {none if verdict.expected else 'there are no queries'}."
    if not rule.baseline:
        start = f"{metric} is {_number(verdict.value, rule.value)}"
        if isinstance(verdict.value, int):
            return f"{start}; the rule wants {_wanted(rule)}."
        wanted = f"the rule wants {_wanted(rule)}{_way_out(verdict)}."
        return f"{start} over {counted(n)}{_bounds(verdict)}; {wanted}"
    if verdict.method == "identical rankings":
        same = f"{metric} is {_number(verdict.value)} as in the {rule.reference}"
        than = "" if verdict.outcome == "pass" else f"; the rule wants {_wanted(rule)}"
        return f"{same}: the rankings of all {counted(n)} are identical{than}."
    return (
        f"{metric} is {_number(verdict.value)} against {_number(verdict.baseline or 0.0)} in the "
        f"{rule.reference}, {signed(verdict.difference or 0.0, rule.value)} over {counted(n)}"
        f"{_bounds(verdict)}; the rule {_wish(rule)}{_way_out(verdict)}."
    )


def _number(value: float | int, limit: float | None = None) -> str:
    """A count in full, or a score, told apart from the limit."""
    return count(value) if isinstance(value, int) else score(value, limit)


def _value(rule: Rule) -> str:
    return f"a value both now and in the {rule.reference}" if rule.baseline else "a value"


def _wanted(rule: Rule) -> str:
    if rule.baseline:
        return _gain(rule)
    beyond = {">=": "{} or more", ">": "more than {}", "<=": "{} or less", "<": "less than {}"}
    return beyond[rule.sign].format(rule.limit)


def _wish(rule: Rule) -> str:
    loss = "rise" if rule.lower_is_better else "loss"
    if rule.tolerance > 0:
        limit = "less than" if rule.strict else "up to"
        return f"tolerates a {loss} of {limit} {given(rule.tolerance)}"
    if rule.tolerance < 0 or rule.strict:
        return f"wants {_gain(rule)}"
    return f"tolerates no {loss}"


def _gain(rule: Rule) -> str:
    gain = "a fall" if rule.lower_is_better else "a gain"
    least = f" of {'more than' if rule.strict else 'at least'} {given(-rule.tolerance)}"
    return f"{gain}{least if rule.tolerance else ''}"


def _bounds(verdict: Verdict) -> str:
    rule, lower, upper = verdict.rule, verdict.lower, verdict.upper
    if rule.confidence is None or not verdict.covered:
        return ""
    low, high = (
        None if bound is None else (signed if rule.baseline else _number)(bound, rule.value)
        for bound in (lower, upper)
    )
    bad, good = (high, low) if rule.lower_is_better else (low, high)
    above, below = ("below", "above") if rule.lower_is_better else ("above", "below")
    level = f"with {percent(verdict.confidence)} confidence"
    if verdict.outcome == "pass":
        return f", {level} {above} {bad}"
    if verdict.outcome == "fail":
        return f", {level} {below} {good}"
    if low is None or high is None:
        return ""
    # with several rules the bound for failing has more confidence than was asked
    least = "at least " if verdict.together > 1 else ""
    return f" (between {low} and {high}, with {least}{percent(verdict.confidence)} confidence each)"


def _way_out(verdict: Verdict) -> str:
    if verdict.outcome != "inconclusive":
        return ""
    rule = verdict.rule
    few = f"{counted(verdict.n)} {'is' if verdict.n == 1 else 'are'} too few to tell"
    good = -(verdict.lower or 0.0) if rule.lower_is_better else verdict.upper or 0.0
    if rule.baseline and rule.tolerance > 0 and good < 0:
        return f": the loss is clear, but {few} whether it is more than {given(rule.tolerance)}"
    tolerance = (
        "" if verdict.decidable is None else f"a tolerance of {hundredths_up(verdict.decidable)}"
    )
    if verdict.needed is not None:
        needed = f"about {up_to_two_digits(verdict.needed):,}"
        if verdict.needed > _MOST_QUERIES:
            needed = f"more than {_MOST_QUERIES:,}"
        return f": {few}; {needed} would be needed{f', or {tolerance}' if tolerance else ''}"
    if tolerance and not rule.tolerance and not rule.strict:
        return (
            f": {few}, and no number would show that nothing at all was lost; {tolerance} can be "
            "decided"
        )
    return f": {few}"
