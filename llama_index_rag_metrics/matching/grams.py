"""Grams: the runs of a few characters that two texts are compared by, each as one number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_LONGEST = 16
_FACTORS = np.random.default_rng(5).integers(2**63, 2**64, _LONGEST, np.uint64) | np.uint64(1)
"""A gram's hash is the sum of its characters times these, modulo 2^64: 50,000 different grams hold
two of the same hash about once in 10^10 times."""


def gram_hashes(text: str, length: int) -> npt.NDArray[np.uint64]:
    """(grams,) the hash of every run of this many characters, in order; none in a shorter text.

    >>> len(gram_hashes("geysers", 5)), len(gram_hashes("four", 5))
    (3, 0)
    """
    code = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    n = max(0, len(code) - length + 1)
    grams: npt.NDArray[np.uint64] = code[:n] * _FACTORS[0]
    for place in range(1, length):
        grams += code[place : place + n] * _FACTORS[place]
    return grams


def distinct(ascending: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each of the sorted numbers once."""
    first = np.empty(len(ascending), np.bool_)
    first[:1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    kept: npt.NDArray[np.uint64] = ascending[first]
    return kept
