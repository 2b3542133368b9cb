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


def decide(measured: Sequence[tuple[Rule, Measured]]) -> list[Verdict]:
    """The verdict of each rule, in the order given."""
    tests: dict[int, _Test] = {}
    for position, (rule, numbers) in enumerate(measured):
        if numbers.evidence is not None and _certain_outcome(rule, numbers) is None:
            tests[position] = _Test(rule, numbers.evidence)
    together = _numbers_of_tests(tests)
    verdicts = []
    for position, (rule, numbers) in enumerate(measured):
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
    left = dict(tests)
    together: dict[int, int] = {}
    while left:
        number = len({test.key for test in left.values()})
        failing = [position for position, test in left.items() if test.fails(number)]
        for position in failing or list(left):
            together[position] = number
            del left[position]
    return together


def _certain_outcome(rule: Rule, measured: Measured) -> Outcome | None:
    """The outcome that needs no bounds; None where bounds decide."""
    if not measured.n or not measured.is_covered:
        return "fail"
    if measured.identical:
        return _pass_or_fail(rule.is_kept_by(0.0))
    if measured.evidence is not None:
        return None
    observed = measured.value if measured.difference is None else measured.difference
    return _pass_or_fail(rule.is_kept_by(observed))


def _pass_or_fail(is_kept: bool) -> Outcome:
    return "pass" if is_kept else "fail"


def _undecided(rule: Rule, measured: Measured) -> Verdict:
    """The verdict as far as it needs no bounds."""
    bound = 0.0 if measured.identical and rule.confidence is not None else None
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
    worst = None if lowest is None else rule.improvement(lowest)
    best = None if highest is None else rule.improvement(highest)
    lower, upper = (best, worst) if rule.lower_is_better else (worst, best)
    verdict = replace(verdict, lower=lower, upper=upper, together=together)
    if worst is not None and rule.is_kept_by(worst):
        return replace(verdict, outcome="pass")
    if best is not None and not rule.is_kept_by(best):
        return replace(verdict, outcome="fail")
    is_lost = (highest or 0.0) < -NOISE
    if is_lost or not isinstance(evidence, PairedEvidence):
        return verdict
    return replace(
        verdict,
        needed=evidence.needed(rule.tolerance, confidence),
        decidable=evidence.decidable(confidence),
    )
