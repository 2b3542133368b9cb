"""From what was measured to the verdicts of all rules together.

A gate passes where every rule passes, so each bound for passing holds on its own. It fails where
any rule fails, so with m rules each fails with confidence 1 - (1 - c) / m, step by step as Holm's
(1979) method does: an unchanged system then fails in at most 1 - c of cases, however many rules
there are. Rules that test the same numbers against the same limit count once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from llama_index_rag_metrics.decisions.gate.bounds import PairedEvidence
from llama_index_rag_metrics.decisions.gate.gate_sentences import sentence
from llama_index_rag_metrics.decisions.gate.measuring import Measured
from llama_index_rag_metrics.decisions.gate.rules import Rule
from llama_index_rag_metrics.decisions.gate.verdicts import Outcome, Verdict
from llama_index_rag_metrics.statistics.resampling import NOISE


def decide(measured: Sequence[tuple[Rule, Measured]], min_coverage: float) -> list[Verdict]:
    """The verdict of each rule, in the order given."""
    tests = {
        number: _key(rule, measured_rule)
        for number, (rule, measured_rule) in enumerate(measured)
        if measured_rule.evidence is not None and not _certain(rule, measured_rule, min_coverage)
    }
    together = _step_down(measured, tests)
    return [
        _verdict(rule, measured_rule, together.get(number, 1), min_coverage)
        for number, (rule, measured_rule) in enumerate(measured)
    ]


def _certain(rule: Rule, measured: Measured, min_coverage: float) -> Outcome | None:
    """The verdict that needs no bounds; None where bounds decide."""
    if not measured.n or measured.coverage < min_coverage - NOISE:
        return "fail"
    if measured.identical and rule.baseline:
        return "pass" if _keeps(rule, 0.0) else "fail"
    if measured.evidence is not None:
        return None
    value = measured.value if measured.difference is None else measured.difference
    return "pass" if _keeps(rule, value) else "fail"


def _step_down(
    measured: Sequence[tuple[Rule, Measured]], tests: Mapping[int, Hashable]
) -> dict[int, int]:
    """How many tests each test is corrected for, by its number."""
    left, together = dict(tests), {}
    while left:
        m = len(set(left.values()))
        failing = [number for number in left if _breaks(*measured[number], m)]
        for number in failing or left:
            together[number] = m
        left = (
            {number: key for number, key in left.items() if number not in failing}
            if failing
            else {}
        )
    return together


def _breaks(rule: Rule, measured: Measured, together: int) -> bool:
    highest = _highest(rule, measured, together)
    return highest is not None and not _keeps(rule, _turned(rule, highest))


def _highest(rule: Rule, measured: Measured, together: int) -> float | None:
    assert measured.evidence is not None
    return measured.evidence.highest(corrected(rule, together))


def corrected(rule: Rule, together: int) -> float:
    """The confidence at which one of this many rules fails."""
    return 1 - (1 - (rule.confidence or 0.0)) / together


def _verdict(rule: Rule, measured: Measured, together: int, min_coverage: float) -> Verdict:
    outcome, method = _certain(rule, measured, min_coverage), ""
    bad = good = needed = decidable = None
    if measured.identical and rule.confidence is not None and outcome is not None and measured.n:
        method, bad, good = "identical rankings", 0.0, 0.0
    elif measured.evidence is not None and outcome is None:
        confidence, method = rule.confidence or 0.0, measured.evidence.method
        lowest, highest = measured.evidence.lowest(confidence), _highest(rule, measured, together)
        bad = None if lowest is None else _turned(rule, lowest)
        good = None if highest is None else _turned(rule, highest)
        outcome = _by_bounds(rule, bad, good)
        is_open = outcome == "inconclusive" and not (highest is not None and highest < -NOISE)
        if is_open and isinstance(measured.evidence, PairedEvidence):
            needed = measured.evidence.needed(rule.tolerance, confidence)
            decidable = measured.evidence.decidable(confidence)
    lower, upper = (good, bad) if rule.lower_is_better else (bad, good)
    verdict = Verdict(
        rule=rule,
        metric=measured.metric,
        outcome=outcome or "inconclusive",
        value=measured.value,
        baseline=measured.baseline,
        difference=measured.difference,
        lower=lower,
        upper=upper,
        n=measured.n,
        method=method,
        needed=needed,
        sentence="",
        expected=measured.expected,
        covered=measured.coverage >= min_coverage - NOISE,
        together=together,
        decidable=decidable,
    )
    return replace(verdict, sentence=sentence(verdict))


def _by_bounds(rule: Rule, bad: float | None, good: float | None) -> Outcome:
    if bad is not None and _keeps(rule, bad):
        return "pass"
    return "fail" if good is not None and not _keeps(rule, good) else "inconclusive"


def _keeps(rule: Rule, value: float) -> bool:
    """Whether a value keeps to the limit, rounding noise aside."""
    beyond = (rule.value - value) if rule.lower_is_better else (value - rule.value)
    return beyond > NOISE if rule.strict else beyond >= -NOISE


def _turned(rule: Rule, bound: float) -> float:
    """A bound of negated scores, turned into one of the scores."""
    return -bound if rule.lower_is_better else bound


def _key(rule: Rule, measured: Measured) -> Hashable:
    assert measured.evidence is not None
    return (
        measured.evidence.values.tobytes(),
        rule.value,
        rule.sign,
        rule.confidence,
        rule.baseline,
    )
