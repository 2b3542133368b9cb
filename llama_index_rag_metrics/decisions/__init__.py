"""What follows from scores: comparisons, sweeps, the gate."""

from typing import Literal, TypeAlias

OnMissing: TypeAlias = Literal["error", "intersect"]
"""What to do where systems have different queries: raise, or keep those that all have."""


def better_and_worse(*, lower_is_better: bool) -> tuple[str, str]:
    """What a change for the better is called, and one for the worse."""
    return ("fall", "rise") if lower_is_better else ("gain", "loss")
