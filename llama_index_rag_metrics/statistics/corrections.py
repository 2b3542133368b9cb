"""Corrections for many comparisons: the more one looks at, the more look significant by chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.judging import FloatArray

Correction: TypeAlias = Literal["holm", "bonferroni", "benjamini-hochberg", "none"]


def correct(p_values: Sequence[float] | FloatArray, method: Correction = "holm") -> FloatArray:
    """(tests,) p values corrected for how many they are, in the order given.

    Args:
        p_values: one a test.
        method: "holm" (Holm 1979) and "bonferroni" bound the chance of any false claim, the first
            never worse than the second; "benjamini-hochberg" (1995) bounds the share of false
            claims among all claims; "none" leaves them as they are.

    Raises:
        InvalidInput: there is no such method.

    Examples:
        >>> correct([0.01, 0.04, 0.03])  # 3 × 0.01; then 2 × 0.03, which 1 × 0.04 mustn't undercut
        array([0.03, 0.06, 0.06])
        >>> correct([0.01, 0.04, 0.03], "benjamini-hochberg")
        array([0.03, 0.04, 0.04])
    """
    if method not in METHODS:
        raise InvalidInput("correction", method, " or ".join(map(repr, METHODS)))
    given = np.asarray(p_values, np.float64)
    order = np.argsort(given, kind="stable")
    corrected = np.empty_like(given)
    corrected[order] = np.minimum(METHODS[method](given[order]), 1.0)
    return corrected


def _holm(rising: FloatArray) -> FloatArray:
    n = len(rising)
    return np.maximum.accumulate(rising * (n - np.arange(n)))


def _bonferroni(rising: FloatArray) -> FloatArray:
    return rising * len(rising)


def _benjamini_hochberg(rising: FloatArray) -> FloatArray:
    n = len(rising)
    scaled = rising * n / np.arange(1, n + 1)
    return np.minimum.accumulate(scaled[::-1])[::-1]


def _none(rising: FloatArray) -> FloatArray:
    return rising


METHODS: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "holm": _holm,
    "bonferroni": _bonferroni,
    "benjamini-hochberg": _benjamini_hochberg,
    "none": _none,
}
"""The corrections by name; each takes p values from the lowest up."""
