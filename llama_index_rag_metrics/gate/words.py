"""The verdict in plain words, with the numbers that it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_index_rag_metrics.report.numbers import count, counted, percent, score, signed
from llama_index_rag_metrics.statistics.resampling import NOISE

if TYPE_CHECKING:
    from llama_index_rag_metrics.gate.rules import Rule
    from llama_index_rag_metrics.gate.verdicts import Verdict


def sentence(verdict: Verdict) -> str:
    """One plain sentence."""
    rule, metric, n = verdict.rule, verdict.metric, verdict.n
    if not n:
        both = " on both sides" if rule.baseline else ""
        return f"{metric} can't be judged: no query has a value{both}."
    if not rule.baseline:
        found = f"{metric} is {number(verdict.value, rule.value)}"
        if isinstance(verdict.value, int):
            return f"{found}; {_wish(rule)} is wanted."
        wanted = f"{_wish(rule)} is wanted{_way_out(verdict)}."
        return f"{found} over {counted(n)}{_bounds(verdict)}; {wanted}"
    difference = verdict.difference or 0.0
    if verdict.method == "constant" and abs(difference) <= NOISE:
        same = f"{metric} is {number(verdict.value)}, the same as in the baseline"
        than = "" if verdict.outcome == "pass" else f"; {_wish(rule)}"
        return f"{same} on all {counted(n)}{than}."
    return (
        f"{metric} is {number(verdict.value)} against {number(verdict.baseline or 0.0)}, "
        f"{signed(difference, rule.value)} over {counted(n)}{_bounds(verdict)}; {_wish(rule)}"
        f"{_way_out(verdict)}."
    )


def number(value: float | int, limit: float | None = None) -> str:
    """A count in full, or a score, told apart from the limit."""
    return count(value) if isinstance(value, int) else score(value, limit)


def _wish(rule: Rule) -> str:
    if not rule.baseline:
        beyond = {">=": "{} or more", ">": "more than {}", "<=": "{} or less", "<": "less than {}"}
        return beyond[rule.sign].format(rule.limit)
    slack = rule.value if rule.lower_is_better else -rule.value
    by = f"{abs(rule.value):.12g}"
    if slack > 0:
        return f"{'less than' if rule.strict else 'no more than'} {by} worse is tolerated"
    if slack < 0:
        return f"{'more than' if rule.strict else 'at least'} {by} better is wanted"
    return "better is wanted" if rule.strict else "none worse is tolerated"


def _bounds(verdict: Verdict) -> str:
    rule, lower, upper = verdict.rule, verdict.lower, verdict.upper
    if rule.confidence is None:
        return ""
    if verdict.method == "constant":
        return ", the same change on each"
    low, high = (
        None if one is None else (signed if rule.baseline else number)(one, rule.value)
        for one in (lower, upper)
    )
    bad, good = (high, low) if rule.lower_is_better else (low, high)
    above, below = ("below", "above") if rule.lower_is_better else ("above", "below")
    at = f"with {percent(rule.confidence or 0)} confidence"
    if verdict.outcome == "pass":
        return f", {at} {above} {bad}"
    if verdict.outcome == "fail":
        return f", {at} {below} {good}"
    if low is None or high is None:
        return ", too few for bounds"
    return f", {at} above {low}, and likewise below {high}"


def _way_out(verdict: Verdict) -> str:
    if verdict.outcome != "inconclusive":
        return ""
    if verdict.needed is None:
        return ": so few queries can't tell"
    return f": {counted(verdict.n)} can't tell, about {_up(verdict.needed):,} like these would"


def _up(n: int) -> int:
    """Rounded up to two digits.

    >>> _up(201), _up(299_639), _up(58)
    (210, 300000, 58)
    """
    unit = int(10 ** max(0, len(str(n)) - 2))
    return -(-n // unit) * unit
