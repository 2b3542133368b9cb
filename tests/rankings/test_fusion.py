"""Fusion: by hand, whatever the order of the runs, and with a reason where it can't be."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_rag_metrics import Ranking, Run, Span, fuse, score_rankings
from llama_index_rag_metrics.runtime.errors import InvalidInput

pytestmark = pytest.mark.peers

BM25 = Run({"q": Ranking(["a", "b", "c"], scores=[9.0, 6.0, 3.0])}, name="bm25")
DENSE = Run({"q": Ranking(["c", "d", "a"], scores=[0.9, 0.8, 0.4])}, name="dense")
RUNS = {"bm25": BM25, "dense": DENSE}


def scores(run: Run, query_id: str = "q") -> dict[str, float]:
    return dict(zip(run[query_id].ids, run[query_id].scores or (), strict=True))  # type: ignore[arg-type]


def test_reciprocal_ranks_by_hand() -> None:
    fused = scores(fuse(RUNS))
    expected = {"a": 1 / 61 + 1 / 63, "c": 1 / 63 + 1 / 61, "b": 1 / 62, "d": 1 / 62}
    assert fused == pytest.approx(expected)
    # a and c tie, both first somewhere; so do b and d, both second: then by id
    assert list(fused) == ["a", "c", "b", "d"]


def test_weights_and_k() -> None:
    fused = scores(fuse(RUNS, weights={"dense": 2}, k=0))
    assert fused == pytest.approx({"c": 1 / 3 + 2, "a": 1 + 2 / 3, "d": 1.0, "b": 0.5})
    assert list(fused) == ["c", "a", "d", "b"]


def test_min_max_by_hand() -> None:
    # bm25: 1, 0.5, 0; dense: 1, 0.8, 0; what a run lacks is worth its lowest, 0
    fused = scores(fuse(RUNS, "minmax"))
    assert fused == pytest.approx({"a": 1 + 0, "c": 0 + 1, "d": 0.8, "b": 0.5})


def test_z_scores_by_hand() -> None:
    # bm25: mean 6, deviation √6; dense: mean 0.7, deviation √(0.14 / 3)
    fused = scores(fuse(RUNS, "zscore"))
    unit, spread = 3 / math.sqrt(6), math.sqrt(0.14 / 3)
    assert fused == pytest.approx(
        {
            "a": unit - 0.3 / spread,
            "b": 0 - 0.3 / spread,
            "c": -unit + 0.2 / spread,
            "d": -unit + 0.1 / spread,
        }
    )


def test_equal_scores_and_single_results() -> None:
    flat = {"a": {"q": Ranking(["x", "y"], scores=[2.0, 2.0])}, "b": {"q": Ranking([])}}
    assert scores(fuse(flat, "minmax")) == {"x": 1.0, "y": 1.0}
    assert scores(fuse(flat, "zscore")) == {"x": 0.0, "y": 0.0}


@pytest.mark.parametrize("method", ["rrf", "minmax", "zscore"])
def test_the_order_of_the_runs_doesnt_matter(method: Any) -> None:
    runs = {**RUNS, "third": Run({"q": Ranking(["d", "b"], scores=[0.3, 0.1])})}
    first, *reordered = (
        fuse({name: runs[name] for name in order}, method, name="x") for order in permutations(runs)
    )
    assert all(run == first for run in reordered)


def test_repeated_ids_count_once_at_their_first_rank() -> None:
    repeated = {"a": {"q": ["x", "x", "y"]}, "b": {"q": ["z"]}}
    assert scores(fuse(repeated)) == pytest.approx({"x": 1 / 61, "z": 1 / 61, "y": 1 / 62})
    scored = {"a": {"q": Ranking(["x", "x", "y"], scores=[5, 3, 1])}, "b": {"q": []}}
    assert scores(fuse(scored, "minmax")) == {"x": 1.0, "y": 0.0}  # type: ignore[arg-type]


def test_depth_and_name() -> None:
    fused = fuse(RUNS, depth=2)
    assert list(fused["q"].ids) == ["a", "c"]
    assert (fused.name, fused.stage) == ("rrf(bm25, dense)", "fusion")
    assert fuse(RUNS, name="hybrid").name == "hybrid"


def test_texts_and_spans_come_along() -> None:
    span = Span("doc", 0, 4)
    first = Run({"q": Ranking(["a"], texts=["A"], spans=[span])})
    second = Run({"q": Ranking(["b", "a"], texts=["B", "A again"])})
    ranking = fuse({"1": first, "2": second})["q"]
    assert list(ranking.ids) == ["a", "b"]
    assert (ranking.texts, ranking.spans) == (["A", "B"], [span, None])
    bare = fuse({"1": first, "2": {"q": ["b"]}})["q"]
    assert bare.texts is None


def test_queries_of_any_run_and_failures() -> None:
    first = Run({"q1": ["a"], "q2": Ranking(error="timeout"), "q3": Ranking(error="timeout")})
    second = Run({"q2": ["b"], "q3": Ranking(error="refused"), "q4": ["c"]})
    fused = fuse({"one": first, "two": second})
    assert {query_id: list(ranking.ids) for query_id, ranking in fused.items()} == {
        "q1": ["a"],
        "q2": ["b"],
        "q3": [],
        "q4": ["c"],
    }
    assert fused.failed == {"q3": "one: timeout; two: refused"}
    assert fused.latency is None


def test_a_fused_run_is_scored_as_one_more_system() -> None:
    scored = score_rankings({"q": ["b", "d"]}, fuse(RUNS), "recall@3")
    assert (scored.name, scored.means["recall@3"]) == ("rrf(bm25, dense)", 0.5)


@given(st.lists(st.permutations("abcdef"), min_size=2, max_size=4))
def test_agreed_order_is_kept(rankings: list[list[str]]) -> None:
    """What every run ranks above another item stands above it in the fused run."""
    runs = {
        str(number): {"q": Ranking(ids, scores=[6.0 - rank for rank in range(6)])}
        for number, ids in enumerate(rankings)
    }
    for method in ("rrf", "minmax", "zscore"):
        fused = list(fuse(runs, method)["q"].ids)
        for above in "abcdef":
            for below in "abcdef":
                if all(ids.index(above) < ids.index(below) for ids in rankings):
                    assert fused.index(above) < fused.index(below)


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        (RUNS, {"method": "borda"}, "method: expected 'rrf' or 'minmax' or 'zscore', got 'borda'."),
        ({"bm25": BM25}, {}, "runs: expected two runs or more, got ['bm25']."),
        (RUNS, {"k": -1}, "k: expected a number of at least 0, got -1."),
        (RUNS, {"depth": 0}, "depth: expected a whole number above 0, or None, got 0."),
        (RUNS, {"weights": {"x": 1}}, "weights: expected names of runs: ['bm25', 'dense']"),
        (RUNS, {"weights": {"dense": -1}}, "weight of 'dense': expected a number of at least 0"),
        (
            {**RUNS, "bare": {"q": ["a"]}},
            {"method": "minmax"},
            "scores of run 'bare', question 'q': expected a score of every passage, got None. "
            "Fuse by ranks: method='rrf'.",
        ),
        (
            {**RUNS, "part": {"q": Ranking(["a", "b"], scores=[1.0, None])}},
            {"method": "zscore"},
            "scores of run 'part', question 'q': expected a score of every passage",
        ),
        (
            {**RUNS, "odd": {"q": Ranking(["a"], scores=[math.nan])}},
            {"method": "minmax"},
            "scores of run 'odd', question 'q': expected finite scores",
        ),
        (
            {**RUNS, "far": {"q": Ranking(["a", "b"], scores=[0.1, 0.9])}},
            {"method": "minmax"},
            "scores of run 'far', question 'q': expected higher scores first, got [0.1, 0.9]. If "
            "they are distances, negate them, or fuse by ranks: method='rrf'.",
        ),
        ([["a"], ["b"]], {}, "runs: expected a mapping of name to run, got"),
        ({"a": {}, "b": {}}, {"k": "60"}, "k: expected a number of at least 0, got '60'."),
        ({"a": {}, "b": {}}, {"depth": 2.5}, "depth: expected a whole number above 0, or None"),
        ({"a": {}, "b": {}}, {"weights": {"a": "2"}}, "weight of 'a': expected a number of at"),
    ],
)
def test_what_cant_be_fused(runs: Any, options: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        fuse(runs, **options)
    assert str(caught.value).startswith(message)


def test_what_is_no_mapping_of_rankings_names_what_reads_it() -> None:
    ranx = pytest.importorskip("ranx", reason="ranx isn't installed")
    run = ranx.Run({"q": {"a": 1.0}})
    with pytest.raises(InvalidInput, match=r"read_run\(\) reads runs of ranx"):
        fuse({"one": run, "other": run})
