"""Which of many configurations are the best, as far as the queries can tell.

A winner is the one that beats each of the others by the t-test; see `beats_all`. Where there is
none, a configuration stays unless another one is shown to be better than it, corrected (step-down
maxT) for all configurations that might be: Hsu's multiple comparisons with the best. Whichever is
truly the best is dropped in at most alpha of sweeps.
"""

from __future__ import annotations

import numpy as np

from llama_index_rag_metrics.judging import FloatArray, IntArray
from llama_index_rag_metrics.statistics.corrections import max_t
from llama_index_rag_metrics.statistics.intervals import RESAMPLES, SEED
from llama_index_rag_metrics.statistics.resampling import NOISE, Units
from llama_index_rag_metrics.statistics.significance import beats_all, t_p


def undefeated(
    scores: FloatArray,
    *,
    alpha: float = 0.05,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> IntArray:
    """The positions of the configurations that no other one is shown to beat.

    Args:
        scores: (queries, configurations), more is better, none NaN.
        alpha: how often a winner is named though there is none, at most.
        clusters: (queries,) the number of each query's cluster, or None.
        resamples: random flips of signs.
        seed: of the random numbers.

    Examples:
        >>> scores = np.repeat([[0.1, 0.9, 0.9]], 20, axis=0)
        >>> scores += np.linspace(-0.05, 0.05, 20).reshape(-1, 1) * [[1, 2, 2]]
        >>> undefeated(scores)
        array([1, 2])
    """
    n_queries, n = scores.shape
    if n < 2 or n_queries < 2:
        return np.arange(n)
    best = int(scores.mean(axis=0).argmax())
    if beats_all(Units.of(scores[:, [best]] - np.delete(scores, best, axis=1), clusters), alpha):
        return np.array([best])
    kept = [
        position
        for position in range(n)
        if not _is_beaten(scores, position, alpha, clusters, resamples, seed)
    ]
    return np.array(kept, np.int64)


def _is_beaten(
    scores: FloatArray,
    position: int,
    alpha: float,
    clusters: IntArray | None,
    resamples: int,
    seed: int,
) -> bool:
    """Whether some other configuration is shown to be better than this one.

    The tests are two-sided, so that those on the one side that counts have half of alpha.
    """
    others = np.delete(scores, position, axis=1)
    units = Units.of(others - scores[:, [position]], clusters)
    is_better = units.means > NOISE
    alone = t_p(units)
    # correction makes no p value smaller: most configurations are told without it
    if not (is_better & (alone <= alpha)).any():
        return False
    # nor larger than Holm's, which is at most this: the flips are drawn where neither decides
    if (is_better & (alone * len(alone) <= alpha)).any():
        return True
    corrected = max_t(
        units,
        alone,
        [np.arange(others.shape[1])],
        alpha=alpha,
        resamples=resamples,
        seed=seed,
    ).p_values
    return bool((is_better & (corrected <= alpha)).any())


def pareto_front(columns: FloatArray) -> IntArray:
    """The positions of the rows that no other row is at least as good as everywhere and better
    than somewhere.

    Args:
        columns: (rows, qualities), more is better.

    Examples:
        >>> pareto_front(np.array([[0.9, -300.0], [0.8, -100.0], [0.7, -200.0]]))
        array([0, 1])
    """
    at_least = (columns[:, np.newaxis] >= columns[np.newaxis]).all(axis=2)
    better = (columns[:, np.newaxis] > columns[np.newaxis]).any(axis=2)
    front: IntArray = np.flatnonzero(~(at_least & better).any(axis=0))
    return front
