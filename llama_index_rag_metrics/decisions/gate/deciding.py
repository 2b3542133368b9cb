"""From what was measured to the verdicts of all rules together.

A gate passes where every rule passes, so each bound for passing holds on its own. It fails where
any rule fails, so with m rules each fails with confidence 1 - (1 - c) / m, step by step as Holm's
(1979) method does: an unchanged system then fails in at most 1 - c of cases, however many rules
there are. Rules that test the same numbers against the same limit count once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

from llama_index_rag_metrics.statistics.resampling import NOISE

from .measuring import Evidence, Measured, PairedEvidence
from .rules import Rule
from .verdict import Outcome, Verdict, corrected_confidence


def decide(rules: Sequence[Rule], measured: Sequence[Measured]) -> list[Verdict]:
    """The verdict of each rule, in the order given."""
    tests: dict[int, _Test] = {}
    for position, (rule, numbers) in enumerate(zip(rules, measured, strict=True)):
        if numbers.evidence is not None and _certain_outcome(rule, numbers) is None:
            tests[position] = _Test(rule, numbers.evidence)
    together = _numbers_of_tests(tests)
    verdicts = []
    for position, (rule, numbers) in enumerate(zip(rules, measured, strict=True)):
        verdict = _undecided(rule, numbers)
        if position in tests:
            verdict = _decided(verdict, tests[position].evidence, together[position])
        verdicts.append(verdict)
    return verdicts


class _Test(NamedTuple):
    """A rule that bounds decide."""

    rule: Rule
    evidence: Evidence

    @property
    def key(self) -> Hashable:
        """Equal for rules that test the same numbers against the same limit."""
        return self.evidence.values.tobytes(), replace(self.rule, metric="")

    def fails(self, together: int) -> bool:
        """Whether the rule fails as one of so many."""
        highest = self.evidence.bounds(corrected_confidence(self.rule, together))[1]
        return highest is not None and not self.rule.is_kept_by(self.rule.improvement(highest))


def _numbers_of_tests(tests: dict[int, _Test]) -> dict[int, int]:
    """How many tests each test is corrected for: those that failed no longer count."""
    undecided = dict(tests)
    numbers: dict[int, int] = {}
    while undecided:
        number = len({test.key for test in undecided.values()})
        failing = [position for position, test in undecided.items() if test.fails(number)]
        for position in failing or list(undecided):
            numbers[position] = number
            del undecided[position]
    return numbers


def _certain_outcome(rule: Rule, measured: Measured) -> Outcome | None:
    """The outcome that needs no bounds; None where bounds decide."""
    if not measured.n or not measured.is_covered:
        return "fail"
    if measured.identical:
        return _pass_or_fail(rule.is_kept_by(0.0))
    if measured.evidence is not None:
        return None
    if measured.difference is not None:
        return _pass_or_fail(rule.is_kept_by(measured.difference))
    return _pass_or_fail(rule.is_kept_by(measured.value))


def _pass_or_fail(is_kept: bool) -> Outcome:
    if is_kept:
        return "pass"
    return "fail"


def _undecided(rule: Rule, measured: Measured) -> Verdict:
    """The verdict as far as it needs no bounds."""
    bound = None
    if measured.identical and rule.confidence is not None:
        bound = 0.0
    return Verdict(
        rule=rule,
        metric=measured.metric,
        outcome=_certain_outcome(rule, measured) or "inconclusive",
        value=measured.value,
        baseline=measured.baseline,
        difference=measured.difference,
        lower=bound,
        upper=bound,
        n=measured.n,
        expected=measured.expected,
        covered=measured.is_covered,
        identical=measured.identical,
    )


def _decided(verdict: Verdict, evidence: Evidence, together: int) -> Verdict:
    """The verdict by its bounds: it passes by the worse one, and fails by the better one."""
    rule, confidence = verdict.rule, verdict.rule.confidence or 0.0
    lowest = evidence.bounds(confidence)[0]
    highest = evidence.bounds(corrected_confidence(rule, together))[1]
    bounds = _in_direction(rule, lowest), _in_direction(rule, highest)
    worst_bound, best_bound = bounds
    lower, upper = bounds
    if rule.lower_is_better:
        upper, lower = bounds
    verdict = replace(verdict, lower=lower, upper=upper, together=together)
    if worst_bound is not None and rule.is_kept_by(worst_bound):
        return replace(verdict, outcome="pass")
    if best_bound is not None and not rule.is_kept_by(best_bound):
        return replace(verdict, outcome="fail")
    has_lost = (highest or 0.0) < -NOISE
    if has_lost or not isinstance(evidence, PairedEvidence):
        return verdict
    return replace(
        verdict,
        needed=evidence.needed(rule.tolerance, confidence),
        decidable=evidence.decidable(confidence),
    )


def _in_direction(rule: Rule, bound: float | None) -> float | None:
    """A bound of negated scores as one of the scores."""
    if bound is None:
        return None
    return rule.improvement(bound)
