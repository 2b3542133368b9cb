"""From what was measured to the verdicts of all rules together.

A gate passes where every rule passes, so each bound for passing holds on its own. It fails where
any rule fails, so with m rules each fails with confidence 1 - (1 - c) / m, step by step as Holm's
(1979) method does: an unchanged system then fails in at most 1 - c of cases, however many rules
there are. Rules that test the same numbers against the same limit count once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from llama_index_rag_metrics.decisions import better_and_worse
from llama_index_rag_metrics.decisions.gate.gate_report import MOST_ITEMS, ORDER, gate_report
from llama_index_rag_metrics.decisions.gate.measuring import Evidence, Measured, PairedEvidence
from llama_index_rag_metrics.decisions.gate.rules import Rule
from llama_index_rag_metrics.report.model import QueryAnswers, Report
from llama_index_rag_metrics.report.numbers import (
    count,
    digits_of,
    given,
    percent,
    questions,
    rounded_up,
    score,
    two_digits_up,
)
from llama_index_rag_metrics.report.query_lines import retrieved_lines, wanted_lines
from llama_index_rag_metrics.report.reportable import Reportable, Sentence, written
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable
from llama_index_rag_metrics.statistics.resampling import NOISE

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]

_MOST_QUERIES = 100_000
"""No larger number is named."""


@dataclass(frozen=True, slots=True)
class WorstQuery:
    """A query that counts against a rule: its score now and before, what was wanted and retrieved.

    Attributes:
        story: what was asked, wanted and retrieved, as far as it is known.
    """

    query_id: str
    question: str
    score: float
    baseline: float | None
    story: QueryAnswers = field(compare=False, repr=False)

    @property
    def wanted(self) -> list[str]:
        """The wanted passages in words, those that were lost first, and where they were lost."""
        return [str(line) for line in wanted_lines(self.story, names={})]

    @property
    def got(self) -> list[str]:
        """The first retrieved items in words."""
        story = self.story
        lines = (retrieved_lines(story, answer, MOST_ITEMS, {}) for answer in story.answers)
        return list(chain.from_iterable(lines))

    @property
    def error(self) -> str:
        """Why nothing was retrieved."""
        return next((answer.error for answer in self.story.answers if answer.error), "")

    def record(self) -> dict[str, Any]:
        """For JSON."""
        names = ("query_id", "question", "score", "baseline", "wanted", "got", "error")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Sentence):
    """The verdict on one rule.

    Attributes:
        value: the mean now, over the queries compared, or the count.
        baseline: the mean of the baseline over the same queries; None without one.
        difference: the mean paired difference, now minus baseline; None without a baseline.
        lower: one-sided lower bound of the difference, or of the mean if there is no baseline; None
            where it isn't used or can't be given.
        upper: the other one-sided bound. The one that lets a rule pass has the rule's confidence,
            the one that lets it fail that of `together` rules.
        n: how many queries have a value, on both sides, of the `expected` ones.
        needed: how many queries like these would show with power 0.8 that nothing is lost, if
            nothing truly changed; None where the verdict is clear, or no number would.
        covered: whether enough queries have a value.
        together: how many rules, each counted once, it is corrected for.
        decidable: the smallest loss that this many queries rule out with power 0.8, if nothing
            truly changed; None where the verdict is clear, or that loss intolerable.
    """

    rule: Rule
    metric: str
    outcome: Outcome
    value: float | int
    baseline: float | None
    difference: float | None
    lower: float | None
    upper: float | None
    n: int
    method: str
    needed: int | None
    worst: tuple[WorstQuery, ...] = ()
    expected: int = 0
    covered: bool = True
    together: int = 1
    decidable: float | None = None

    def record(self) -> dict[str, Any]:
        """For JSON."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        worst = [query.record() for query in self.worst]
        return {**parts, "rule": str(self.rule), "sentence": self.sentence, "worst": worst}

    @property
    def sentence(self) -> str:
        """What was found, what the rule wants, and where it is undecided, what would decide."""
        lacking = self.expected - self.n
        if not self.n or (lacking <= 0 and self.covered):
            return _finding(self)
        if lacking <= 0:
            return f"{_finding(self)} Too few of their runs have a value, whatever the numbers say."
        few = f"Only {self.n:,} of {questions(self.expected)} have {_value(self.rule)}"
        end = "" if self.covered else ": too few to judge by, whatever the numbers say"
        return f"{_finding(self)} {few}{end}."

    @property
    def confidence(self) -> float:
        """Confidence of the deciding bound: corrected for `together` rules where it fails."""
        return _corrected_confidence(self.rule, self.together if self.outcome == "fail" else 1)

    def __str__(self) -> str:
        return f"{self.outcome}: {self.sentence}"


@dataclass(frozen=True, repr=False)
class GateReport(Reportable):
    """The verdicts of a gate.

    Attributes:
        verdicts: one for each rule, in their order.
        name: of what was measured.
        notes: what a reader of the verdicts should know.
        about: what was checked, label to value: the dataset, where it is known.

    Examples:
        >>> from llama_index_rag_metrics import assert_retrieval, score_rankings
        >>> relevant = {"q1": ["a"], "q2": ["b"]}
        >>> scores = score_rankings(relevant, relevant, "recall@5")
        >>> report = assert_retrieval(scores, "recall@5 >= 0.7")
        >>> report.outcome, len(report.verdicts)
        ('pass', 1)
    """

    verdicts: tuple[Verdict, ...]
    name: str = ""
    notes: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        """The worst of the verdicts."""
        return min((verdict.outcome for verdict in self), key=ORDER.index, default="pass")

    def broken(self, *, strict: bool = False) -> Sequence[Verdict]:
        """The verdicts that close the gate: failed ones, with `strict` also inconclusive ones."""
        shut = {"fail", "inconclusive"} if strict else {"fail"}
        return [verdict for verdict in self.verdicts if verdict.outcome in shut]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def report(self, *, full: bool = False) -> Report:
        """The verdicts, the worst queries and why; as a table, one row per verdict."""
        return gate_report(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """All of it, unrounded; written to `path`, if given."""
        content = {
            "outcome": self.outcome,
            "name": self.name,
            "about": dict(self.about),
            "verdicts": [verdict.record() for verdict in self],
            "notes": self.notes,
        }
        text = json_text(jsonable(content, "gate"), indent=1)
        written(f"{text}\n", path)
        return text


def decide(measured: Sequence[tuple[Rule, Measured]]) -> list[Verdict]:
    """The verdict of each rule, in the order given."""
    tests = {
        number: (rule, evidence, _test(rule, evidence))
        for number, (rule, rule_measured) in enumerate(measured)
        if (evidence := rule_measured.evidence) is not None
        and _certain(rule, rule_measured) is None
    }
    together = _step_down(tests)
    return [
        _verdict(rule, rule_measured, together.get(number, 1))
        for number, (rule, rule_measured) in enumerate(measured)
    ]


def _test(rule: Rule, evidence: Evidence) -> Hashable:
    """Equal for rules that test the same numbers against the same limit."""
    return evidence.values.tobytes(), rule.value, rule.sign, rule.confidence, rule.baseline


def _certain(rule: Rule, measured: Measured) -> Outcome | None:
    """The verdict that needs no bounds; None where bounds decide."""
    if not measured.n or not measured.is_covered:
        return "fail"
    if measured.identical and rule.baseline:
        return "pass" if _keeps(rule, 0.0) else "fail"
    if measured.evidence is not None:
        return None
    value = measured.value if measured.difference is None else measured.difference
    return "pass" if _keeps(rule, value) else "fail"


def _step_down(tests: Mapping[int, tuple[Rule, Evidence, Hashable]]) -> dict[int, int]:
    """How many tests each test is corrected for, by its number."""
    left, together = dict(tests), {}
    while left:
        m = len({test for _, _, test in left.values()})
        failing = [
            number
            for number, (rule, evidence, _) in left.items()
            if (highest := _highest(rule, evidence, m)) is not None
            and not _keeps(rule, _turned(rule, highest))
        ]
        for number in failing or list(left):
            together[number] = m
            del left[number]
    return together


def _highest(rule: Rule, evidence: Evidence, together: int) -> float | None:
    return evidence.bounds(_corrected_confidence(rule, together))[1]


def _corrected_confidence(rule: Rule, together: int) -> float:
    """The confidence at which one of this many rules fails."""
    return 1 - (1 - (rule.confidence or 0.0)) / together


def _verdict(rule: Rule, measured: Measured, together: int) -> Verdict:
    outcome, evidence, method = _certain(rule, measured), measured.evidence, ""
    bad = good = needed = decidable = None
    if measured.identical and rule.confidence is not None and outcome is not None and measured.n:
        method, bad, good = "identical rankings", 0.0, 0.0
    elif evidence is not None and outcome is None:
        confidence, method = rule.confidence or 0.0, evidence.method
        lowest, highest = evidence.bounds(confidence)[0], _highest(rule, evidence, together)
        bad = None if lowest is None else _turned(rule, lowest)
        good = None if highest is None else _turned(rule, highest)
        if bad is not None and _keeps(rule, bad):
            outcome = "pass"
        elif good is not None and not _keeps(rule, good):
            outcome = "fail"
        elif isinstance(evidence, PairedEvidence) and not (highest or 0.0) < -NOISE:
            needed = evidence.needed(rule.tolerance, confidence)
            decidable = evidence.decidable(confidence)
    lower, upper = (good, bad) if rule.lower_is_better else (bad, good)
    return Verdict(
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
        expected=measured.expected,
        covered=measured.is_covered,
        together=together,
        decidable=decidable,
    )


def _keeps(rule: Rule, value: float) -> bool:
    """Whether a value keeps to the limit, rounding noise aside."""
    return _turned(rule, value - rule.value) >= -NOISE


def _turned(rule: Rule, bound: float) -> float:
    """A bound of negated scores, turned into one of the scores."""
    return -bound if rule.lower_is_better else bound


def _finding(verdict: Verdict) -> str:
    rule, n, metric = verdict.rule, verdict.n, verdict.metric
    if not n:
        none = f"none of {questions(verdict.expected)} has {_value(rule)}"
        why = none if verdict.expected else "there are no questions"
        return f"{metric} can't be judged: {why}."
    now = f"{metric} is {_number(verdict.value, n, rule)}"
    if isinstance(verdict.value, int):
        return f"{now}, must be {_wanted(rule)}."
    if not rule.baseline:
        found = f"{now}{_bound(verdict)}, must be {_wanted(rule)} ({questions(n)})."
        can_tell = verdict.outcome != "inconclusive"
        return found if can_tell else f"{found} {questions(n)} can't tell."
    if verdict.method == "identical rankings":
        same = f"{now} as in the baseline: the rankings of all {questions(n)} are identical"
        return f"{same}{'' if verdict.outcome == 'pass' else f'; {_wanted(rule)}'}."
    before = f"{_number(verdict.baseline or 0.0, n, rule)} in the baseline"
    change = f"{_change(verdict.difference or 0.0, verdict)}{_bound(verdict)}"
    found = f"{now} against {before}, {change}; {_wanted(rule)} ({questions(n)})."
    return f"{found}{_way_out(verdict)}"


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
    return "a value both now and in the baseline" if rule.baseline else "a value"


def _wanted(rule: Rule) -> str:
    """What a rule asks for, after "must be" where it has no baseline."""
    if not rule.baseline:
        return f"{'at most' if rule.lower_is_better else 'at least'} {rule.limit}"
    if rule.tolerance < 0:
        return f"{_required(rule)} is required"
    _, loss = better_and_worse(lower_is_better=rule.lower_is_better)
    if not rule.tolerance:
        return f"no {loss} is allowed"
    return f"a {loss} of up to {given(rule.tolerance)} is allowed"


def _required(rule: Rule) -> str:
    gain, _ = better_and_worse(lower_is_better=rule.lower_is_better)
    return f"a {gain} of at least {given(-rule.tolerance)}"


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
    if rule.tolerance < 0:
        open_question = f" {_required(rule).capitalize()} isn't shown with {n}."
    else:
        size = f" of more than {given(rule.tolerance)}" if rule.tolerance else ""
        open_question = f" A {loss}{size} can't be ruled out with {n}."
    allow = "" if verdict.decidable is None else f"allow {rounded_up(verdict.decidable, 2)}"
    if verdict.needed is not None:
        return f"{open_question} Use {_about(verdict.needed)}{f', or {allow}' if allow else ''}."
    if allow and not rule.tolerance:
        return f"{open_question} No number of questions rules out every {loss}: {allow}."
    return open_question


def _about(needed: int) -> str:
    """A number of questions, such as "about 410"."""
    if needed > _MOST_QUERIES:
        return f"more than {_MOST_QUERIES:,}"
    return f"about {two_digits_up(needed)}"
