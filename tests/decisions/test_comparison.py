"""compare(): its shape, its winner, which questions it compares; what goes in, what comes out."""

import json
import math
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support.intervals import ends, pseudo_change, width

from llama_index_rag_metrics import Comparison, RetrievalDataset, Scores, compare, evaluate, sweep
from llama_index_rag_metrics.decisions.comparison.difference import Difference
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.scores.counts import Reason

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


def key(difference: Difference) -> tuple[str, str]:
    return difference.system, difference.metric


@pytest.fixture(scope="module")
def systems() -> dict[str, Scores]:
    return {"bm25": scores(1), "dense": scores(2, 0.01), "hybrid": scores(3, 0.08)}


@pytest.fixture(scope="module")
def comparison(systems: dict[str, Scores]) -> Comparison:
    return compare(systems, "bm25")


def test_systems_by_every_metric(comparison: Comparison, systems: dict[str, Scores]) -> None:
    metrics = ("ndcg@10", "hit_rate@5")
    assert comparison.metric_names == metrics
    assert [key(difference) for difference in comparison] == [
        (system, metric) for system in ("dense", "hybrid") for metric in metrics
    ]
    assert comparison["hybrid", "ndcg@10"] is comparison.differences[2]
    assert repr(comparison) == f"<Comparison: {comparison.decision}>"
    assert len(comparison.means) == 6
    for (system, metric), interval in comparison.means.items():
        assert interval.mean == systems[system].means[metric]
        low, high = ends(interval)
        assert low < interval.mean < high
    by_query = comparison.by_query("hybrid", "ndcg@10")
    expected = systems["hybrid"]["ndcg@10"] - systems["bm25"]["ndcg@10"]
    ordered = [by_query[query_id] for query_id in systems["bm25"].query_ids]
    assert ordered == pytest.approx(expected.tolist(), abs=1e-12)


def test_unknown_keys(comparison: Comparison) -> None:
    with pytest.raises(InvalidInput, match="a metric that was scored"):
        comparison["hybrid", "map"]
    for unknown in ("hybrid", ("bm25", "ndcg@10")):
        with pytest.raises(InvalidInput, match=r"the systems \['dense', 'hybrid'\]"):
            comparison[unknown]  # type: ignore[index]
    with pytest.raises(InvalidInput, match="'bm25' or 'dense' or 'hybrid'"):
        comparison.by_query("nope", "ndcg@10")


def assert_same(compared: Comparison, expected: Comparison) -> None:
    """The same numbers: products of matrices differ in the last bit by their shape."""
    for twin in expected:
        for name, value in asdict(compared[key(twin)]).items():
            if isinstance(value, float):
                assert value == pytest.approx(getattr(twin, name), abs=1e-12), name
            else:
                assert value == getattr(twin, name), name


class TestReproducible:
    def test_order_of_systems(self, comparison: Comparison, systems: dict[str, Scores]) -> None:
        assert_same(compare(dict(reversed(systems.items())), "bm25"), comparison)

    def test_order_of_queries(self, comparison: Comparison, systems: dict[str, Scores]) -> None:
        order = np.random.default_rng(4).permutation(N)
        shuffled = {
            name: Scores(
                [system.query_ids[row] for row in order],
                {metric: system[metric][order] for metric in system},
            )
            for name, system in systems.items()
        }
        assert compare(shuffled, "bm25").differences == comparison.differences

    def test_swapping_the_sides_turns_the_sign(self, systems: dict[str, Scores]) -> None:
        two = {name: systems[name] for name in ("bm25", "hybrid")}
        there = compare(two, "bm25")["hybrid", "ndcg@10"]
        back = compare(two, "hybrid")["bm25", "ndcg@10"]
        low, high = ends(there)
        assert ends(back) == pytest.approx((-high, -low), abs=1e-9)
        assert (back.wins, back.losses) == (there.losses, there.wins)


class TestTogether:
    def test_families_are_wider(self, comparison: Comparison, systems: dict[str, Scores]) -> None:
        for row in comparison:
            pair = {name: systems[name] for name in ("bm25", row.system)}
            alone = compare(pair, "bm25", metrics=[row.metric])[row.system, row.metric]
            assert width(alone) < width(row)

    def test_further_metrics_cost_the_decision_nothing(self, systems: dict[str, Scores]) -> None:
        beside = compare(systems, "bm25", metrics=["hit_rate@5", "ndcg@10"])
        assert beside.primary == "hit_rate@5"
        assert_same(beside, compare(systems, "bm25", metrics=["hit_rate@5"]))

    def test_copies_cost_nothing(self, comparison: Comparison, systems: dict[str, Scores]) -> None:
        copied = compare({**systems, "copy": systems["hybrid"]}, "bm25")
        assert_same(copied, comparison)
        copy, hybrid = copied["copy", "ndcg@10"], copied["hybrid", "ndcg@10"]
        assert ends(copy) == pytest.approx(ends(hybrid), abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_compare_and_sweep_name_the_same_winner(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries = {f"q{number:02}": f"{number}" for number in range(60)}
    labels = {query_id: [f"d{text}"] for query_id, text in queries.items()}
    corpus = dict.fromkeys([*(f"d{text}" for text in queries.values()), "x"], "A text.")
    dataset = RetrievalDataset(queries, labels, corpus)
    luck = rng.random((60, 3))
    chances = np.array([0.3, 0.4, rng.choice([0.4, 0.7])])

    def build(c: int) -> Any:
        return lambda text: [f"d{text}" if luck[int(text), c] < chances[c] else "x"]

    found = sweep(build, {"c": [0, 1, 2]}, dataset, ["hit_rate@1"])
    winner = found.winner
    for baseline in ("c=0", "c=1", "c=2"):
        compared = compare(found.results, baseline)
        assert compared.winner == (None if winner is None else winner.name)
        if winner is not None:
            assert compared.decision == f"{winner.name} is the best of 3 on hit_rate@1."
            assert found.decision.startswith(compared.decision[:-1])
        else:
            assert "is the best" not in compared.decision


class TestOut:
    def test_json_holds_all_numbers(self, comparison: Comparison, tmp_path: Path) -> None:
        written = json.loads(comparison.to_json(tmp_path / "comparison.json"))
        assert json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8")) == written
        for row, difference in zip(written, comparison, strict=True):
            assert row == {name: getattr(difference, name) for name in row}
            assert (row["outcome"], row["verdict"]) == (difference.outcome, str(difference))

    def test_pandas(self, comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("pandas")
        frame = comparison.to_pandas()
        assert frame["verdict"].tolist() == [difference.verdict for difference in comparison]
        for p, difference in zip(frame["p"], comparison, strict=True):
            values = [*comparison.by_query(difference.system, difference.metric).values()]
            assert p == stats.ttest_1samp(values, 0).pvalue
        same = compare({"a": scores(1), "b": scores(1)}, "a").to_pandas()
        assert same["p"].tolist() == [1.0] * len(same)
        assert not re.search(r"\bp\b", str(comparison))
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingExtra, match="needs pandas"):
            comparison.to_pandas()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseline": "nope"}, "baseline: expected 'bm25' or 'dense' or 'hybrid', got 'nope'."),
        ({"baseline": ["bm25"]}, "baseline: expected 'bm25' or 'dense' or 'hybrid', got ['bm25']."),
        ({"confidence": 95}, "confidence: expected a number between 0 and 1"),
        ({"metrics": []}, "metrics: expected a metric that every system has, got "),
        ({"margin": -0.1}, "margin: expected a difference too small to matter, such as 0.02; 0"),
        ({"margin": "0.02"}, "margin: expected a difference too small to matter"),
        ({"systems": {"bm25": scores(1), "x": 0.5}}, "system 'x': expected results of evaluate()"),
        ({"systems": {"bm25": scores(1)}}, "systems: expected two systems or more"),
        ({"systems": [scores(1)]}, "systems: expected two systems or more: a mapping"),
        (
            {"systems": {"bm25": scores(1), "x": Scores(scores(1).query_ids, {"ap": [0.5] * N})}},
            "metrics: expected a metric that every system has, got 'bm25 has ndcg@10, hit_rate@5; "
            "x has ap'",
        ),
    ],
)
def test_wrong_arguments(systems: dict[str, Scores], change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        compare(**{"systems": systems, "baseline": "bm25", **change})
    assert str(caught.value).startswith(message)


def test_intervals_without_limits_may_reach_beyond_what_was_seen() -> None:
    # dcg has no upper limit: two gains, of 1 and 3, with two pseudo-queries of R = 3, the scores'
    # range. Cut off there, the interval would miss the mean of what has a long tail.
    systems = {"before": [0.0, 0.0], "after": [1.0, 3.0]}
    by_dcg = {name: Scores(["q1", "q2"], {"dcg": column}) for name, column in systems.items()}
    difference: Difference
    (difference,) = compare(by_dcg, "before").differences
    pseudo = pseudo_change([1.0, 3.0], 3.0)
    expected = stats.ttest_1samp([1.0, 3.0, pseudo, -pseudo], 0).confidence_interval()
    assert ends(difference) == pytest.approx((expected.low, expected.high))
    assert ends(difference)[1] > 3


class TestMissing:
    @pytest.mark.parametrize(
        ("a", "b", "lacking"),
        [
            ("123", "234", "1 missing (q1); 1 new (q4)."),
            ("123456789", "1", "8 missing (q2, q3, q4, q5, q6 and 3 more)."),
        ],
    )
    def test_other_queries_are_refused_and_named(self, a: str, b: str, lacking: str) -> None:
        systems = {
            name: Scores([f"q{digit}" for digit in digits], {"mrr": [1.0] * len(digits)})
            for name, digits in (("a", a), ("b", b))
        }
        with pytest.raises(InvalidInput) as caught:
            compare(systems, "a")
        assert str(caught.value) == (
            f"Other questions in b than in a: {lacking} Evaluate all on the same dataset, with "
            "matcher='text' where ids have changed."
        )

    def test_excluded_queries_are_known_queries(self) -> None:
        excluded: dict[str, Reason] = {"q3": "no_relevant", "ranked here alone": "unjudged"}
        a = Scores(["q1", "q2"], {"mrr": [1, 0.5]}, excluded=excluded)
        b = Scores(["q1"], {"mrr": [0.5]}, excluded={"q2": "failed", "q3": "no_relevant"})
        comparison = compare({"a": a, "b": b}, "a")
        assert comparison.paired.query_ids == ("q1", "q2")
        assert (comparison["b", "mrr"].n, comparison["b", "mrr"].difference) == (1, -0.5)
        assert comparison.means["a", "mrr"].mean == 0.75

    def test_metric_without_a_value_pairs_where_both_have_one(self) -> None:
        a = Scores(["q1", "q2", "q3"], {"s": [1, math.nan, 0.2], "mrr": [1, 1, 0]})
        b = Scores(["q1", "q2", "q3"], {"s": [0.5, 0.1, math.nan], "mrr": [1, 0, 0]})
        comparison = compare({"a": a, "b": b}, "a")
        by_s = comparison["b", "s"]
        assert (by_s.n, by_s.baseline_mean, by_s.mean, by_s.difference) == (1, 1.0, 0.5, -0.5)
        assert comparison["b", "mrr"].n == 3
        assert (comparison.means["a", "s"].n, comparison.means["a", "s"].mean) == (2, 0.6)
        assert comparison.by_query("b", "s") == {"q1": -0.5}

    def test_systems_that_scored_nothing_at_all(self) -> None:
        nothing = Scores([], {"mrr": []}, excluded={"q1": "unjudged"})
        comparison = compare({"a": nothing, "b": nothing}, "a")
        assert (comparison["b", "mrr"].n, comparison.means["a", "mrr"].n) == (0, 0)
        assert [row["n"] for row in json.loads(comparison.to_json())] == [0]

    def test_metrics_that_one_lacks_are_named(self) -> None:
        a = Scores(["q1", "q2"], {"mrr": [1, 0.5], "ap": [1, 1]})
        b = Scores(["q1", "q2"], {"mrr": [1, 0.5], "err": [1, 1]})
        comparison = compare({"a": a, "b": b}, "a")
        assert comparison.metric_names == ("mrr",)
        assert comparison.notes == ("not compared, since not every system has them: ap",)
        with pytest.raises(InvalidInput, match="'ap'"):
            compare({"a": a, "b": b}, "a", metrics=["ap"])


def test_infinite_scores_are_refused() -> None:
    pair = {
        name: Scores(["q1", "q2"], {"dcg": [1.0, score]})
        for name, score in (("a", 2.0), ("b", math.inf))
    }
    with pytest.raises(InvalidInput, match="scores by dcg: expected finite numbers"):
        compare(pair, "a")


def test_means_over_other_depths_are_said() -> None:
    corpus = dict.fromkeys("abcd", "kiln")
    dataset = RetrievalDataset({"q1": "?", "q2": "!"}, {"q1": ["a"], "q2": ["b"]}, corpus)
    of_metric = {}
    for metric in ("precision", "bm25_similarity@3", "bm25_similarity@2", "precision@2", "recall"):
        two = evaluate(lambda query: ["a", "b"], dataset, [metric])
        four = evaluate(lambda query: ["a", "b", "c", "d"], dataset, [metric])
        comparison = compare({"two": two, "four": four}, "two")
        of_metric[metric] = comparison.notes
        lines = [line.text for line in comparison.report().decision]
        assert {f"{note}." for note in comparison.notes} <= set(lines)
    assert of_metric.pop("precision") == (
        "precision is a mean over all that was retrieved, at most 2 passages by one system and 4 "
        "by another: compare on precision@2",
    )
    assert "and 3 by another: compare on bm25_similarity@2" in of_metric.pop("bm25_similarity@3")[0]
    assert set(of_metric.values()) == {()}
