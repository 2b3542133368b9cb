"""What a comparison means: a plain line for the decision, and one sentence for each difference.

Every sentence follows the interval: a system is better or worse where it leaves out 0, alike where
it lies within the margin, and otherwise these questions can't tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report.drawing import short_names
from llama_index_rag_metrics.report.numbers import (
    decimals_of,
    ends,
    percent,
    questions,
    rounded_up,
    score,
    signed,
)
from llama_index_rag_metrics.statistics.intervals import excludes_0

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.comparison.comparison import Comparison
    from llama_index_rag_metrics.decisions.comparison.difference import (
        ComparisonSettings,
        Difference,
        Outcome,
    )

TESTS = {
    "randomisation": "randomisation test",
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test",
}

_MOST_NAMES = 3

_NUMBERS = ("", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def decision(comparison: Comparison) -> str:
    """One plain line, on the primary metric, for somebody who knows no statistics."""
    metric = comparison.settings.primary
    known = comparison.measured or comparison.differences
    differences = [difference for difference in known if difference.metric == metric]
    if len(differences) == 1:
        return f"{_clause(differences[0])}."
    if winner := _best(comparison, differences):
        winner = short_names(comparison.names)[winner]
        n = len(differences) + 1
        number = _NUMBERS[n] if n < len(_NUMBERS) else f"{n:,}"
        return f"{winner} is the best of {number} on {metric}."
    return _groups(differences, comparison)


def with_verdict(difference: Difference, settings: ComparisonSettings) -> Difference:
    """The same with its outcome, its sentence, and a note where test and interval differ."""
    decided = replace(difference, outcome=_outcome(difference, settings))
    few = _few_changed(decided, settings) if excludes_0(decided) else ""
    notes = [difference.note, _disagreement(difference, settings), few]
    return replace(
        decided,
        verdict=f"{_clause(decided)}{_evidence(decided, settings)}.",
        note="; ".join(filter(None, notes)),
    )


def _outcome(difference: Difference, settings: ComparisonSettings) -> Outcome:
    if excludes_0(difference):
        return "better" if difference.gain > 0 else "worse"
    return "alike" if difference.at_most <= settings.margin(difference.metric) else "can't tell"


def _clause(difference: Difference) -> str:
    system, baseline, metric = difference.system, difference.baseline, difference.metric
    names, low, high = f"{system} and {baseline}", difference.low, difference.high
    if difference.n == 0:
        return f"Nothing can be said about {names} on {metric}: no question has a score for both"
    if difference.n == 1:
        return f"A single question can't tell {names} apart on {metric}"
    if difference.changed == 0:
        return f"{names} score the same on {metric}, on all {questions(difference.n)}"
    if low is None or high is None:
        reason = difference.note.split(":", maxsplit=1)[0]
        return f"{_these([difference])} can't tell {names} apart on {metric}: {reason}"
    if difference.outcome == "alike":
        return f"{names} differ by less than {_bound(difference)} on {metric}"
    if difference.outcome == "can't tell":
        worse, better = (high, -low) if lower_is_better(metric) else (-low, high)
        up_to = [score(end, 0.0, decimals_of(low, high)) for end in (worse, better)]
        return (
            f"{_these([difference])} can't tell: {system} may be {up_to[0]} worse or {up_to[1]} "
            f"better than {baseline} on {metric}"
        )
    return f"{system} is {difference.outcome} than {baseline} on {metric}"


def _evidence(difference: Difference, settings: ComparisonSettings) -> str:
    """What follows the clause: the number with its interval, or what could be detected."""
    low, high, n = difference.low, difference.high, difference.n
    if not difference.changed or low is None or high is None:
        return ""
    surely = f"with {percent(settings.confidence)} confidence, {questions(n)}"
    if difference.outcome == "alike":
        return f" ({surely})"
    decimals = decimals_of(low, high)
    if difference.outcome != "can't tell":
        mean = signed(difference.difference, 0.0, decimals)
        return f": {mean} ({ends(low, high)} {surely})"
    if few := _few_changed(difference, settings):
        return f". {few[0].upper()}{few[1:]}"
    if difference.detectable is None:
        return ""
    least = rounded_up(difference.detectable, decimals)
    return f". With {questions(n)} a true difference of {least} would be detected 80 % of the time"


def _few_changed(difference: Difference, settings: ComparisonSettings) -> str:
    """That no permutation of signs could show a difference by the questions that changed."""
    by_chance = 2.0 ** (1 - difference.changed)
    if not difference.changed or by_chance <= settings.alpha:
        return ""
    if difference.changed == 1:
        return "only 1 question changed, which can't show a difference"
    n = difference.changed
    return (
        f"only {n} questions changed; {n} changes in one direction happen by chance in "
        f"{percent(by_chance)} of cases"
    )


def _disagreement(difference: Difference, settings: ComparisonSettings) -> str:
    """Why the test says another thing than the interval, or before its correction."""
    if difference.low is None:
        return ""
    test, together = TESTS[settings.test], ""
    if difference.comparisons > 1:
        together = f", and holds for all {difference.comparisons} comparisons at once"
    if excludes_0(difference):
        return "" if difference.significant else f"the {test} finds no difference, the interval one"
    if difference.significant:
        if settings.test == "wilcoxon":
            return f"the {test} finds a difference, of symmetry about 0 and not of the mean"
        return (
            f"the {test} finds a difference, the interval none: it allows for large changes on "
            f"questions that weren't asked{together}"
        )
    if difference.p_of(settings.test) <= settings.alpha:
        return (
            f"the {test} alone finds a difference, but not among {difference.comparisons} "
            "comparisons"
        )
    return ""


def _groups(differences: Sequence[Difference], comparison: Comparison) -> str:
    baseline, metric = comparison.baseline, comparison.settings.primary
    known = [difference for difference in differences if difference.n]
    if not known:
        return (
            f"Nothing can be said on {metric}: no question has a score for {baseline} and another."
        )
    if all(difference.n == 1 for difference in known):
        return f"A single question can't tell the systems apart on {metric}."
    groups: dict[str, list[Difference]] = {}
    for difference in differences:
        same = difference.changed == 0 and difference.n > 1
        groups.setdefault("same" if same else difference.outcome, []).append(difference)
    kinds = [kind for kind in ("better", "worse", "alike", "same", "can't tell") if kind in groups]
    short = short_names(comparison.names)
    first, *further = [_of_group(kind, groups[kind], short, baseline) for kind in kinds]
    if kinds[0] == "can't tell":
        first = f"T{first[1:]}"
    return f"{'; '.join([f'{first} on {metric}', *further])}."


def _of_group(
    kind: str, group: Sequence[Difference], short: Mapping[str, str], baseline: str
) -> str:
    """The clause of the systems with the same outcome, which are counted where they are many."""
    *others, last = [short[difference.system] for difference in group]
    names = f"{', '.join(others)} and {last}" if others else last
    if len(group) > _MOST_NAMES:
        is_all = len(group) == len(short) - 1
        names = f"the {len(group):,} others" if is_all else f"{len(group):,} of the others"
    baseline = short[baseline]
    if kind == "can't tell":
        return f"t{_these(group)[1:]} can't tell {names} from {baseline}"
    if kind == "same":
        return f"{names} {'score' if others else 'scores'} exactly the same as {baseline}"
    if kind == "alike":
        bound = _bound(max(group, key=lambda each: each.at_most))
        return f"{names} {'differ' if others else 'differs'} from {baseline} by less than {bound}"
    return f"{names} {'are' if others else 'is'} {kind} than {baseline}"


def _best(comparison: Comparison, differences: Sequence[Difference]) -> str | None:
    """The system whose every pair shows it to be better, if there is one."""
    primary, baseline = comparison.settings.primary, comparison.baseline
    rivals = [each.system for each in differences if each.outcome == "better"]
    if all(each.outcome == "worse" for each in differences):
        rivals = [baseline]
    beaten = dict.fromkeys(rivals, 0)
    for pair in comparison.pairs if rivals else ():
        if pair.metric == primary and excludes_0(pair):
            first = (pair.difference > 0) != lower_is_better(primary)
            winner = pair.system if first else pair.other
            beaten[winner] = beaten.get(winner, 0) + 1
    return next((name for name in rivals if beaten[name] == len(differences)), None)


def _bound(difference: Difference) -> str:
    """What an alike system differs by at most, rounded up."""
    return rounded_up(difference.at_most, decimals_of(-difference.at_most, difference.at_most))


def _these(differences: Sequence[Difference]) -> str:
    numbers = {difference.n for difference in differences}
    return f"These {questions(numbers.pop())}" if len(numbers) == 1 else "These questions"
