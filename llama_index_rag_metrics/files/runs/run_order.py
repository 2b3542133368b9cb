"""trec_eval's order: by score descending, ties by document id descending, and scores that keep it.

Scores are compared as 64-bit floats. Ids are compared by code points, which is the order of their
UTF-8 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

from llama_index_rag_metrics.rankings.run import Ranking


def by_score(scores: Mapping[str, float]) -> Ranking:
    """The ranking that scores stand for.

    >>> by_score({"a": 1.0, "b": 2.0, "c": 1.0}).ids
    ['b', 'c', 'a']
    """
    pairs = sorted(((score, item) for item, score in scores.items()), reverse=True)
    return Ranking([item for _, item in pairs], [score for score, _ in pairs])


def ordering_scores(ranking: Ranking) -> list[float]:
    """The ranking's scores where they stand for its order, and else n, n - 1, …, 1.

    >>> ordering_scores(Ranking(["b", "a"], [0.5, 0.5])), ordering_scores(Ranking(["a", "b"]))
    ([0.5, 0.5], [2.0, 1.0])
    """
    numbers = [math.nan if score is None else float(score) for score in ranking.scores or ()]
    if len(numbers) == len(ranking.ids) and all(map(math.isfinite, numbers)):
        pairs = zip(numbers, ranking.ids, strict=True)
        if all(above > below for above, below in pairwise(pairs)):
            return numbers
    return [float(left) for left in range(len(ranking.ids), 0, -1)]
