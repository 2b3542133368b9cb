"""compare(): pairing, corrections, verdicts, slices, clusters; what goes in and what comes out."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support.intervals import ends, pseudo_change, width

from llama_index_rag_metrics import Comparison, Scores, aevaluate, compare
from llama_index_rag_metrics.comparison import Difference, correct
from llama_index_rag_metrics.errors import InvalidInput, MissingExtra, UnknownMetric

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


@pytest.fixture(scope="module")
def systems() -> dict[str, Scores]:
    return {"bm25": scores(1), "dense": scores(2, 0.01), "hybrid": scores(3, 0.08)}


@pytest.fixture(scope="module")
def comparison(systems: dict[str, Scores]) -> Comparison:
    return compare(systems, "bm25", resamples=2000)


def spoken() -> dict[str, Scores]:
    """Two systems, with the queries' language."""
    languages = ["de", "zh", None]
    metadata = {
        f"q{number}": {"language": language} if (language := languages[number % 3]) else {}
        for number in range(N)
    }
    return {"a": scores(1, metadata=metadata), "b": scores(3, 0.08)}


def key(difference: Difference) -> tuple[str, str]:
    return difference.system, difference.metric


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
        assert comparison.query_ids == tuple(f"q{number}" for number in range(N))
        assert repr(comparison) == (
            "<Comparison of dense, hybrid with bm25: 120 queries; ndcg@10, hit_rate@5>"
        )

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
        assert comparison.holes == {}

    def test_settings_are_stated(self, comparison: Comparison) -> None:
        assert asdict(comparison.settings) == {
            "confidence": 0.95,
            "correction": "max-t",
            "test": "t",
            "resamples": 2000,
            "seed": 0,
            "on_missing": "error",
            "clusters": None,
            "slices": None,
            "primary": "ndcg@10",
            "method": "t",
        }
        assert not any("Wilcoxon" in note for note in comparison.notes)  # it isn't shown

    def test_differences_by_query(self, comparison: Comparison, systems: dict[str, Scores]) -> None:
        by_query = comparison.by_query("hybrid", "ndcg@10")
        expected = systems["hybrid"]["ndcg@10"] - systems["bm25"]["ndcg@10"]
        assert list(by_query.values()) == pytest.approx(expected.tolist(), abs=1e-12)

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
        backwards = compare(dict(reversed(systems.items())), "bm25", resamples=2000)
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
        reordered = compare(shuffled, "bm25", resamples=2000)
        assert reordered.query_ids != comparison.query_ids
        for difference in comparison:
            assert_same(reordered[key(difference)], difference)

    def test_nor_do_further_systems_but_for_the_correction(
        self, comparison: Comparison, systems: dict[str, Scores]
    ) -> None:
        pair = {name: systems[name] for name in ("bm25", "hybrid")}
        alone = compare(pair, "bm25", resamples=2000, correction="none")
        beside = compare(systems, "bm25", resamples=2000, correction="none")
        for difference in alone:
            assert_same(beside[key(difference)], difference)

    def test_swapping_the_sides_turns_the_sign(self, systems: dict[str, Scores]) -> None:
        there = compare(systems, "bm25", resamples=2000)["hybrid", "ndcg@10"]
        back = compare(systems, "hybrid", resamples=2000)["bm25", "ndcg@10"]
        low, high = ends(there)
        assert ends(back) == pytest.approx((-high, -low), abs=1e-9)
        assert back.p_randomisation == there.p_randomisation
        assert (back.wins, back.losses) == (there.losses, there.wins)


def assert_same(difference: Difference, twin: Difference) -> None:
    """The same numbers: products of matrices differ in the last bit by their shape."""
    for name, value in asdict(difference).items():
        expected = getattr(twin, name)
        if isinstance(value, float):
            assert value == pytest.approx(expected, abs=1e-12), name
        else:
            assert value == expected, name


class TestCorrection:
    @pytest.mark.parametrize("correction", ["holm", "bonferroni", "benjamini-hochberg", "none"])
    @pytest.mark.parametrize("test", ["randomisation", "t", "wilcoxon"])
    def test_over_systems_for_the_primary_metric_and_apart_for_all_others(
        self, systems: dict[str, Scores], correction: Any, test: Any
    ) -> None:
        comparison = compare(systems, "bm25", resamples=500, correction=correction, test=test)
        assert [row.metric for row in comparison] == ["ndcg@10", "hit_rate@5"] * 2
        for metric, primary in (("ndcg@10", True), ("hit_rate@5", False)):
            rows = [row for row in comparison if row.metric == metric]
            raw = [getattr(row, f"p_{test}") for row in rows]
            assert [row.p_corrected for row in rows] == correct(raw, correction).tolist()
            assert {row.primary for row in rows} == {primary}
            assert {row.comparisons for row in rows} == {1 if correction == "none" else 2}
        assert [row.significant for row in comparison] == [
            row.p_corrected <= 0.05 for row in comparison
        ]
        assert {row.significant for row in comparison} == {True, False}

    def test_looking_at_more_metrics_costs_the_decision_nothing(
        self, systems: dict[str, Scores]
    ) -> None:
        alone = compare(systems, "bm25", metrics=["hit_rate@5"], resamples=500)
        beside = compare(systems, "bm25", primary="hit_rate@5", resamples=500)
        assert beside.settings.primary == "hit_rate@5"
        for difference in alone:
            assert_same(beside[key(difference)], difference)

    def test_by_max_t_it_is_never_harder_than_by_holm(self, systems: dict[str, Scores]) -> None:
        by_max_t, by_holm = (
            compare(systems, "bm25", resamples=2000, correction=correction)
            for correction in ("max-t", "holm")
        )
        for row in by_max_t:
            assert row.p_t <= row.p_corrected <= by_holm[key(row)].p_corrected + 1e-15

    def test_a_copy_of_a_system_costs_nothing(self, systems: dict[str, Scores]) -> None:
        copies = {**systems, "copy": systems["hybrid"]}
        copied = compare(copies, "bm25", resamples=2000)
        for difference in compare(systems, "bm25", resamples=2000):
            assert_same(copied[key(difference)], difference)
        assert copied["copy", "ndcg@10"].p_corrected == copied["hybrid", "ndcg@10"].p_corrected

    def test_wilcoxons_test_has_holms_correction(self, systems: dict[str, Scores]) -> None:
        comparison = compare(systems, "bm25", test="wilcoxon")
        assert comparison.settings.correction == "holm"
        with pytest.raises(InvalidInput, match="correction: expected a correction of p values"):
            compare(systems, "bm25", test="wilcoxon", correction="max-t")

    def test_the_level_follows_the_confidence(self, systems: dict[str, Scores]) -> None:
        dense = compare(systems, "bm25", resamples=2000, confidence=0.5)["dense", "ndcg@10"]
        assert dense.significant == (dense.p_corrected <= 0.5)


class TestVerdict:
    def test_better(self, comparison: Comparison) -> None:
        hybrid = comparison["hybrid", "ndcg@10"]
        assert hybrid.verdict == (
            f"hybrid is better than bm25 by ndcg@10: {hybrid.difference:+.4f} (95 % interval "
            f"{hybrid.low:+.4f} to {hybrid.high:+.4f}; corrected p < 0.0001); 120 of 120 queries "
            f"changed ({hybrid.wins} better, {hybrid.losses} worse)."
        )

    def test_worse(self, systems: dict[str, Scores]) -> None:
        bm25 = compare(systems, "hybrid", resamples=500, metrics=["ndcg@10"])["bm25", "ndcg@10"]
        assert bm25.verdict.startswith("bm25 is worse than hybrid by ndcg@10: −0.")

    def test_neither(self, comparison: Comparison) -> None:
        dense = comparison["dense", "ndcg@10"]
        assert dense.verdict.startswith("No measurable difference between dense and bm25 by")
        # as many as make what can be shown as small as what was found, rounded up to two digits
        assert dense.detectable is not None
        needed = 120 * (dense.detectable / dense.difference) ** 2
        assert 450 < needed <= 460
        assert dense.verdict.endswith(
            f"; 120 queries would show a true difference of {dense.detectable:.4f} in 4 of 5 "
            "cases; about 460 would show one as large as this."
        )

    def test_the_same(self, systems: dict[str, Scores]) -> None:
        copy = compare({"a": systems["bm25"], "b": systems["bm25"]}, "a")["b", "ndcg@10"]
        assert copy.verdict == (
            "b and a score the same by ndcg@10 on all 120 queries: "
            "95 % interval −0.0230 to +0.0230."
        )
        # pseudo-queries at ±1: √(2 / 122 / 121) × t(121)
        assert copy.high == pytest.approx(math.sqrt(2 / 122 / 121) * stats.t.ppf(0.975, 121))
        assert (copy.p_randomisation, copy.p_t, copy.p_wilcoxon) == (1.0, 1.0, 1.0)
        assert (copy.effect_size, copy.detectable) == (0.0, None)
        assert (copy.wins, copy.ties, copy.losses) == (0, 120, 0)

    def test_lost_to_the_correction(self) -> None:
        # 27 gains and 13 losses of 0.1: t = 0.035 / (0.09487 / √40) = 2.333, p = 0.0249
        base = np.zeros(40)
        changed = np.where(np.arange(40) % 3 == 0, -0.1, 0.1)
        changed[0] = 0.1
        ids = [str(number) for number in range(40)]
        systems = {str(number): Scores(ids, {"m": base}) for number in range(20)}
        systems["b"] = Scores(ids, {"m": changed})
        difference = compare(systems, "0", correction="holm")["b", "m"]
        assert difference.p_t == pytest.approx(0.0249, abs=0.0001)
        assert difference.p_corrected == pytest.approx(20 * difference.p_t)
        assert "; alone it would count as a difference, but it is one of 20 comparisons" in (
            difference.verdict
        )
        # the 19 others are copies of each other
        assert compare(systems, "0")["b", "m"].p_corrected <= 2 * difference.p_t

    def test_few_changes(self) -> None:
        base = [0.5] * 100
        ids = [str(number) for number in range(100)]
        a, few, more = (Scores(ids, {"mrr": [1.0] * gains + base[gains:]}) for gains in (0, 2, 12))
        of_more = compare({"a": a, "b": more}, "a")["b", "mrr"]
        assert of_more.significant
        assert ends(of_more)[0] > 0
        of_few = compare({"a": a, "b": few}, "a")["b", "mrr"]
        assert of_few.detectable is None
        assert of_few.verdict.endswith(
            "2 of 100 queries changed (2 better, 0 worse); too few changed to say how large a "
            "difference 100 queries would show."
        )

    def test_wilcoxon_speaks_of_symmetry(self, systems: dict[str, Scores]) -> None:
        comparison = compare(systems, "bm25", test="wilcoxon")
        assert "Wilcoxon's test is of symmetry about 0, not of the mean" in comparison.notes
        hybrid = comparison["hybrid", "ndcg@10"]
        assert hybrid.verdict.startswith("hybrid differs from bm25 by ndcg@10: ")
        assert hybrid.verdict.endswith("symmetry about 0, not of the mean.")

    def test_wilcoxon_contradicts_the_interval_of_the_mean_with_a_reason(self) -> None:
        # five equal changes: the two-sided p of the signed ranks is 2 / 2**5, above 0.05
        ids = [f"q{number}" for number in range(5)]
        pair = {"a": Scores(ids, {"mrr": [0.2] * 5}), "b": Scores(ids, {"mrr": [0.5] * 5})}
        row = compare(pair, "a", test="wilcoxon")["b", "mrr"]
        assert (row.significant, row.low and row.low > 0) == (False, True)
        assert "symmetry about 0, not of the mean" in row.verdict


class TestMissing:
    def test_different_queries_are_refused_with_the_difference(self) -> None:
        a = Scores(["q1", "q2", "q3"], {"mrr": [1, 0.5, 0]})
        b = Scores(["q2", "q3", "q4"], {"mrr": [1, 0.5, 0]})
        with pytest.raises(InvalidInput) as caught:
            compare({"a": a, "b": b}, "a")
        assert str(caught.value) == (
            "systems: expected the same queries in each, got 'a lacks 1 (q4); b lacks 1 (q1)'. "
            "Evaluate all on the same queries, or pass on_missing='intersect'."
        )

    def test_a_long_difference_is_cut(self) -> None:
        a = Scores([f"q{number}" for number in range(9)], {"mrr": [1.0] * 9})
        b = Scores(["q0"], {"mrr": [1.0]})
        with pytest.raises(InvalidInput, match=r"b lacks 8 \(q1, q2, q3, q4, q5, …\)"):
            compare({"a": a, "b": b}, "a")

    def test_intersect(self) -> None:
        a = Scores(["q1", "q2", "q3"], {"mrr": [1, 0.5, 0]})
        b = Scores(["q2", "q3", "q4"], {"mrr": [1, 0.5, 0]})
        shared = compare({"a": a, "b": b}, "a", on_missing="intersect")
        assert shared.query_ids == ("q2", "q3")
        # b - a on q2 and q3: 1 - 0.5 and 0.5 - 0
        assert shared["b", "mrr"].difference == 0.5
        assert shared.means["a", "mrr"].mean == 0.25
        assert shared.notes[0].startswith("only the 2 queries that all systems have are compared")

    def test_nothing_in_common(self) -> None:
        a, b = Scores(["q1"], {"mrr": [1]}), Scores(["q2"], {"mrr": [1]})
        with pytest.raises(InvalidInput, match="no query in common"):
            compare({"a": a, "b": b}, "a", on_missing="intersect")

    def test_excluded_queries_are_known_queries(self) -> None:
        a = Scores(["q1", "q2"], {"mrr": [1, 0.5]}, excluded={"q3": "no_relevant"})
        b = Scores(["q1"], {"mrr": [0.5]}, excluded={"q2": "failed", "q3": "no_relevant"})
        comparison = compare({"a": a, "b": b}, "a")
        assert comparison.query_ids == ("q1", "q2")
        assert (comparison["b", "mrr"].n, comparison["b", "mrr"].difference) == (1, -0.5)
        assert comparison.means["a", "mrr"].mean == 0.75
        assert comparison.notes[0] == (
            "queries that b leaves out of its means (failed) aren't compared with it: 1"
        )

    def test_a_metric_without_a_value_pairs_where_both_have_one(self) -> None:
        a = Scores(["q1", "q2", "q3"], {"s": [1, math.nan, 0.2], "mrr": [1, 1, 0]})
        b = Scores(["q1", "q2", "q3"], {"s": [0.5, 0.1, math.nan], "mrr": [1, 0, 0]})
        comparison = compare({"a": a, "b": b}, "a")
        by_s = comparison["b", "s"]
        assert (by_s.n, by_s.baseline_mean, by_s.mean, by_s.difference) == (1, 1.0, 0.5, -0.5)
        assert comparison["b", "mrr"].n == 3
        assert (comparison.means["a", "s"].n, comparison.means["a", "s"].mean) == (2, 0.6)
        assert comparison.by_query("b", "s") == {"q1": -0.5}

    def test_nothing_scored_at_all(self) -> None:
        nothing = Scores([], {"mrr": []}, excluded={"q1": "unjudged"})
        comparison = compare({"a": nothing, "b": nothing}, "a", resamples=100)
        assert (comparison["b", "mrr"].n, comparison.means["a", "mrr"].n) == (0, 0)
        assert json.loads(comparison.to_json())["queries"] == 0

    def test_no_value_at_all(self) -> None:
        a = Scores(["q1", "q2"], {"s": [math.nan, 0.5]})
        b = Scores(["q1", "q2"], {"s": [0.5, math.nan]})
        row = compare({"a": a, "b": b}, "a")["b", "s"]
        assert (row.n, row.p_corrected, row.effect_size) == (0, 1.0, 0.0)
        assert (
            row.verdict == "Nothing can be said about b and a: no query has a value of s for both."
        )

    def test_metrics_that_one_lacks_are_named(self) -> None:
        a = Scores(["q1", "q2"], {"mrr": [1, 0.5], "ap": [1, 1]})
        b = Scores(["q1", "q2"], {"mrr": [1, 0.5], "err": [1, 1]})
        comparison = compare({"a": a, "b": b}, "a")
        assert comparison.metric_names == ("mrr",)
        assert "not compared, since not every system has them: ap, err" in comparison.notes
        with pytest.raises(UnknownMetric, match="ap"):
            compare({"a": a, "b": b}, "a", metrics=["ap"])


def test_a_sentence_never_calls_a_difference_nothing() -> None:
    # 50 similarities that rose by 0.00003, give or take 0.00001
    base, rise = np.linspace(0.7, 0.8, 50), np.linspace(0.00002, 0.00004, 50)
    pair = {
        name: Scores([f"q{number:02d}" for number in range(50)], {"embedding_similarity": column})
        for name, column in (("a", base), ("b", base + rise))
    }
    verdict = compare(pair, "a", resamples=100)["b", "embedding_similarity"].verdict
    assert verdict.startswith(
        "b is better than a by embedding_similarity: +0.000030 (95 % interval +0.000028 to "
    )


def test_infinite_scores_are_refused() -> None:
    pair = {
        name: Scores(["q1", "q2"], {"dcg": [1.0, score]})
        for name, score in (("a", 2.0), ("b", math.inf))
    }
    with pytest.raises(InvalidInput, match="score of 'q2' by dcg: expected a finite number"):
        compare(pair, "a")


def test_infinite_scores_of_queries_that_are_left_out_matter_to_nobody() -> None:
    pair = {
        "a": Scores(["q1", "q2"], {"dcg": [1.0, 2.0]}),
        "b": Scores(["q1", "q2", "q3"], {"dcg": [1.0, 2.5, math.inf]}),
    }
    assert compare(pair, "a", on_missing="intersect")["b", "dcg"].difference == 0.25


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


class TestClusters:
    def test_by_metadata_and_by_mapping_alike(self) -> None:
        metadata = {f"q{number}": {"document": number // 3} for number in range(N)}
        plain = {"a": scores(1), "b": scores(3, 0.05)}
        clusters = {f"q{number}": f"d{number // 3}" for number in range(N)}
        mapped = compare(plain, "a", clusters=clusters, resamples=500)
        named = compare(
            {**plain, "a": scores(1, metadata=metadata)}, "a", clusters="document", resamples=500
        )
        assert mapped.differences == named.differences
        assert mapped["b", "ndcg@10"].method == "cluster-robust t with pseudo-queries"
        assert "120 queries in 40 clusters" in mapped.notes[-1]
        assert (mapped.settings.clusters, named.settings.clusters) == ("given", "document")

    def test_the_order_of_the_queries_doesnt_matter(self) -> None:
        clusters = {f"q{number}": number % 40 for number in range(N)}
        order = np.random.default_rng(4).permutation(N)
        columns = {"a": scores(1)["ndcg@10"], "b": scores(3, 0.05)["ndcg@10"]}
        in_order, shuffled = (
            compare(
                {
                    name: Scores([f"q{number}" for number in rows], {"ndcg@10": column[rows]})
                    for name, column in columns.items()
                },
                "a",
                clusters=clusters,
                resamples=500,
            ).differences
            for rows in (np.arange(N), order)
        )
        assert in_order == shuffled

    def test_without_tukey(self, systems: dict[str, Scores]) -> None:
        clusters = {f"q{number}": number // 2 for number in range(N)}
        assert compare(systems, "bm25", clusters=clusters, resamples=100).tukey == ()

    def test_copied_questions_are_no_evidence(self) -> None:
        # three copies of each of 40 questions: without clusters p is far too small
        rng = np.random.default_rng(6)
        base, changed = rng.random(40), rng.random(40) + 0.2
        ids = [f"q{number}" for number in range(120)]
        pair = {
            "a": Scores(ids, {"m": np.repeat(base, 3)}),
            "b": Scores(ids, {"m": np.repeat(changed, 3)}),
        }
        # variances of the mean differ by a factor of 3, standard errors by 1.73
        naive = compare(pair, "a")["b", "m"]
        clusters = {query_id: int(query_id[1:]) // 3 for query_id in ids}
        honest = compare(pair, "a", clusters=clusters)["b", "m"]
        assert naive.p_t < honest.p_t / 5
        assert naive.detectable is not None
        assert honest.detectable is not None
        assert naive.detectable < honest.detectable / 1.7
        assert width(honest) > 1.6 * width(naive)

    def test_it_is_clusters_that_are_too_few(self) -> None:
        pair = {"a": scores(1), "b": scores(3, 0.001)}
        clusters = {f"q{number}": number // 20 for number in range(N)}
        difference = compare(pair, "a", clusters=clusters, resamples=100)["b", "ndcg@10"]
        assert difference.verdict.endswith(
            "; too few clusters changed to say how large a difference 120 queries would show."
        )

    def test_every_query_needs_one(self, systems: dict[str, Scores]) -> None:
        with pytest.raises(InvalidInput, match="none for q1, q10, q100, q101, q102, …"):
            compare(systems, "bm25", clusters={"q0": 1})
        with pytest.raises(InvalidInput, match="a key of the queries' metadata"):
            compare(systems, "bm25", clusters="document")
        with pytest.raises(InvalidInput, match=r"clusters: expected a key .*, or a mapping"):
            compare(systems, "bm25", clusters=["d1"])  # type: ignore[arg-type]


class TestSlices:
    @pytest.fixture(scope="class")
    @classmethod
    def sliced(cls) -> Comparison:
        return compare(spoken(), "a", slices="language", resamples=500)

    def test_each_value_on_its_own(self, sliced: Comparison) -> None:
        assert list(sliced.slices) == ["de", "zh", None]
        chosen = [f"q{number}" for number in range(1, N, 3)]
        alone = compare(
            {"a": scores(1).select(chosen), "b": scores(3, 0.08).select(chosen)},
            "a",
            resamples=500,
        )
        chinese = sliced.slices["zh"]
        assert chinese.query_ids == tuple(chosen)
        for difference in chinese:
            assert difference.p_randomisation == alone[key(difference)].p_randomisation
            assert difference.low == pytest.approx(alone[key(difference)].low, abs=1e-12)

    def test_corrected_for_all_slices_together(self, sliced: Comparison) -> None:
        rows = [row for part in sliced.slices.values() for row in part]
        assert len(rows) == 6
        for metric in sliced.metric_names:
            family = [row for row in rows if row.metric == metric]
            assert {row.comparisons for row in family} == {3}
            by_holm = correct([row.p_t for row in family])
            for row, holm in zip(family, by_holm, strict=True):
                assert row.p_t <= row.p_corrected <= holm
        assert [row.p_corrected for row in sliced] == [row.p_t for row in sliced]

    def test_corrected_by_holm_for_all_slices_together(self) -> None:
        rows = [
            row
            for part in compare(
                spoken(), "a", slices="language", correction="holm", resamples=500
            ).slices.values()
            for row in part
            if row.primary
        ]
        assert [row.p_corrected for row in rows] == correct([row.p_t for row in rows]).tolist()

    def test_an_unknown_key(self, systems: dict[str, Scores]) -> None:
        with pytest.raises(InvalidInput, match="slices: expected a key of the queries' metadata"):
            compare(systems, "bm25", slices="language")

    def test_they_come_along(self, sliced: Comparison) -> None:
        pytest.importorskip("pandas")
        frame = sliced.to_pandas()
        assert frame["slice"].tolist()[2:6] == ["de", "de", "zh", "zh"]
        assert len(frame) == 8
        written = json.loads(sliced.to_json())["slices"]
        assert [part["value"] for part in written] == ["de", "zh", None]


class TestOut:
    def test_json_holds_all_numbers(self, comparison: Comparison, tmp_path: Path) -> None:
        written = json.loads(comparison.to_json(tmp_path / "comparison.json"))
        assert json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8")) == written
        assert written["differences"] == [asdict(difference) for difference in comparison]
        assert written["means"][0]["mean"] == comparison.means["bm25", "ndcg@10"].mean
        assert written["settings"]["correction"] == "max-t"
        assert len(written["tukey"]) == 6

    def test_tukey_is_for_three_or_more(self, comparison: Comparison) -> None:
        assert {(pair.system, pair.other) for pair in comparison.tukey} == {
            ("bm25", "dense"),
            ("bm25", "hybrid"),
            ("dense", "hybrid"),
        }
        pair = {name: comparison.systems[name] for name in ("bm25", "dense")}
        assert compare(pair, "bm25", resamples=100).tukey == ()

    def test_tukey_of_systems_that_are_alike(self) -> None:
        alike = {name: scores(1) for name in ("a", "b", "c")}
        pairs = compare(alike, "a", metrics=["ndcg@10"]).tukey
        assert [(pair.difference, pair.p) for pair in pairs] == [(0.0, 1.0)] * 3

    def test_pandas(self, comparison: Comparison) -> None:
        pytest.importorskip("pandas")
        frame = comparison.to_pandas()
        assert frame["verdict"].tolist() == [difference.verdict for difference in comparison]
        assert "slice" not in frame

    def test_pandas_is_an_extra(
        self, comparison: Comparison, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingExtra, match=r"llama-index-rag-metrics\[pandas\]"):
            comparison.to_pandas()

    def test_text_is_the_verdicts(self, comparison: Comparison) -> None:
        assert comparison["hybrid", "ndcg@10"].verdict in " ".join(str(comparison).split())

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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseline": "nope"}, "baseline: expected 'bm25' or 'dense' or 'hybrid', got 'nope'."),
        ({"baseline": ["bm25"]}, "baseline: expected 'bm25' or 'dense' or 'hybrid', got ['bm25']."),
        ({"correction": "sidak"}, "correction: expected 'max-t' or 'holm'"),
        ({"test": "z"}, "test: expected 'randomisation' or 't' or 'wilcoxon', got 'z'."),
        ({"on_missing": "drop"}, "on_missing: expected 'error' or 'intersect', got 'drop'."),
        ({"confidence": 95}, "confidence: expected a number between 0 and 1"),
        ({"resamples": 10}, "resamples: expected a whole number of at least 100"),
        ({"seed": None}, "seed: expected a whole number of at least 0"),
        ({"primary": "mrr"}, "primary: expected 'ndcg@10' or 'hit_rate@5', got 'mrr'."),
        ({"method": "normal"}, "method: expected 't' or 'bca', got 'normal'."),
        ({"metrics": []}, "metrics: expected a metric that every system has, got []."),
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


@pytest.mark.parametrize(
    ("values", "decision"),
    [
        (
            [math.nan, math.nan],
            "Nothing can be said: no query has a value of mrr for a and another.",
        ),
        ([0.5, math.nan], "A single query can't tell the systems apart by mrr."),
    ],
)
def test_several_systems_without_queries_to_compare(values: list[float], decision: str) -> None:
    systems = {name: Scores(["q1", "q2"], {"mrr": values}) for name in "abc"}
    assert compare(systems, "a").decision == decision


def test_a_single_query_says_that_it_is_one() -> None:
    a, b = (Scores(["q"], {"mrr": [score]}) for score in (0.5, 1.0))
    difference = compare({"a": a, "b": b}, "a")["b", "mrr"]
    assert difference.note == "only 1 query: too few for an interval"
    assert difference.verdict == "A single query can't tell b and a apart by mrr: +0.5000."


class TestDecision:
    IDS = tuple(str(number) for number in range(60))
    NOISE = np.random.default_rng(9).normal(0, 0.05, (60, 4))
    NOISE -= NOISE.mean(axis=0)

    def compared(self, *shifts: float, **options: Any) -> Comparison:
        """Systems a, b, … whose means differ by about these shifts; a is the baseline."""
        names = "abcdefgh"
        return compare(
            {
                names[number]: Scores(
                    self.IDS, {"mrr": 0.5 + shift + bool(shift) * self.NOISE[:, number]}
                )
                for number, shift in enumerate(shifts)
            },
            "a",
            resamples=500,
            **options,
        )

    @pytest.mark.parametrize(
        ("shifts", "line"),
        [
            ((0.0, 0.1), "b is better than a by mrr."),
            ((0.0, -0.1), "b is worse than a by mrr."),
            ((0.0, 1e-9), "No measurable difference between b and a by mrr."),
            ((0.0, 0.0), "b and a score the same by mrr on all 60 queries."),
            ((0.0, -0.1, -0.2), "a is the best of three by mrr."),
            ((0.0, 0.1, 0.2, -0.1), "c is the best of four by mrr."),
            (
                (0.0, 0.1, 0.1001, -0.1),
                "b and c are better than a by mrr; d is worse than a by mrr.",
            ),
            (
                (0.0, 0.1, 0.1, 1e-9),
                "b and c are better than a by mrr; no measurable difference for d.",
            ),
            ((0.0, 1e-9, 1e-9), "No system differs measurably from a by mrr."),
        ],
    )
    def test_one_plain_line(self, shifts: tuple[float, ...], line: str) -> None:
        assert self.compared(*shifts).decision == line

    def test_wilcoxons_test_names_no_winner(self) -> None:
        comparison = self.compared(0.0, 0.1, 0.2, test="wilcoxon")
        assert comparison.decision == "b and c are different from a by mrr."

    def test_it_comes_first_and_goes_into_the_json(self) -> None:
        comparison = self.compared(0.0, -0.1, -0.2)
        assert comparison.report().decision[0].text == comparison.decision
        assert json.loads(comparison.to_json())["decision"] == comparison.decision

    @pytest.mark.parametrize("test", ["t", "randomisation"])
    @pytest.mark.parametrize("seed", range(40))
    def test_a_verdict_and_its_interval_never_contradict_each_other(
        self, seed: int, test: Any
    ) -> None:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 60))
        changed = (rng.random(n) < rng.choice([0.05, 0.2, 1])) * rng.choice([1, 0.5, -0.2], n)
        base = np.full(n, 0.4)
        ids = [str(number) for number in range(n)]
        systems = {"a": Scores(ids, {"m": base}), "b": Scores(ids, {"m": base + changed})}
        (difference,) = compare(systems, "a", test=test, resamples=200)
        low, high = ends(difference)
        assert low < high
        assert difference.significant == (low > 0 or high < 0)
        assert difference.significant == (difference.p_of(test) <= 0.05)
