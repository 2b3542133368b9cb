"""How much this many queries can show, and how many would decide."""

from __future__ import annotations

import math

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.statistics.differences import pseudo_queries
from llama_index_rag_metrics.statistics.resampling import NOISE, Units

ALPHA = 0.05
POWER = 0.8

FEWEST_CHANGED = 10
"""With fewer queries changed, their spread says too little about what could be detected."""


def detectable_differences(
    units: Units, widest: FloatArray, *, alpha: float = ALPHA
) -> list[float | None]:
    """`detectable_difference` of each column by an interval with pseudo-queries, which decides.

    Its centre is the sum over n + 2, so that the mean must be that much larger. None with fewer
    than `FEWEST_CHANGED` changed units.
    """
    assumed = pseudo_queries(units, widest)
    changed = np.count_nonzero(np.abs(units.changes) > NOISE, axis=0)
    return [
        detectable_difference(float(error), int(n + 1), alpha=alpha) * float(n + 2) / n
        if count >= FEWEST_CHANGED
        else None
        for error, n, count in zip(assumed.error, units.n_units.tolist(), changed, strict=True)
    ]


def detectable_difference(standard_error: float, df: int, *, alpha: float = ALPHA) -> float:
    """The smallest true difference that would be found significant with a power of .8.

    (t + z) × sd / √n, where t is the two-sided critical value of Student's t with df = n - 1 and z
    the normal quantile of the power (Webber, Moffat and Zobel 2008).

    >>> detectable_difference(0.2 / math.sqrt(50), 49)  # (2.0096 + 0.8416) × 0.02828
    0.0806...
    """
    from scipy.special import ndtri, stdtrit

    return float((stdtrit(df, 1 - alpha / 2) + ndtri(POWER)) * standard_error)


def queries_to_decide(
    difference: float,
    standard_error: float,
    n: int,
    margin: float = 0.0,
    *,
    confidence: float = 0.95,
) -> int | None:
    """How many queries like these n would decide whether the true difference is above -margin.

    As many as give a one-sided bound with this confidence that clears -margin with a power of .8,
    should the difference and the spread stay as they are: ((z + z') × sd / (difference + margin))².
    None where the difference is exactly -margin: no number would decide.

    >>> queries_to_decide(-0.005, 0.01, 200, margin=0.02)  # (2.4865 × 0.1414 / 0.015)²
    550
    """
    from scipy.special import ndtri

    distance = abs(difference + margin)
    if distance == 0:
        return None
    factor = float(ndtri(confidence) + ndtri(POWER))
    return max(2, math.ceil(n * (factor * standard_error / distance) ** 2))
