"""The verdict: what a difference means, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llama_index_rag_metrics.comparison.difference import Difference, Settings


def verdict(found: Difference, settings: Settings, comparisons: int) -> str:
    """One plain sentence, with the numbers that it rests on.

    Args:
        found: the difference, p values corrected.
        settings: how it was tested.
        comparisons: how many comparisons it was corrected for.
    """
    names = f"{found.system} and {found.baseline}"
    if found.n == 0:
        return f"No query has a value of {found.metric} for both {names}."
    if found.ties == found.n:
        return f"{names} score the same by {found.metric} on all {counted(found.n)}."
    evidence = (
        f"{found.difference:+.4f} on average over {counted(found.n)} "
        f"({_interval(found, settings)}; {_p(found, settings)})"
    )
    if found.significant and settings.test == "wilcoxon":
        return (
            f"{found.system} differs from {found.baseline} by {found.metric}: {evidence}; "
            "Wilcoxon's test speaks of symmetry about 0, not of the mean."
        )
    if found.significant:
        direction = "better" if found.difference > 0 else "worse"
        return f"{found.system} is {direction} than {found.baseline} by {found.metric}: {evidence}."
    return (
        f"{found.system} is shown neither better nor worse than {found.baseline} by "
        f"{found.metric}: {evidence}{_caveat(found, settings, comparisons)}."
    )


def counted(n: int) -> str:
    """How many queries, in words.

    >>> counted(1), counted(2000)
    ('1 query', '2,000 queries')
    """
    return f"{n:,} {'query' if n == 1 else 'queries'}"


def _interval(found: Difference, settings: Settings) -> str:
    if found.low is None or found.high is None:
        return "no interval: " + found.note.split(":", maxsplit=1)[0]
    return f"{settings.confidence * 100:g} % interval {found.low:+.4f} to {found.high:+.4f}"


def _p(found: Difference, settings: Settings) -> str:
    label = "p" if settings.correction == "none" else "corrected p"
    small = found.p_corrected < 0.0001
    return f"{label} {'< 0.0001' if small else f'= {found.p_corrected:.2g}'}"


def _caveat(found: Difference, settings: Settings, comparisons: int) -> str:
    if found.p_of(settings.test) <= settings.alpha:
        return f"; it would be significant alone, but is one of {comparisons} comparisons"
    if found.detectable is None:
        return ""
    least = f"{found.detectable:.4f}"
    return f"; {counted(found.n)} would show a true difference of {least} in 4 of 5 cases"
