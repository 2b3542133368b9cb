"""compare() is equal to scipy, statsmodels and ranx called by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from support.intervals import pseudo_change, smallest_shown

from llama_index_rag_metrics import Scores, compare

pytestmark = pytest.mark.peers

N = 150
NAMES = ("bm25", "dense", "hybrid")


@pytest.fixture(scope="module")
def systems() -> dict[str, Scores]:
    rng = np.random.default_rng(42)
    difficulty = rng.beta(2, 2, N)
    ids = [f"q{number}" for number in range(N)]
    return {
        name: Scores(
            ids,
            {
                "ndcg@10": np.clip(difficulty + rng.normal(0.02 * number, 0.15, N), 0, 1),
                "hit_rate@5": (rng.random(N) < 0.6 + 0.1 * number).astype(float),
                "mrr": 1 / rng.integers(1, 6, N),
            },
        )
        for number, name in enumerate(NAMES)
    }


@pytest.mark.parametrize("metric", ["ndcg@10", "hit_rate@5", "mrr"])
@pytest.mark.parametrize("name", NAMES[1:])
def test_all_numbers_by_scipy(systems: dict[str, Scores], name: str, metric: str) -> None:
    pair = {each: systems[each] for each in ("bm25", name)}
    row = compare(pair, "bm25", metrics=[metric], confidence=0.9)[name, metric]
    base, changed = systems["bm25"][metric], systems[name][metric]
    paired = changed - base
    assert row.baseline_mean == math.fsum(base) / N == systems["bm25"].means[metric]
    assert row.mean == math.fsum(changed) / N
    assert row.difference == pytest.approx(paired.mean(), abs=1e-15)
    assert (row.wins, row.ties, row.losses) == (
        (paired > 0).sum(),
        (paired == 0).sum(),
        (paired < 0).sum(),
    )
    # two more queries, which changed by M in either direction; R as far as scores and 0 are
    pseudo = pseudo_change(paired, float(np.max([base, changed])))
    error = np.append(paired, [pseudo, -pseudo]).std() / math.sqrt(N + 1)
    shown = smallest_shown(paired, float(np.max([base, changed])), alpha=0.1)
    assert row.detectable == pytest.approx(shown, rel=1e-9)
    wide = stats.t.ppf(0.95, N + 1) * error
    centre = paired.sum() / (N + 2)
    assert (row.low, row.high) == pytest.approx((centre - wide, centre + wide), rel=1e-9)


def test_t_test_by_ranx(systems: dict[str, Scores]) -> None:
    pytest.importorskip("ranx", reason="ranx isn't installed: it needs numba")
    from ranx.statistical_tests import paired_student_t_test

    for row in compare(systems, "bm25").to_pandas().itertuples():
        base, changed = systems["bm25"][row.metric], systems[row.system][row.metric]
        p_value, _ = paired_student_t_test(base, changed, 0.05)
        assert row.p == pytest.approx(p_value, rel=1e-10)
