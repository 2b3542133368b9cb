"""What a comparison means: a plain line for the decision, and one sentence for each difference.

A sentence says the decision first, then the number with its interval, then what would be needed to
know more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from llama_index_rag_metrics.naming import lower_is_better
from llama_index_rag_metrics.report.numbers import between, counted, percent, score, signed
from llama_index_rag_metrics.statistics.resampling import Units
from llama_index_rag_metrics.statistics.significance import beats_all

if TYPE_CHECKING:
    from llama_index_rag_metrics.comparison.comparison import Comparison
    from llama_index_rag_metrics.comparison.difference import Difference, Settings

_FAR = 10
"""How many queries would be needed isn't said beyond this many times those at hand: a guess."""

_WORDS = ("", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def decision(comparison: Comparison) -> str:
    """One plain line, by the primary metric, for somebody who knows no statistics.

    >>> from llama_index_rag_metrics import Scores, compare
    >>> a = Scores(["q1", "q2", "q3"], {"mrr": [1.0, 0.5, 0.0]})
    >>> b = Scores(["q1", "q2", "q3"], {"mrr": [1.0, 1.0, 0.5]})
    >>> decision(compare({"bm25": a, "hybrid": b}, "bm25"))
    'No measurable difference between hybrid and bm25 by mrr.'
    """
    metric = comparison.settings.primary
    found = [one for one in comparison if one.metric == metric]
    if len(found) == 1:
        return f"{_outcome(found[0], comparison.settings)}."
    if winner := _best(comparison, found):
        return f"{winner} is the best of {_number(len(found) + 1)} by {metric}."
    return f"{'; '.join(_groups(found, comparison))}."


def verdict(found: Difference, settings: Settings) -> str:
    """The decision about one difference, the numbers that it rests on, and what would tell more.

    Args:
        found: the difference, p values corrected.
        settings: how it was tested.
    """
    outcome = _outcome(found, settings)
    if found.n == 0:
        return f"{outcome}."
    if found.n == 1:
        return f"{outcome}: {signed(found.difference)}."
    if found.changed == 0:
        return f"{outcome}: {_interval(found, settings)}."
    evidence = (
        f"{signed(found.difference)} ({_interval(found, settings)}; {_p(found, settings)}); "
        f"{found.changed:,} of {counted(found.n)} changed ({found.wins:,} better, "
        f"{found.losses:,} worse)"
    )
    if found.significant and settings.test == "wilcoxon":
        evidence += "; Wilcoxon's test speaks of symmetry about 0, not of the mean"
    return f"{outcome}: {evidence}{'' if found.significant else _more(found, settings)}."


def _outcome(found: Difference, settings: Settings) -> str:
    names = f"{found.system} and {found.baseline}"
    if found.n == 0:
        return f"Nothing can be said about {names}: no query has a value of {found.metric} for both"
    if found.n == 1:
        return f"A single query can't tell {names} apart by {found.metric}"
    if found.changed == 0:
        return f"{names} score the same by {found.metric} on all {counted(found.n)}"
    if not found.significant:
        return f"No measurable difference between {names} by {found.metric}"
    if settings.test == "wilcoxon":
        return f"{found.system} differs from {found.baseline} by {found.metric}"
    direction = "better" if found.gain > 0 else "worse"
    return f"{found.system} is {direction} than {found.baseline} by {found.metric}"


def _groups(found: Sequence[Difference], comparison: Comparison) -> list[str]:
    """The systems that are better, those that are worse, and the others, each in a clause."""
    baseline, metric = comparison.baseline, comparison.settings.primary
    shown = [one for one in found if one.significant]
    others = [one.system for one in found if not one.significant]
    clauses = []
    if comparison.settings.test == "wilcoxon":
        kinds = [("different from", [one.system for one in shown])]
    else:
        kinds = [
            ("better than", [one.system for one in shown if one.gain > 0]),
            ("worse than", [one.system for one in shown if one.gain < 0]),
        ]
    for kind, systems in kinds:
        if systems:
            verb = "is" if len(systems) == 1 else "are"
            clauses.append(f"{_listed(systems)} {verb} {kind} {baseline} by {metric}")
    if not clauses:
        return [f"No system differs measurably from {baseline} by {metric}"]
    if others:
        clauses.append(f"no measurable difference for {_listed(others)}")
    return clauses


def _best(comparison: Comparison, found: Sequence[Difference]) -> str | None:
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
    agreed = [one.significant for one in found if winner in (one.system, one.baseline)]
    return winner if shown and all(agreed) else None


def _listed(names: Sequence[str]) -> str:
    head = ", ".join(names[:-1])
    return f"{head} and {names[-1]}" if head else names[-1]


def _number(n: int) -> str:
    return _WORDS[n] if n < len(_WORDS) else f"{n:,}"


def _interval(found: Difference, settings: Settings) -> str:
    if found.low is None or found.high is None:
        return "no interval: " + found.note.split(":", maxsplit=1)[0]
    return f"{percent(settings.confidence)} interval {between(found.low, found.high)}"


def _p(found: Difference, settings: Settings) -> str:
    alone = settings.correction == "none" or found.comparisons == 1
    small = found.p_corrected < 0.0001
    return (
        f"{'p' if alone else 'corrected p'} {'< 0.0001' if small else f'= {found.p_corrected:.2g}'}"
    )


def _more(found: Difference, settings: Settings) -> str:
    if found.p_of(settings.test) <= settings.alpha:
        return (
            f"; alone it would count as a difference, but it is one of {found.comparisons} "
            "comparisons"
        )
    if settings.test == "wilcoxon":
        return ""
    if found.detectable is None:
        return f"; too few changed to say how large a difference {counted(found.n)} would show"
    least = f"; {counted(found.n)} would show a true difference of {score(found.detectable)}"
    share = found.detectable / abs(found.difference) if found.difference else math.inf
    needed = found.n * share**2
    further = (
        f"; about {_up(needed):,} would show one as large as this"
        if share > 1 and (needed <= _FAR * found.n)
        else ""
    )
    return f"{least} in 4 of 5 cases{further}"


def _up(n: float) -> int:
    """Rounded up to two digits.

    >>> _up(200.1), _up(58)
    (210, 58)
    """
    unit = int(10 ** max(0, len(str(math.ceil(n))) - 2))
    return math.ceil(n / unit) * unit
