"""What follows from scores: comparisons, sweeps, the gate, calibration."""

from typing import Literal, TypeAlias

OnMissing: TypeAlias = Literal["error", "intersect"]
"""What to do where systems have different queries: raise, or keep those that all have."""
