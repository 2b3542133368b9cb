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

_MOST = 100_000


def sentence(verdict: Verdict) -> str:
    """One plain sentence, or two where values are missing."""
    return f"{_finding(verdict)}{_missing(verdict)}"


def _finding(verdict: Verdict) -> str:
    rule, metric, n = verdict.rule, verdict.metric, verdict.n
    if not n:
        none = f"none of {counted(verdict.expected)} has {_what(rule)}"
        return f"{metric} can't be judged: {none if verdict.expected else 'there are no queries'}."
    if not rule.baseline:
        start = f"{metric} is {number(verdict.value, rule.value)}"
        if isinstance(verdict.value, int):
            return f"{start}; the rule wants {_wanted(rule)}."
        wanted = f"the rule wants {_wanted(rule)}{_way_out(verdict)}."
        return f"{start} over {counted(n)}{_bounds(verdict)}; {wanted}"
    if verdict.method == "identical rankings":
        same = f"{metric} is {number(verdict.value)} as in the {rule.reference}"
        than = "" if verdict.outcome == "pass" else f"; the rule wants {_wanted(rule)}"
        return f"{same}: the rankings of all {counted(n)} are identical{than}."
    return (
        f"{metric} is {number(verdict.value)} against {number(verdict.baseline or 0.0)} in the "
        f"{rule.reference}, {signed(verdict.difference or 0.0, rule.value)} over {counted(n)}"
        f"{_bounds(verdict)}; the rule {_wish(rule)}{_way_out(verdict)}."
    )


def _missing(verdict: Verdict) -> str:
    lacking = verdict.expected - verdict.n
    if lacking <= 0 or not verdict.n:
        return ""
    what = _what(verdict.rule)
    share = f"{verdict.n:,} of {counted(verdict.expected)}"
    if verdict.covered:
        return f" Only {share} have {what}."
    return f" Only {share} have {what}: too few to judge by, whatever the numbers say."


def number(value: float | int, limit: float | None = None) -> str:
    """A count in full, or a score, told apart from the limit."""
    return count(value) if isinstance(value, int) else score(value, limit)


def _what(rule: Rule) -> str:
    return f"a value both now and in the {rule.reference}" if rule.baseline else "a value"


def _wanted(rule: Rule) -> str:
    if rule.baseline:
        return f"a {_better(rule)}{_by(rule)}"
    beyond = {">=": "{} or more", ">": "more than {}", "<=": "{} or less", "<": "less than {}"}
    return beyond[rule.sign].format(rule.limit)


def _wish(rule: Rule) -> str:
    if rule.tolerance > 0:
        limit = "less than" if rule.strict else "up to"
        return f"tolerates a {_worse(rule)} of {limit} {given(rule.tolerance)}"
    if rule.tolerance < 0 or rule.strict:
        return f"wants a {_better(rule)}{_by(rule)}"
    return f"tolerates no {_worse(rule)}"


def _worse(rule: Rule) -> str:
    return "rise" if rule.lower_is_better else "loss"


def _better(rule: Rule) -> str:
    return "fall" if rule.lower_is_better else "gain"


def _by(rule: Rule) -> str:
    if not rule.tolerance:
        return ""
    return f" of {'more than' if rule.strict else 'at least'} {given(-rule.tolerance)}"


def _bounds(verdict: Verdict) -> str:
    rule, lower, upper = verdict.rule, verdict.lower, verdict.upper
    if rule.confidence is None or not verdict.covered:
        return ""
    low, high = (
        None if bound is None else (signed if rule.baseline else number)(bound, rule.value)
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
    few = f"{counted(verdict.n)} {_are(verdict.n)} too few to tell"
    if _is_loss(verdict):
        more = given(verdict.rule.tolerance)
        return f": the loss is clear, but {few} whether it is more than {more}"
    tolerance = (
        "" if verdict.decidable is None else f"a tolerance of {hundredths_up(verdict.decidable)}"
    )
    if verdict.needed is not None:
        other = f", or {tolerance}" if tolerance else ""
        return f": {few}; {_many(verdict.needed)} would be needed{other}"
    if tolerance and not verdict.rule.tolerance and not verdict.rule.strict:
        return (
            f": {few}, and no number would show that nothing at all was lost; {tolerance} can be "
            "decided"
        )
    return f": {few}"


def _is_loss(verdict: Verdict) -> bool:
    good = verdict.lower if verdict.rule.lower_is_better else verdict.upper
    if not verdict.rule.baseline or verdict.rule.tolerance <= 0 or good is None:
        return False
    return good > 0 if verdict.rule.lower_is_better else good < 0


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def _many(n: int) -> str:
    """How many queries, as far as anybody would label them.

    >>> _many(583), _many(78_000_000)
    ('about 590', 'more than 100,000')
    """
    return f"about {up_to_two_digits(n):,}" if n <= _MOST else f"more than {_MOST:,}"
