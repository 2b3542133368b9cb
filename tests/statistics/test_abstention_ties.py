"""Equally confident questions: no order of theirs is better than another."""

from itertools import pairwise, permutations

import numpy as np
import pytest

from llama_index_rag_metrics.statistics.abstention import abstention_nauc


def test_equal_confidences_count_with_their_mean() -> None:
    """By hand: of 3 questions 0, 0, 1, 1, 1, 2, 2, 2, 2, 2 are left out (0.3 → 0, 1.5 → 2).

    The two of confidence 1 have a mean of 1/2, so what is left has means of 2/3 (of 1/2, 1/2, 1),
    3/4 and 1; leaving out the worst one first, of 2/3, 1 and 1.
    """
    curve = [2 / 3] * 2 + [3 / 4] * 3 + [1] * 5
    best = [2 / 3] * 2 + [1] * 8
    area, ideal = (sum(a + b for a, b in pairwise(each)) / 20 for each in (curve, best))
    wanted = (area - 0.6) / (ideal - 0.6)
    for order in permutations([(1.0, 0.0), (1.0, 1.0), (2.0, 1.0)]):
        confidence, values = np.array(order).T
        assert abstention_nauc(confidence, values) == pytest.approx(wanted, rel=1e-12)
