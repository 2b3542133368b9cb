"""compare(): its shape, reproducibility and winner; what goes in and what comes out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support.compared import N, key, scores, three_systems
from support.intervals import ends, pseudo_change, width

from llama_index_rag_metrics import Comparison, RetrievalDataset, Scores, aevaluate, compare, sweep
from llama_index_rag_metrics.decisions.comparison.difference import Difference
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra, UnknownMetric


@pytest.fixture(scope="module")
def systems() -> dict[str, Scores]:
    return three_systems()


@pytest.fixture(scope="module")
def comparison(systems: dict[str, Scores]) -> Comparison:
    return compare(systems, "bm25")


class TestShape:
    def test_every_other_system_by_every_metric(self, comparison: Comparison) -> None:
        assert [key(difference) for difference in comparison] == [
            ("dense", "ndcg@10"),
            ("dense", "hit_rate@5"),
            ("hybrid", "ndcg@10"),
            ("hybrid", "hit_rate@5"),
        ]
        assert comparison["hybrid", "ndcg@10"] is comparison.differences[2]
        assert comparison.metric_names == ("ndcg@10", "hit_rate@5")
        assert comparison.query_ids == tuple(sorted(f"q{number}" for number in range(N)))
        assert repr(comparison) == f"<Comparison: {comparison.decision}>"

    def test_means_are_those_of_the_scores(
        self, comparison: Comparison, systems: dict[str, Scores]
    ) -> None:
        for (system, metric), interval in comparison.means.items():
            assert interval.mean == systems[system].means[metric]
            low, high = ends(interval)
            assert low < interval.mean < high
        assert len(comparison.means) == 6
        assert comparison.means["bm25", "hit_rate@5"].method == "Wilson"

    def test_bare_scores_have_no_results(self, comparison: Comparison) -> None:
        assert comparison.results == {"bm25": None, "dense": None, "hybrid": None}

    def test_differences_by_query(self, comparison: Comparison, systems: dict[str, Scores]) -> None:
        by_query = comparison.by_query("hybrid", "ndcg@10")
        expected = systems["hybrid"]["ndcg@10"] - systems["bm25"]["ndcg@10"]
        ordered = [by_query[query_id] for query_id in systems["bm25"].query_ids]
        assert ordered == pytest.approx(expected.tolist(), abs=1e-12)

    def test_unknown_keys(self, comparison: Comparison) -> None:
        with pytest.raises(UnknownMetric):
            comparison["hybrid", "map"]
        with pytest.raises(InvalidInput, match=r"As in comparison\['hybrid', 'ndcg@10'\]"):
            comparison["hybrid"]  # type: ignore[index]
        with pytest.raises(InvalidInput, match="'dense' or 'hybrid'"):
            comparison["bm25", "ndcg@10"]
        with pytest.raises(InvalidInput, match="'bm25' or 'dense' or 'hybrid'"):
            comparison.by_query("nope", "ndcg@10")


class TestReproducible:
    def test_the_order_of_the_systems_doesnt_matter(
        self, comparison: Comparison, systems: dict[str, Scores]
    ) -> None:
        backwards = compare(dict(reversed(systems.items())), "bm25")
        for difference in comparison:
            assert_same(backwards[key(difference)], difference)

    def test_nor_does_the_order_of_the_queries(
        self, comparison: Comparison, systems: dict[str, Scores]
    ) -> None:
        order = np.random.default_rng(4).permutation(N)
        shuffled = {
            name: Scores(
                [system.query_ids[row] for row in order],
                {metric: system[metric][order] for metric in system},
            )
            for name, system in systems.items()
        }
        reordered = compare(shuffled, "bm25")
        assert reordered.query_ids == comparison.query_ids
        for difference in comparison:
            assert_same(reordered[key(difference)], difference)

    def test_swapping_the_sides_turns_the_sign(self, systems: dict[str, Scores]) -> None:
        two = {name: systems[name] for name in ("bm25", "hybrid")}
        there = compare(two, "bm25")["hybrid", "ndcg@10"]
        back = compare(two, "hybrid")["bm25", "ndcg@10"]
        low, high = ends(there)
        assert ends(back) == pytest.approx((-high, -low), abs=1e-9)
        assert (back.wins, back.losses) == (there.losses, there.wins)


def assert_same(difference: Difference, twin: Difference) -> None:
    """The same numbers: products of matrices differ in the last bit by their shape."""
    for name, value in asdict(difference).items():
        expected = getattr(twin, name)
        if isinstance(value, float):
            assert value == pytest.approx(expected, abs=1e-12), name
        else:
            assert value == expected, name


class TestTogether:
    def test_the_first_metric_is_one_family_and_all_others_another(
        self, systems: dict[str, Scores]
    ) -> None:
        comparison = compare(systems, "bm25")
        assert [row.metric for row in comparison] == ["ndcg@10", "hit_rate@5"] * 2
        for row in comparison:
            pair = {name: systems[name] for name in ("bm25", row.system)}
            alone = compare(pair, "bm25", metrics=[row.metric])[row.system, row.metric]
            assert width(alone) < width(row)

    def test_looking_at_more_metrics_costs_the_decision_nothing(
        self, systems: dict[str, Scores]
    ) -> None:
        alone = compare(systems, "bm25", metrics=["hit_rate@5"])
        beside = compare(systems, "bm25", metrics=["hit_rate@5", "ndcg@10"])
        assert beside.primary == "hit_rate@5"
        for difference in alone:
            assert_same(beside[key(difference)], difference)

    def test_a_copy_of_a_system_costs_nothing(self, systems: dict[str, Scores]) -> None:
        copies = {**systems, "copy": systems["hybrid"]}
        copied = compare(copies, "bm25")
        for difference in compare(systems, "bm25"):
            assert_same(copied[key(difference)], difference)
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
        compared = found.compare(baseline)
        assert compared.winner == (None if winner is None else winner.name)
        if winner is not None:
            assert compared.decision == f"{winner.name} is the best of 3 on hit_rate@1."
            assert found.decision.startswith(compared.decision[:-1])
        else:
            assert "is the best" not in compared.decision


def test_the_order_of_queries_is_of_no_influence() -> None:
    ours, theirs = (
        dict(zip(s.query_ids, s["ndcg@10"], strict=True)) for s in (scores(1), scores(2))
    )
    differences = []
    for ids in (sorted(ours), sorted(ours, reverse=True)):
        pair = {
            name: Scores(ids, {"ndcg@10": [column[query_id] for query_id in ids]})
            for name, column in (("a", ours), ("b", theirs))
        }
        differences.append(compare(pair, "a")["b", "ndcg@10"])
    assert asdict(differences[0]) == asdict(differences[1])


class TestOut:
    def test_json_holds_all_numbers(self, comparison: Comparison, tmp_path: Path) -> None:
        written = json.loads(comparison.to_json(tmp_path / "comparison.json"))
        assert json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8")) == written
        for row, difference in zip(written["differences"], comparison, strict=True):
            assert row == {name: getattr(difference, name) for name in row}
            assert (row["outcome"], row["verdict"]) == (difference.outcome, str(difference))
        assert written["means"][0]["mean"] == comparison.means["bm25", "ndcg@10"].mean

    def test_pandas(self, comparison: Comparison) -> None:
        pytest.importorskip("pandas")
        frame = comparison.to_pandas()
        assert frame["verdict"].tolist() == [difference.verdict for difference in comparison]
        for p, difference in zip(frame["p"], comparison, strict=True):
            values = [*comparison.by_query(difference.system, difference.metric).values()]
            assert p == stats.ttest_1samp(values, 0).pvalue
        same = compare({"a": scores(1), "b": scores(1)}, "a").to_pandas()
        assert same["p"].tolist() == [1.0] * len(same)
        assert not re.search(r"\bp\b", str(comparison))

    def test_pandas_is_an_extra(
        self, comparison: Comparison, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingExtra, match="needs pandas"):
            comparison.to_pandas()

    def test_text_is_the_verdicts(self, comparison: Comparison) -> None:
        assert comparison["hybrid", "ndcg@10"].verdict in " ".join(str(comparison).split())

    @pytest.mark.slow
    def test_importing_compare_doesnt_load_scipy_stats(self) -> None:
        code = """
import sys
import llama_index.core.evaluation
before = set(sys.modules)
from llama_index_rag_metrics import compare
print("scipy.stats" in set(sys.modules) - before)
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "False"


def test_intervals_are_made_in_one_way(systems: dict[str, Scores]) -> None:
    further: dict[str, Any] = {"method": "bca"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'method'"):
        compare(systems, "bm25", **further)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseline": "nope"}, "baseline: expected 'bm25' or 'dense' or 'hybrid', got 'nope'."),
        ({"baseline": ["bm25"]}, "baseline: expected 'bm25' or 'dense' or 'hybrid', got ['bm25']."),
        ({"confidence": 95}, "confidence: expected a number between 0 and 1"),
        ({"metrics": []}, "metrics: expected a metric that every system has, got []."),
        ({"margin": -0.1}, "margin: expected a difference too small to matter, such as 0.02; 0"),
        ({"margin": "0.02"}, "margin: expected a difference too small to matter"),
    ],
)
def test_arguments_that_mean_nothing(
    systems: dict[str, Scores], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        compare(systems, **{"baseline": "bm25", **change})
    assert str(caught.value).startswith(message)


def test_what_isnt_scores(systems: dict[str, Scores]) -> None:
    with pytest.raises(InvalidInput, match="system 'x': expected the results of an evaluation"):
        compare({**systems, "x": {"ndcg@10": 0.5}}, "bm25")  # type: ignore[dict-item]
    with pytest.raises(InvalidInput, match="two systems or more"):
        compare({"bm25": systems["bm25"]}, "bm25")
    with pytest.raises(InvalidInput, match="systems: expected a mapping of name to results"):
        compare(list(systems.values()), "bm25")  # type: ignore[arg-type]


def test_systems_without_a_common_metric_are_told_with_theirs() -> None:
    systems = {"a": Scores(["q1"], {"mrr": [1.0]}), "b": Scores(["q1"], {"ap": [1.0], "err": [0]})}
    with pytest.raises(InvalidInput, match="every system has, got 'a has mrr; b has ap, err'"):
        compare(systems, "a")


def test_results_that_werent_awaited() -> None:
    evaluation = aevaluate(lambda query: ["a"], {"queries": {"q": "?"}, "relevance": {}}, ["mrr"])
    with pytest.raises(InvalidInput, match="It is a coroutine: await it"):
        compare({"a": evaluation, "b": evaluation}, "a")  # type: ignore[dict-item]
    evaluation.close()


def test_without_limits_an_interval_may_reach_beyond_what_was_seen() -> None:
    # dcg has no upper limit: two gains, of 1 and 3, with two pseudo-queries of R = 3, the scores'
    # range. Cut off there, the interval would miss the mean of what has a long tail.
    systems = {"before": [0.0, 0.0], "after": [1.0, 3.0]}
    by_dcg = {name: Scores(["q1", "q2"], {"dcg": column}) for name, column in systems.items()}
    (difference,) = compare(by_dcg, "before").differences
    pseudo = pseudo_change([1.0, 3.0], 3.0)
    expected = stats.ttest_1samp([1.0, 3.0, pseudo, -pseudo], 0).confidence_interval()
    assert ends(difference) == pytest.approx((expected.low, expected.high))
    assert ends(difference)[1] > 3
