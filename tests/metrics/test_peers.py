"""Equal to pytrec_eval and ranx on thousands of random graded rankings.

Left to the oracle, because the peers can't take them: empty rankings and queries that have no grade
above 0 (pytrec_eval ends the process).
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from support.trec_eval_program import CUT, name_of

from llama_index_rag_metrics import Scores, read_run, score_rankings

pytestmark = pytest.mark.peers

CUTOFFS = (1, 2, 5, 10, 20)


@pytest.fixture(scope="module")
def qrels() -> dict[str, dict[str, int]]:
    """Up to 30 judgements a query, with grades from -1 to 4, at least one of them above 0."""
    rng = np.random.default_rng(2024)
    made = {}
    for query in range(4000):
        items = rng.choice(60, rng.integers(1, 31), replace=False).tolist()
        grades = rng.choice([-1, 0, 0, 1, 1, 2, 3, 4], len(items))
        grades[0] = rng.integers(1, 5)
        made[f"q{query}"] = {
            f"d{item}": int(grade) for item, grade in zip(items, grades, strict=True)
        }
    return made


@pytest.fixture(scope="module")
def rankings(qrels: Mapping[str, Any]) -> dict[str, list[str]]:
    """From 1 to 40 of the 60 items, so most queries have unjudged ones and many are short."""
    rng = np.random.default_rng(2025)
    return {
        query: [f"d{item}" for item in rng.choice(60, rng.integers(1, 41), replace=False)]
        for query in qrels
    }


@pytest.fixture(scope="module")
def run(rankings: Mapping[str, list[str]]) -> dict[str, dict[str, float]]:
    """The rankings as the peers take them: every item with a score of its own."""
    return {
        query: {item: float(len(ranking) - place) for place, item in enumerate(ranking)}
        for query, ranking in rankings.items()
    }


def assert_equal(scores: Scores, peer: Mapping[str, np.ndarray]) -> None:
    assert set(scores.metric_names) == set(peer)
    for name, column in peer.items():
        np.testing.assert_allclose(scores[name], column, rtol=0, atol=1e-9, err_msg=name)
        assert len(set(column)) > 1, f"{name} is the same everywhere: the comparison says nothing"


MEASURES = {"map", "recip_rank", "set_P", "set_recall", "Rprec", "bpref", "infAP", "ndcg"}
MEASURES |= {f"{family}.{','.join(map(str, CUTOFFS))}" for family in CUT}
"""trec_eval's, each of which is a metric of ours."""


@pytest.mark.parametrize("level", [1, 2])
def test_pytrec_eval(qrels: Any, run: Any, rankings: Any, level: int) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec_eval-terrier isn't installed")
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, MEASURES, relevance_level=level)
    by_query = evaluator.evaluate(run)
    names = {label: name_of(label, level) for label in by_query["q0"]}
    assert len(names) == 8 + len(CUT) * len(CUTOFFS)
    peer = {
        str(name): np.array([by_query[query][label] for query in qrels])
        for label, name in names.items()
    }
    assert_equal(score_rankings(qrels, rankings, [*peer]), peer)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("parameter", [0.25, 0.5, 1, 2, 4])
def test_pytrec_eval_f(qrels: Any, run: Any, rankings: Any, level: int, parameter: float) -> None:
    # several in one call would come out as one column
    scores = score_rankings(qrels, rankings, str(name_of(f"set_F_{parameter}", level)))
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec_eval-terrier isn't installed")
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {f"set_F.{parameter}"}, relevance_level=level)
    by_query = evaluator.evaluate(run)
    (name,) = scores.metric_names
    assert_equal(
        scores, {name: np.array([next(iter(by_query[query].values())) for query in qrels])}
    )


def test_f_has_the_same_bits_as_trec_eval() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec_eval-terrier isn't installed")
    rng = np.random.default_rng(22)
    # trec_eval's parameter is the square of beta
    decimals = [Decimal(f"{x:.3g}") for x in 10 ** rng.uniform(-2, 2, 40)]
    squares = [(f"f(beta={beta})", float(beta * beta)) for beta in decimals]
    for name, square in [*squares, ("f(beta=0.5)", 0.25)]:
        qrels, run = {}, {}
        for query in range(50):
            n, relevant = int(rng.integers(1, 30)), int(rng.integers(1, 30))
            hits = int(rng.integers(0, min(n, relevant) + 1))
            qrels[str(query)] = {f"d{item}": 1 for item in range(relevant)}
            ids = [f"d{item}" for item in range(hits)] + [f"x{item}" for item in range(n - hits)]
            run[str(query)] = {item: float(-rank) for rank, item in enumerate(ids)}
        theirs = pytrec_eval.RelevanceEvaluator(qrels, {f"set_F.{square!r}"}).evaluate(run)
        scores = score_rankings(qrels, read_run(run), name)
        assert scores[scores.metric_names[0]].tolist() == [
            next(iter(theirs[query].values())) for query in qrels
        ], name


RANX_NAMES = {
    **{name: name for name in ("hit_rate", "mrr", "precision", "recall", "f1")},
    "map": "ap",
    "r-precision": "r_precision",
    "ndcg": "ndcg(ideal=all)",
    "ndcg_burges": "ndcg(mode=exponential, ideal=all)",
    **{
        f"{theirs}@{k}": f"{ours}@{k}"
        for theirs, ours in {
            "hit_rate": "hit_rate",
            "mrr": "mrr",
            "precision": "precision",
            "recall": "recall",
            "f1": "f1",
            "map": "ap",
            "ndcg": "ndcg",
            "ndcg_burges": "ndcg(mode=exponential)",
        }.items()
        for k in CUTOFFS
    },
}


def test_ranx(qrels: Any, run: Any, rankings: Any) -> None:
    ranx = pytest.importorskip("ranx", reason="ranx isn't installed: it needs numba")
    columns = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), list(RANX_NAMES), return_mean=False)
    # ranx sorts the queries by id
    order = np.argsort(np.argsort(list(qrels)))
    peer = {ours: columns[theirs][order] for theirs, ours in RANX_NAMES.items()}
    assert_equal(score_rankings(qrels, rankings, list(RANX_NAMES.values())), peer)
