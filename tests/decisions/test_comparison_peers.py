"""compare() and fuse() are equal to scipy, statsmodels and ranx called by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support.intervals import pseudo_change, smallest_shown

from llama_index_rag_metrics import Ranking, Run, Scores, compare, fuse

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


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """Two runs over the same queries; they share some of their items."""
    rng = np.random.default_rng(8)
    by_name: dict[str, Run] = {}
    for name in ("bm25", "dense"):
        rankings = {}
        for query in range(50):
            items = rng.choice(40, rng.integers(2, 25), replace=False)
            scores = np.sort(rng.gamma(2, 5, len(items)))[::-1].tolist()
            rankings[f"q{query}"] = Ranking([f"d{number}" for number in items], scores=scores)
        by_name[name] = Run(rankings)
    return by_name


def assert_equally_fused(ours: Run, theirs: Any) -> None:
    for query_id, ranking in ours.items():
        expected = theirs.run[query_id]
        assert set(ranking.ids) == set(expected)
        scores = [expected[item_id] for item_id in ranking.ids]
        assert list(ranking.scores or ()) == pytest.approx(scores, abs=1e-9)


def ranx_runs(runs: dict[str, Run]) -> list[Any]:
    ranx = pytest.importorskip("ranx", reason="ranx isn't installed: it needs numba")
    return [
        ranx.Run(
            {
                query_id: dict(zip(ranking.ids, ranking.scores or (), strict=True))
                for query_id, ranking in run.items()
            }
        )
        for run in runs.values()
    ]


@pytest.mark.parametrize("k", [60, 5])
def test_reciprocal_ranks_by_ranx(runs: dict[str, Run], k: int) -> None:
    theirs = ranx_runs(runs)
    from ranx import fuse as ranx_fuse

    fused = ranx_fuse(theirs, norm=None, method="rrf", params={"k": k})
    assert_equally_fused(fuse(runs, k=k), fused)


def test_weighted_min_max_by_ranx(runs: dict[str, Run]) -> None:
    theirs = ranx_runs(runs)
    from ranx import fuse as ranx_fuse

    fused = ranx_fuse(theirs, norm="min-max", method="wsum", params={"weights": [0.3, 0.7]})
    assert_equally_fused(fuse(runs, "minmax", weights={"bm25": 0.3, "dense": 0.7}), fused)


def test_z_scores_of_the_same_items_by_ranx() -> None:
    # where a run lacks an item, ranx takes 0, the run's mean, and we its lowest
    rng = np.random.default_rng(9)
    runs = {
        name: Run(
            {
                f"q{query}": Ranking(
                    [f"d{number}" for number in rng.permutation(20)],
                    scores=np.sort(rng.normal(size=20))[::-1].tolist(),
                )
                for query in range(20)
            }
        )
        for name in ("bm25", "dense")
    }
    theirs = ranx_runs(runs)
    from ranx import fuse as ranx_fuse

    fused = ranx_fuse(theirs, norm="zmuv", method="wsum", params={"weights": [1.0, 0.5]})
    assert_equally_fused(fuse(runs, "zscore", weights={"dense": 0.5}), fused)
