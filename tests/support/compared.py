"""Systems to compare: the scores of 120 questions, with known shifts between the systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from llama_index_rag_metrics import Scores
from llama_index_rag_metrics.decisions.comparison.difference import Difference

N = 120


def scores(seed: int, shift: float = 0.0, **rest: Any) -> Scores:
    """Scores over q0, q1, …: a difficulty that all seeds share, and noise of their own."""
    difficulty = np.random.default_rng(0).beta(2, 2, N)
    rng = np.random.default_rng(seed)
    columns = {
        "ndcg@10": np.clip(difficulty + rng.normal(shift, 0.1, N), 0, 1),
        "hit_rate@5": (difficulty + rng.normal(shift, 0.2, N) > 0.4).astype(float),
    }
    return Scores([f"q{number}" for number in range(N)], columns, **rest)


def three_systems() -> dict[str, Scores]:
    return {"bm25": scores(1), "dense": scores(2, 0.01), "hybrid": scores(3, 0.08)}


def key(difference: Difference) -> tuple[str, str]:
    return difference.system, difference.metric
