"""What a comparison means: a plain line for the decision, and one sentence for each difference.

A sentence says the decision first, then the number with its interval, then what would be needed to
know more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report.numbers import between, counted, p_value, percent, score, signed
from llama_index_rag_metrics.statistics.intervals import excludes_0
from llama_index_rag_metrics.statistics.resampling import Units
from llama_index_rag_metrics.statistics.significance import beats_all

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.comparison.comparison import Comparison
    from llama_index_rag_metrics.decisions.comparison.difference import (
        ComparisonSettings,
        Difference,
    )

_MOST_TIMES_MORE = 10
"""How many queries would be needed isn't said beyond this many times those at hand: a guess."""

_NUMBERS = ("", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def decision(comparison: Comparison) -> str:
    """One plain line, by the primary metric, for somebody who knows no statistics."""
    metric = comparison.settings.primary
    differences = [difference for difference in comparison if difference.metric == metric]
    if len(differences) == 1:
        return f"{_outcome(differences[0], comparison.settings)}."
    if winner := _best(comparison, differences):
        n = len(differences) + 1
        number = _NUMBERS[n] if n < len(_NUMBERS) else f"{n:,}"
        return f"{winner} is the best of {number} by {metric}."
    return f"{'; '.join(_groups(differences, comparison))}."


def verdict(difference: Difference, settings: ComparisonSettings) -> str:
    outcome = _outcome(difference, settings)
    if difference.n == 0:
        return f"{outcome}."
    if difference.n == 1:
        return f"{outcome}: {signed(difference.difference, 0.0)}."
    if difference.changed == 0:
        return f"{outcome}: {_interval(difference, settings)}."
    alone = settings.correction == "none" or difference.comparisons == 1
    p = p_value(difference.p_corrected)
    p = f"{'p' if alone else 'corrected p'} {p if p.startswith('<') else f'= {p}'}"
    evidence = (
        f"{signed(difference.difference, 0.0)} ({_interval(difference, settings)}; {p}); "
        f"{difference.changed:,} of {counted(difference.n)} changed ({difference.wins:,} better, "
        f"{difference.losses:,} worse)"
    )
    if settings.test == "wilcoxon" and (difference.significant or excludes_0(difference)):
        evidence += "; Wilcoxon's test speaks of symmetry about 0, not of the mean"
    return f"{outcome}: {evidence}{'' if difference.significant else _more(difference, settings)}."


def _outcome(difference: Difference, settings: ComparisonSettings) -> str:
    system, baseline, metric = difference.system, difference.baseline, difference.metric
    names = f"{system} and {baseline}"
    if difference.n == 0:
        return f"Nothing can be said about {names}: no query has a value of {metric} for both"
    if difference.n == 1:
        return f"A single query can't tell {names} apart by {metric}"
    if difference.changed == 0:
        return f"{names} score the same by {metric} on all {counted(difference.n)}"
    if not difference.significant:
        return f"No measurable difference between {names} by {metric}"
    if settings.test == "wilcoxon":
        return f"{system} differs from {baseline} by {metric}"
    return f"{system} is {'better' if difference.gain > 0 else 'worse'} than {baseline} by {metric}"


def _groups(differences: Sequence[Difference], comparison: Comparison) -> list[str]:
    baseline, metric = comparison.baseline, comparison.settings.primary
    most = max(difference.n for difference in differences)
    if most == 0:
        return [f"Nothing can be said: no query has a value of {metric} for {baseline} and another"]
    if most == 1:
        return [f"A single query can't tell the systems apart by {metric}"]
    groups: dict[str, list[str]] = {"better": [], "worse": [], "different": [], "": []}
    for difference in differences:
        kind = "better" if difference.gain > 0 else "worse"
        if comparison.settings.test == "wilcoxon":
            kind = "different"
        groups[kind if difference.significant else ""].append(difference.system)
    others = groups.pop("")
    clauses = [
        f"{_listed(systems)} {'is' if len(systems) == 1 else 'are'} {kind} "
        f"{'from' if kind == 'different' else 'than'} {baseline} by {metric}"
        for kind, systems in groups.items()
        if systems
    ]
    if not clauses:
        return [f"No system differs measurably from {baseline} by {metric}"]
    return [*clauses, f"no measurable difference for {_listed(others)}"] if others else clauses


def _best(comparison: Comparison, differences: Sequence[Difference]) -> str | None:
    """The system that is shown to be better than every other one, if there is one.

    Where it differs from the baseline, so it does by the corrected test, too: the line never says
    more than the verdicts below it.
    """
    settings, paired = comparison.settings, comparison.paired
    scores = paired.columns[settings.primary]
    complete = scores[~np.isnan(scores).any(axis=1)]
    if not len(complete) or settings.test == "wilcoxon":
        return None
    sign = -1.0 if lower_is_better(settings.primary) else 1.0
    winner = paired.systems[int((sign * complete.mean(axis=0)).argmax())]
    others = [name for name in paired.systems if name != winner]
    leads = [sign * paired.evidence(winner, settings.primary, name) for name in others]
    shown = beats_all(Units.of(np.stack(leads, axis=1), paired.clusters), settings.alpha)
    agreed = [
        difference.significant
        for difference in differences
        if winner in (difference.system, difference.baseline)
    ]
    return winner if shown and all(agreed) else None


def _listed(names: Sequence[str]) -> str:
    head = ", ".join(names[:-1])
    return f"{head} and {names[-1]}" if head else names[-1]


def _interval(difference: Difference, settings: ComparisonSettings) -> str:
    if difference.low is None or difference.high is None:
        return "no interval: " + difference.note.split(":", maxsplit=1)[0]
    ends = between(difference.low, difference.high)
    return f"{percent(settings.confidence)} interval {ends}"


def _more(difference: Difference, settings: ComparisonSettings) -> str:
    if difference.p_of(settings.test) <= settings.alpha:
        return (
            f"; alone it would count as a difference, but it is one of {difference.comparisons} "
            "comparisons"
        )
    if settings.test == "wilcoxon":
        return ""
    n, detectable, seen = counted(difference.n), difference.detectable, abs(difference.difference)
    if detectable is None:
        what = "" if settings.clusters is None else "clusters "
        return f"; too few {what}changed to say how large a difference {n} would show"
    least = f"; {n} would show a true difference of {score(detectable)} in 4 of 5 cases"
    needed = difference.n * (detectable / seen) ** 2 if seen else math.inf
    if not difference.n < needed <= _MOST_TIMES_MORE * difference.n:
        return least
    return f"{least}; about {up_to_two_digits(needed):,} would show one as large as this"


def up_to_two_digits(n: float) -> int:
    """Rounded up to two digits.

    >>> up_to_two_digits(200.1), up_to_two_digits(299_639), up_to_two_digits(58)
    (210, 300000, 58)
    """
    unit = int(10 ** max(0, len(str(math.ceil(n))) - 2))
    return math.ceil(n / unit) * unit
