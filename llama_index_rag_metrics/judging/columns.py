"""What both front ends of judging do with their columns: grades in order, token counts checked."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.judging.judged import FloatArray, IntArray


def check_tokens(tokens: IntArray) -> IntArray:
    """Token counts, if they can be such.

    Raises:
        InvalidInput: one is below 0.
    """
    if tokens.size and tokens.min() < 0:
        raise InvalidInput("tokens", int(tokens.min()), "numbers from 0 on")
    return tokens


def best_first(grade: FloatArray, counts: npt.ArrayLike) -> FloatArray:
    """The grades of every query, which stand together, brought into order: best first.

    >>> best_first(np.array([1.0, 2.0, 0.0, 3.0]), [2, 2])
    array([2., 1., 3., 0.])
    """
    if not grade.size or grade.min() == grade.max():
        return grade
    counts = np.asarray(counts, np.int64)
    return grade[np.lexsort((-grade, np.repeat(np.arange(len(counts)), counts)))]
