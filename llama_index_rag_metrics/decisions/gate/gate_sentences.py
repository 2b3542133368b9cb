"""The sentence of a verdict: what was found, what the rule wants, and what would decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from llama_index_rag_metrics.decisions import better_and_worse
from llama_index_rag_metrics.decisions.power_report import about
from llama_index_rag_metrics.metrics.passes import Passes
from llama_index_rag_metrics.report.numbers import (
    count,
    counted,
    digits_of,
    given,
    percent,
    questions,
    rounded_up,
    score,
)
from llama_index_rag_metrics.scores.scores_report import listed
from llama_index_rag_metrics.statistics.resampling import NOISE

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.gate.rules import Rule
    from llama_index_rag_metrics.decisions.gate.verdicts import Verdict


def sentence(verdict: Verdict) -> str:
    """What was found, what the rule wants, and where it is undecided, what would decide."""
    if verdict.parts:
        worst = sentence(replace(verdict, parts=()))
        return f"{worst} {_of_parts(verdict.parts)}".rstrip()
    lacking = verdict.expected - verdict.n
    if not verdict.n or (lacking <= 0 and verdict.covered):
        return _finding(verdict)
    if lacking <= 0:
        return f"{_finding(verdict)} Too few of their runs have a value, whatever the numbers say."
    few = f"Only {verdict.n:,} of {questions(verdict.expected)} have {_value(verdict.rule)}"
    end = "" if verdict.covered else ": too few to judge by, whatever the numbers say"
    return f"{_finding(verdict)} {few}{end}."


def _finding(verdict: Verdict) -> str:
    rule, n = verdict.rule, verdict.n
    metric = f"{verdict.metric} in {verdict.part}" if verdict.part else verdict.metric
    if not n:
        none = f"none of {questions(verdict.expected)} has {_value(rule)}"
        why = none if verdict.expected else "there are no questions"
        if verdict.expected and (passes := Passes.split(verdict.metric)[0]) is not None:
            why += f"; {passes} needs a metric that is always 0 or 1, and {passes.k} runs or more"
        return f"{metric} can't be judged: {why}."
    now = f"{metric} is {_number(verdict.value, n, rule)}"
    if isinstance(verdict.value, int):
        return f"{now}, must be {_wanted(rule)}."
    if not rule.baseline:
        found = f"{now}{_bound(verdict)}, must be {_wanted(rule)} ({questions(n)})."
        can_tell = verdict.outcome != "inconclusive"
        return found if can_tell else f"{found} {questions(n)} can't tell."
    if verdict.method == "identical rankings":
        same = f"{now} as in the {rule.reference}: the rankings of all {questions(n)} are identical"
        return f"{same}{'' if verdict.outcome == 'pass' else f'; {_wanted(rule)}'}."
    before = f"{_number(verdict.baseline or 0.0, n, rule)} in the {rule.reference}"
    change = f"{_change(verdict.difference or 0.0, verdict)}{_bound(verdict)}"
    found = f"{now} against {before}, {change}; {_wanted(rule)} ({questions(n)})."
    return f"{found}{_way_out(verdict)}"


_SAYS = {
    "fail": ("fails", "fail"),
    "inconclusive": ("is inconclusive", "are inconclusive"),
    "pass": ("passes", "pass"),
}


def _of_parts(parts: Sequence[Verdict]) -> str:
    """How many slices keep the rule, which don't, and which are too small to tell."""
    small = [part for part in parts if part.least is not None]
    found = []
    for outcome, (one, several) in _SAYS.items():
        some = [
            slice_name(part) for part in parts if part.least is None and part.outcome == outcome
        ]
        if some:
            named = "" if outcome == "pass" else f" ({listed(some)})"
            found.append(f"{len(some):,} {one if len(some) == 1 else several}{named}")
    told = [f"Of {counted(len(parts), 'slice', 'slices')}, {', '.join(found)}."] if found else []
    if small:
        small.sort(key=_lost, reverse=True)
        sizes = listed([f"{slice_name(part)} ({part.n:,}{_seen(part)})" for part in small])
        least = max(part.least or 0 for part in small)
        told += [f"Too small to pass even at best, with fewer than {questions(least)}: {sizes}."]
    return " ".join(told)


def _lost(part: Verdict) -> float:
    """How much was lost against the baseline; 0 without one, or without questions."""
    lost = part.difference or 0.0
    return lost if part.rule.lower_is_better else -lost


def _seen(part: Verdict) -> str:
    """The loss that was seen, where it is more than is tolerated: too few questions to prove it."""
    is_beyond = part.n and part.difference is not None and _lost(part) > part.rule.tolerance + NOISE
    return f", with {_change(part.difference or 0.0, part)}" if is_beyond else ""


def slice_name(part: Verdict) -> str:
    """The value alone, beside which its key is known."""
    return part.part.removeprefix(f"{part.rule.every} ")


def _number(value: float | int, n: int, rule: Rule) -> str:
    """A count in full, or a score in the digits that n carries, told apart from a fixed limit."""
    if isinstance(value, int):
        return count(value)
    return score(value, None if rule.baseline else rule.value, digits_of(n))


def _change(difference: float, verdict: Verdict) -> str:
    """Such as "a loss of 0.58", told apart from none and from what is tolerated."""
    if abs(difference) <= NOISE:
        return "no change"
    lower = verdict.rule.lower_is_better
    gain, loss = better_and_worse(lower_is_better=lower)
    limits = 0.0, abs(verdict.rule.tolerance)
    texts = (score(abs(difference), limit, digits_of(verdict.n)) for limit in limits)
    return f"a {loss if (difference > 0) == lower else gain} of {max(texts, key=len)}"


def _value(rule: Rule) -> str:
    return f"a value both now and in the {rule.reference}" if rule.baseline else "a value"


def _wanted(rule: Rule) -> str:
    """What a rule asks for, after "must be" where it has no baseline."""
    if not rule.baseline:
        beyond = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
        return f"{beyond[rule.sign]} {rule.limit}"
    if rule.tolerance < 0 or (rule.strict and not rule.tolerance):
        return f"{_required(rule)} is required"
    _, loss = better_and_worse(lower_is_better=rule.lower_is_better)
    if not rule.tolerance:
        return f"no {loss} is allowed"
    limit = "less than" if rule.strict else "up to"
    return f"a {loss} of {limit} {given(rule.tolerance)} is allowed"


def _required(rule: Rule) -> str:
    gain, _ = better_and_worse(lower_is_better=rule.lower_is_better)
    least = f" of {'more than' if rule.strict else 'at least'} {given(-rule.tolerance)}"
    return f"a {gain}{least if rule.tolerance else ''}"


def _bound(verdict: Verdict) -> str:
    """How bad it may be; of a rule that fails, how good."""
    rule, is_fail = verdict.rule, verdict.outcome == "fail"
    bound = verdict.upper if is_fail != rule.lower_is_better else verdict.lower
    if rule.confidence is None or not verdict.covered or bound is None:
        return ""
    text = _change(bound, verdict) if rule.baseline else _number(bound, verdict.n, rule)
    end = "at best" if is_fail else "at worst"
    return f" ({end} {text} with {percent(verdict.confidence)} confidence)"


def _way_out(verdict: Verdict) -> str:
    """What can't be told, and what would tell it."""
    if verdict.outcome != "inconclusive":
        return ""
    rule, n = verdict.rule, questions(verdict.n)
    _, loss = better_and_worse(lower_is_better=rule.lower_is_better)
    good = -(verdict.lower or 0.0) if rule.lower_is_better else verdict.upper or 0.0
    if rule.tolerance > 0 and good < 0:
        size = given(rule.tolerance)
        return f" The {loss} is clear; whether it is more than {size}, {n} can't tell."
    if rule.tolerance < 0 or (rule.strict and not rule.tolerance):
        open_question = f" {_required(rule).capitalize()} isn't shown with {n}."
    else:
        more = "or more" if rule.strict else ""
        most = f" of {'' if more else 'more than '}{given(rule.tolerance)}{more and f' {more}'}"
        size = most if rule.tolerance else ""
        open_question = f" A {loss}{size} can't be ruled out with {n}."
    allow = "" if verdict.decidable is None else f"allow {rounded_up(verdict.decidable, 2)}"
    if verdict.needed is not None:
        return f"{open_question} Use {about(verdict.needed)}{f', or {allow}' if allow else ''}."
    if allow and not rule.tolerance and not rule.strict:
        return f"{open_question} No number of questions rules out every {loss}: {allow}."
    return open_question
