"""Verdicts with derivations, and identical rankings, which pass without proof."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support.intervals import pseudo_bounds, pseudo_change
from support.verdicts import Rankings, scores, verdict_of

from llama_index_rag_metrics import (
    EvaluationResults,
    RetrievalDataset,
    Scores,
    check_rules,
    compare,
    evaluate,
)
from llama_index_rag_metrics.runtime.containers import FloatArray


def test_scores_in_per_cent_have_bounds_in_per_cent() -> None:
    # 4 of 100 lost by every other query, none by the rest: farther down than the limit of 1 that
    # ndcg@10 would have from 0 to 1
    before = [80.0, 82.0] * 20
    lost = [80.0, 78.0] * 20
    verdict = verdict_of(lost, before, "ndcg@10 >= baseline - 1.5")
    pseudo = pseudo_change([0.0, -4.0] * 20, 82.0, counted=2)
    sample = [*[0.0, -4.0] * 20, pseudo, -pseudo]
    expected = stats.ttest_1samp(sample, 0).confidence_interval(0.9)
    assert verdict.lower == pytest.approx(expected.low)
    assert verdict.upper == pytest.approx(
        stats.ttest_1samp([0.0, -4.0] * 20, 0).confidence_interval(0.9).high
    )
    assert verdict.outcome == "inconclusive"
    # nor is a comparison's interval cut at those limits
    (difference,) = compare({"before": scores(before), "lost": scores(lost)}, "before")
    low, high = pseudo_bounds([0.0, -4.0] * 20, 0.975, 82.0)
    assert (difference.low, difference.high) == pytest.approx((low, high))


def test_gate_and_a_comparison_take_the_same_r() -> None:
    # 1 of 30 loses 0.01 of scores that are 1.51 apart, on a metric without limits: M² is
    # (0.0001 + 2 × 1.51²) / 3 in the gate and (0.0001 + 1.51²) / 2 in a comparison
    before = scores([0.5, *np.linspace(0.5, 2.0, 29)], "dcg@10")
    now = scores([0.49, *np.linspace(0.5, 2.0, 29)], "dcg@10")
    (verdict,) = check_rules(now, "dcg@10 >= baseline - 0.1 at 97.5%", baseline=before)
    (difference,) = compare({"before": before, "now": now}, "before")
    d, apart = [-0.01] + [0.0] * 29, 2.0 - 0.49
    assert verdict.lower == pytest.approx(pseudo_bounds(d, 0.975, apart, counted=2)[0])
    assert difference.low == pytest.approx(pseudo_bounds(d, 0.975, apart)[0])


class TestVerdicts:
    @pytest.mark.parametrize(
        ("now", "before", "rule", "outcome"),
        [
            # equal scores of unknown rankings: 50 queries show no loss of 0.0460 or more, 2 nothing
            ([0.5] * 50, [0.5] * 50, "ndcg@10 >= baseline - 0.05", "pass"),
            ([0.5] * 50, [0.5] * 50, "ndcg@10 >= baseline - 0.04", "inconclusive"),
            ([0.5, 0.7], [0.5, 0.7], "ndcg@10 >= baseline - 0.02", "inconclusive"),
            # 29 of 50 lose everything: t's upper bound is -0.58 + 1.6766 × 0.0705 = -0.46
            ([0.0] * 29 + [1.0] * 21, [1.0] * 50, "ndcg@10 >= baseline - 0.02", "fail"),
            # 2 of 50 lose everything: t's upper bound is -0.04 + 1.6766 × 0.028 = +0.007
            ([0.0] * 2 + [1.0] * 48, [1.0] * 50, "ndcg@10 >= baseline - 0.02", "inconclusive"),
            # the same as a metric that had better be low
            ([1.0] * 29 + [0.0] * 21, [0.0] * 50, "ndcg@10 <= baseline + 0.02", "fail"),
            ([0.5] * 50, [0.5] * 50, "ndcg@10 <= baseline + 0.05", "pass"),
            # by what was observed; 0.68 - 0.7 isn't -0.02 in floats
            ([0.68, 0.48], [0.7, 0.5], "ndcg@10 >= baseline - 0.02 as observed", "pass"),
            ([0.68, 0.48], [0.7, 0.5], "ndcg@10 >= baseline - 0.01 as observed", "fail"),
            ([0.7, 0.5], [0.68, 0.48], "ndcg@10 <= baseline + 0.02 as observed", "pass"),
        ],
    )
    def test_baselines(
        self, now: list[float], before: list[float], rule: str, outcome: str
    ) -> None:
        assert verdict_of(now, before, rule).outcome == outcome

    @pytest.mark.parametrize(
        ("values", "rule", "outcome"),
        [
            ([0.8, 0.8], "ndcg@10 >= 0.8", "pass"),
            ([0.8, 0.7], "ndcg@10 >= 0.8", "fail"),
            ([0.8, 0.7], "ndcg@10 <= 0.75", "pass"),
            # Wilson, one-sided 95 %: 90 of 100 is above 0.839, 80 of 100 between 0.726 and 0.858
            ([1.0] * 90 + [0.0] * 10, "ndcg@10 >= 0.83 at 95%", "pass"),
            ([1.0] * 80 + [0.0] * 20, "ndcg@10 >= 0.83 at 95%", "inconclusive"),
            ([1.0] * 80 + [0.0] * 20, "ndcg@10 >= 0.87 at 95%", "fail"),
            ([0.0] * 20 + [1.0] * 80, "ndcg@10 <= 0.87 at 95%", "pass"),
            ([0.0, 0.0], "ndcg@10 >= 0.5 at 95%", "inconclusive"),
            ([0.5], "ndcg@10 >= 0.8 at 95%", "inconclusive"),
        ],
    )
    def test_verdict_of_a_limit(self, values: list[float], rule: str, outcome: str) -> None:
        (verdict,) = check_rules(scores(values), rule)
        assert verdict.outcome == outcome

    @pytest.mark.parametrize(
        ("metric", "sign"),
        [("embedding_similarity", ">="), ("dcg@5", ">="), ("calls", "<="), ("hit_rate@5", ">=")],
    )
    def test_bound_of_a_mean_is_an_end_of_its_interval(self, metric: str, sign: str) -> None:
        values = scores(np.linspace(0.6, 0.9, 12).round(2), metric)
        (verdict,) = check_rules(values, f"{metric} {sign} 0.5 at 97.5%")
        interval = values.intervals()[metric]
        assert (verdict.lower, verdict.upper) == pytest.approx((interval.low, interval.high))

    @pytest.mark.parametrize(
        ("now", "outcome"), [(5.0, "fail"), (3.6, "fail"), (3.52, "inconclusive"), (3.4, "pass")]
    )
    def test_count_that_changed_by_the_same_everywhere(self, now: float, outcome: str) -> None:
        # d everywhere has pseudo-queries at ±d: m = 40d/42, v = d² - m², and the bounds are
        # m ± t(41) √(v/41) = d (0.9524 ± 1.6829 × 0.0476)
        new, before = (scores([value] * 40, "calls") for value in (now, 3.0))
        (verdict,) = check_rules(new, "calls <= baseline + 0.5", baseline=before)
        assert verdict.outcome == outcome
        expected = pseudo_bounds([now - 3.0] * 40, widest=now - 3.0, counted=2)
        assert (verdict.lower, verdict.upper) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("before", "now", "lower", "upper"),
        [
            # 10 of 50 lose 0.5: mean -0.1, sd √((10 × 0.4² + 40 × 0.1²) / 49) = 0.202031,
            # standard error 0.0285714, t(0.95; 49) = 1.676551. M² = (10 × 0.25 + 2 × 1) / 12 =
            # 0.375; 52 questions: mean -5 / 52 = -0.0961538, variance (2.5 + 2 × 0.375) / 52 -
            # 0.0961538² = 0.0532544, error √(0.0532544 / 51) = 0.0323141, t(0.95; 51) = 1.675285
            (
                *([1.0] * 50, [0.5] * 10 + [1.0] * 40),
                *(-0.0961538 - 1.675285 * 0.0323141, -0.1 + 1.676551 * 0.0285714),
            ),
            # 50 changed, but as much as k = (1 + 49 × 0.001)² / (1 + 49 × 0.000001) = 1.1003 equal
            # changes: M² = (1.000049 + 2 × 1) / 3.1003 = 0.967652; 52 questions: mean -0.951 / 52 =
            # -0.0182885, variance (1.000049 + 2 × 0.967652) / 52 - 0.0182885² = 0.0561148, error
            # √(0.0561148 / 51) = 0.0331706; mean -0.01902, sd 0.141564, error 0.0200202
            (
                *([1.0] + [0.5] * 49, [0.0] + [0.501] * 49),
                *(-0.0182885 - 1.675285 * 0.0331706, -0.01902 + 1.676551 * 0.0200202),
            ),
            # all change alike: no certainty
            ([1.0] * 50, [0.9] * 50, *pseudo_bounds([-0.1] * 50, counted=2)),
            ([0.5], [0.7], None, None),
        ],
    )
    def test_bounds(
        self, before: list[float], now: list[float], lower: float | None, upper: float | None
    ) -> None:
        """One passes by pseudo-queries, and fails by t."""
        verdict = verdict_of(now, before)
        assert verdict.lower == (lower and pytest.approx(lower, abs=1e-6))
        assert verdict.upper == (upper and pytest.approx(upper, abs=1e-6))

    def test_clusters_give_a_robust_t(self) -> None:
        # two clusters of means -0.4 and -0.1: error 0.15, one degree of freedom, t = 6.313752
        metadata = {f"q{number:04d}": {"conversation": number // 3} for number in range(6)}
        before = scores([0.5] * 6, "dcg@5", metadata=metadata)
        now = scores([0.1] * 3 + [0.4] * 3, "dcg@5", metadata=metadata)
        rule = "dcg@5 >= baseline - 0.02"
        (verdict,) = check_rules(now, rule, baseline=before)
        assert verdict.upper == pytest.approx(-0.25 + 6.313752 * 0.15, abs=1e-6)
        assert verdict.lower is not None
        assert verdict.lower < -0.4

    def test_clusters_that_lost_alike_are_no_certainty(self) -> None:
        # two conversations; of each, one question lost 0.1 and another 0.3
        metadata = {f"q{number:04d}": {"conversation": number // 2} for number in range(4)}
        before, now = scores([0.5] * 4), scores([0.4, 0.2, 0.4, 0.2], metadata=metadata)
        rule = "ndcg@10 >= baseline - 0.02"
        (verdict,) = check_rules(now, rule, baseline=before)
        assert verdict.outcome == "inconclusive"

    @pytest.mark.slow
    def test_number_named_decides_in_four_of_five_cases(self) -> None:
        rng = np.random.default_rng(2)

        def changes(n: int) -> FloatArray:  # one query in five moves by up to 0.5
            return rng.choice([-0.5, -0.25, 0.25, 0.5], n) * (rng.random(n) < 0.2)

        needed = [
            verdict.needed
            for verdict in (verdict_of(0.5 + changes(100), [0.5] * 100) for _ in range(60))
            if verdict.needed
        ]
        n = int(np.median(needed))
        passed = [verdict_of(0.5 + changes(n), [0.5] * n).outcome == "pass" for _ in range(200)]
        # binomial(200, 0.8) lies between 0.70 and 0.89 in 99.9 % of cases
        assert 0.70 <= np.mean(passed) <= 0.89

    def test_bounds_lie_within_what_the_metric_allows(self) -> None:
        # plain t of two differences at 99.99 %: t(0.9999; 1) = 3183 standard errors
        # two of 0.5 may be of a mean of 0 or of 1
        verdict = verdict_of([0.6, 0.9], [0.5, 0.5], "ndcg@10 >= baseline at 99.99%")
        assert (verdict.lower, verdict.upper) == pytest.approx((-1.0, 1.0), abs=1e-4)

    def test_verdict_of_a_count(self) -> None:
        now = scores([0.5, 0.0, 1.0], failed={"q0001": "timeout"})
        report = check_rules(now, ["failed <= 0", "failed <= 1", "queries >= 3"])
        assert [verdict.outcome for verdict in report] == ["fail", "pass", "pass"]


class TestIdenticalRankings:
    """Only rankings that are known to be identical pass without proof."""

    DATASET = RetrievalDataset({"q0": "one", "q1": "two"}, {"q0": ["a"], "q1": ["b"]})

    def results(self, rankings: Rankings) -> EvaluationResults:
        return evaluate(lambda query: rankings[query], self.DATASET, ["recall@5"])  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("rule", "outcome"),
        [
            ("recall@5 >= baseline", "pass"),
            ("recall@5 >= baseline - 0.02", "pass"),
            ("recall@5 >= baseline + 0.1", "fail"),
            ("recall@5 <= baseline", "pass"),
        ],
    )
    def test_change_of_nothing_is_certain(self, rule: str, outcome: str) -> None:
        rankings = {"one": ["a", "x"], "two": ["x"]}
        (verdict,) = check_rules(self.results(rankings), rule, baseline=self.results(rankings))
        assert (verdict.outcome, verdict.identical) == (outcome, True)
        assert (verdict.lower, verdict.upper) == (0.0, 0.0)
        assert verdict.sentence.startswith("recall@5 is 0.50 as in the baseline, and must be at ")

    def test_order_with_the_same_scores_is_another_ranking(self) -> None:
        before = self.results({"one": ["a", "x"], "two": ["x"]})
        now = self.results({"one": ["x", "a"], "two": ["x"]})
        (verdict,) = check_rules(now, "recall@5 >= baseline - 0.02", baseline=before)
        assert (verdict.outcome, verdict.difference) == ("inconclusive", 0.0)

    def test_rankings_are_known_after_files(self, tmp_path: Path) -> None:
        results = self.results({"one": ["a"], "two": ["x"]})
        results.to_json(tmp_path / "baseline.json")
        now = Scores.from_json(results.scores.to_json())
        (verdict,) = check_rules(now, "recall@5 >= baseline", baseline=tmp_path / "baseline.json")
        assert (verdict.outcome, verdict.identical) == ("pass", True)
