"""The gate: broken rules, and baselines that don't fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llama_index_rag_metrics.errors.base import RagMetricsError


class BaselineMismatch(RagMetricsError, ValueError):
    """The baseline has other queries than the scores that are compared with it."""

    def __init__(self, differences: Mapping[str, Sequence[str]], in_common: int) -> None:
        super().__init__({what: tuple(ids) for what, ids in differences.items()}, in_common)

    def __str__(self) -> str:
        differences, in_common = self.args
        listed = "; ".join(
            f"{len(ids)} {what} ({', '.join(ids[:5])}{', …' if len(ids) > 5 else ''})"
            for what, ids in differences.items()
        )
        way_out = f", or compare the {in_common} in common (on_missing='intersect')"
        return (
            f"the baseline has other queries: {listed or 'it has none'}. "
            f"Store a new baseline{way_out if in_common else ''}."
        )


class GateFailed(RagMetricsError, AssertionError):
    """A rule is broken: the message says which, with the numbers and the worst queries."""


class InconclusiveGate(UserWarning):
    """The queries are too few to tell whether a rule is kept."""
