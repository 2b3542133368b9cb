"""Metrics that only other tools have: by hand, and as their own code has them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest

from llama_index_rag_metrics import Relevance, metric, score_rankings
from llama_index_rag_metrics.runtime.errors import InvalidInput


def score(name: str, judged: Mapping[str, float], ranking: list[str]) -> float:
    return metric(name).compute("", Relevance(judged), ranking).score


GRADES = {"a": 3, "b": 1, "c": 0, "d": 2}


@pytest.mark.parametrize(
    ("name", "ranking", "value"),
    [
        # 25 · (1 · 1 + 3 · .6²) / (1 + .6 + .36)
        ("xdcg@3", ["b", "x", "a"], 25 * (1 + 3 * 0.36) / 1.96),
        ("xdcg@3", ["a"], 25 * 3 / 1.96),  # missing ranks count
        ("xdcg", ["a"], 25 * 3),  # without a cutoff, as many ranks as there are
        ("xdcg@3", ["x", "c"], 0.0),
        # weights 15, 3 and 7 of grades 3, 1 and 2
        ("fidelity", ["x", "b", "d"], 10 / 25),
        ("fidelity@2", ["x", "b", "d"], 3 / 25),
        ("fidelity", ["d", "c", "b", "a"], 1.0),
        ("fidelity", [], 0.0),
        # of 3 relevant ones 2 within 2: all that 2 places have room for
        ("capped_recall@2", ["a", "b", "x"], 1.0),
        ("capped_recall@2", ["a", "x", "b"], 1 / 2),
        ("R_cap@10", ["a", "x", "b"], 2 / 3),
        # 2 relevant ones retrieved, 1 other, 1 relevant one missed, 6 of 10 others not retrieved
        ("utility", ["a", "x", "b"], 1),
        ("utility(weights=2:-0.5:-3:0)", ["a", "x", "b"], 2 * 2 - 0.5 - 3),
        ("utility(weights=0:0:0:1, corpus_size=10)", ["a", "x", "b"], 6),
    ],
)
def test_by_hand(name: str, ranking: list[str], value: float) -> None:
    assert score(name, GRADES, ranking) == pytest.approx(value, rel=1e-12)


def test_azure_s_own_numbers() -> None:
    """azure-ai-evaluation 1.18's DocumentRetrievalEvaluator, asked for these three."""
    asked = [
        ({"d1": 4, "d2": 3, "d3": 0, "d4": 1}, ["d2", "d9", "d1", "d3"]),
        ({"d1": 2, "d2": 2, "d3": 4}, ["d9", "d3"]),
        ({"d1": 1, "d2": 0}, ["d2", "d1", "d3"]),
    ]
    theirs = {
        "ndcg(mode=exponential)@3": [0.7280392626955013, 0.5145465524245497, 0.6309297535714575],
        "xdcg@3": [56.63265306122449, 30.612244897959183, 7.653061224489796],
        "fidelity": [0.9387755102040817, 0.6888888888888889, 1.0],
    }
    judged, rankings = zip(*asked, strict=True)
    ours = score_rankings(judged, rankings, list(theirs))
    for name, values in theirs.items():
        assert ours[name].tolist() == pytest.approx(values, rel=1e-12)


def test_capped_recall_as_beir_counts_it() -> None:
    """Hits within k over min(R, k), by sets."""
    rng = random.Random(0)
    for _ in range(200):
        relevant = rng.sample(range(30), rng.randint(1, 12))
        ranking = rng.sample(range(30), rng.randint(0, 15))
        k = rng.randint(1, 12)
        value = len({*relevant} & {*ranking[:k]}) / min(len(relevant), k)
        found = score(
            f"capped_recall@{k}", {f"d{n}": 1 for n in relevant}, [f"d{n}" for n in ranking]
        )
        assert found == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("utility(weights=1:2)", "weights: expected four numbers"),
        ("utility(weights=1:x:0:0)", "weights: expected four numbers"),
        ("utility(weights=1:nan:0:0)", "weights: expected four numbers"),
        ("utility(weights=1:-1:0:1)", "corpus_size: expected the size of the corpus"),
    ],
)
def test_what_has_no_meaning_is_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        metric(name)


def test_a_corpus_smaller_than_what_is_known_of_it_is_refused() -> None:
    with pytest.raises(InvalidInput, match="corpus_size: expected at least 5"):
        score("utility(weights=1:-1:0:1, corpus_size=4)", GRADES, ["x"])
    with pytest.raises(InvalidInput, match="at most 64"):
        score("fidelity", {"a": 65}, ["a"])


def test_limits() -> None:
    assert metric("xdcg").bounds == (0.0, math.inf)
    assert [metric(name).bounds for name in ("fidelity", "alpha_dcg", "nerr_ia")] == [(0, 1)] * 3
