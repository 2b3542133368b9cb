"""The gate: rules, verdicts with derivations, error rates, and what is shown."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from scipy import stats
from support.intervals import pseudo_change

from llama_index_rag_metrics import (
    Baseline,
    EvaluationResults,
    RetrievalDataset,
    Rule,
    Scores,
    assert_retrieval,
    check_rules,
    evaluate,
)
from llama_index_rag_metrics.errors import (
    GateFailed,
    InconclusiveGate,
    InvalidInput,
)
from llama_index_rag_metrics.gate.bounds import MeanEvidence, PairedEvidence
from llama_index_rag_metrics.gate.verdicts import Verdict
from llama_index_rag_metrics.judging.judged import FloatArray
from llama_index_rag_metrics.report.escape import markdown as escaped
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.terminal import to_text

Rankings: TypeAlias = "Mapping[str, Sequence[str] | None]"
"""What is retrieved for each question; None fails."""


def scores(values: Sequence[float] | FloatArray, metric: str = "ndcg@10", **options: Any) -> Scores:
    return Scores([f"q{number:04d}" for number in range(len(values))], {metric: values}, **options)


def verdict_of(
    now: Sequence[float] | FloatArray,
    before: Sequence[float] | FloatArray,
    rule: str = "ndcg@10 >= baseline - 0.02",
    **options: Any,
) -> Verdict:
    (verdict,) = check_rules(scores(now), rule, baseline=scores(before), **options)
    return verdict


def test_scores_in_per_cent_have_bounds_in_per_cent() -> None:
    # 4 of 100 lost by every other query, none by the rest: farther down than the limit of 1 that
    # ndcg@10 would have from 0 to 1
    before = [80.0, 82.0] * 20
    lost = [80.0, 78.0] * 20
    verdict = verdict_of(lost, before, "ndcg@10 >= baseline - 1.5")
    pseudo = pseudo_change([0.0, -4.0] * 20, 82.0)
    sample = [*[0.0, -4.0] * 20, pseudo, -pseudo]
    expected = stats.ttest_1samp(sample, 0).confidence_interval(0.9)
    assert verdict.lower == pytest.approx(expected.low)
    assert verdict.upper == pytest.approx(
        stats.ttest_1samp([0.0, -4.0] * 20, 0).confidence_interval(0.9).high
    )
    assert verdict.outcome == "inconclusive"


class TestRule:
    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("ndcg@10 >= baseline - 0.02", Rule("ndcg@10", ">=", -0.02, True, 0.95)),
            ("ndcg@10>=baseline-.02 at 99 %", Rule("ndcg@10", ">=", -0.02, True, 0.99)),
            ("ndcg@10 >= baseline − 0.02", Rule("ndcg@10", ">=", -0.02, True, 0.95)),
            ("mrr > baseline", Rule("mrr", ">", 0.0, True, 0.95)),
            ("mrr >= BASELINE + 1e-3 at 99.9%", Rule("mrr", ">=", 0.001, True, 0.999)),
            ("recall@5 >= 0.8", Rule("recall@5", ">=", 0.8)),
            ("recall@5 >= 0.8 at 90%", Rule("recall@5", ">=", 0.8, confidence=0.9)),
            ("failed <= 0", Rule("failed", "<=", 0.0)),
            (
                "mrr >= baseline - 0.05 as observed",
                Rule("mrr", ">=", -0.05, baseline=True, observed=True),
            ),
            ("mrr >= baseline observed", Rule("mrr", ">=", 0.0, baseline=True, observed=True)),
            ("mrr >= 0.5 as observed", Rule("mrr", ">=", 0.5)),
            ("mrr >= anchor - 0.1", Rule("mrr", ">=", -0.1, anchor=True)),
            (
                "mrr >= anchor - 0.1 as observed",
                Rule("mrr", ">=", -0.1, anchor=True, observed=True),
            ),
            ("embedding_similarity > -0.1", Rule("embedding_similarity", ">", -0.1)),
            (
                "recall(match=text>=0.6, min_grade=2)@5 >= 0.5",
                Rule("recall(match=text>=0.6, min_grade=2)@5", ">=", 0.5),
            ),
        ],
    )
    def test_is_read_and_written(self, text: str, rule: Rule) -> None:
        assert Rule.parse(text) == rule
        assert Rule.parse(str(rule)) == rule

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "ndcg@10",
            "ndcg@10 = 0.5",
            "ndcg@10 >= baseline - 2%",
            "ndcg@10 >= 80%",
            "ndcg@10 >= baseline 0.02",
            "ndcg@10 >= nan",
            "ndcg@10 >= 0.5 at 95",
            "ndcg@10 >= baseline - 0.02 at 95% as observed",
            "ndcg@10 >= anchors",
            "0.02 more than the baseline",
            ">= 0.5",
        ],
    )
    def test_what_is_no_rule_is_refused_with_examples(self, text: str) -> None:
        with pytest.raises(InvalidInput, match=r"For example 'ndcg@10 >= baseline - 0\.02'"):
            Rule.parse(text)

    @pytest.mark.parametrize("percent", ["50", "100", "5", "0.95"])
    def test_a_confidence_that_decides_nothing_is_refused(self, percent: str) -> None:
        with pytest.raises(InvalidInput, match="between 50% and 100%"):
            Rule.parse(f"mrr >= 0.5 at {percent}%")

    def test_a_limit_that_is_no_number_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="a finite number"):
            Rule("mrr", ">=", math.nan)
        with pytest.raises(InvalidInput, match="sign of a rule"):
            Rule("mrr", "==", 0.5)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="not both"):
            Rule("mrr", ">=", 0.5, baseline=True, confidence=0.9, observed=True)

    @settings(deadline=None)
    @given(
        st.sampled_from(["ndcg@10", "rbp(p=0.8)@5", "recall(match=text>=0.6)@5"]),
        st.sampled_from([">=", ">", "<=", "<"]),
        st.decimals(-5, 5, places=4),
        st.booleans(),
        st.booleans(),
        st.none() | st.just("observed") | st.decimals("50.1", "99.9", places=1),
    )
    def test_what_is_written_is_read_again(
        self,
        metric: str,
        sign: Any,
        value: Decimal,
        baseline: bool,
        anchor: bool,
        how: Decimal | str | None,
    ) -> None:
        observed = how == "observed"
        confidence = None if how is None or observed else round(float(how) / 100, 12)
        rule = Rule(metric, sign, float(value), baseline, confidence, anchor, observed)
        assert Rule.parse(str(rule)) == rule


def pseudo_bounds(
    differences: Sequence[float] | FloatArray, confidence: float = 0.95, widest: float = 1.0
) -> tuple[float, float]:
    """Bounds with two pseudo-queries at ±M."""
    n, m = len(differences), pseudo_change(differences, widest)
    together = [*differences, m, -m]
    centre, error = np.mean(together), np.std(together) / math.sqrt(n + 1)
    reach = stats.t.ppf(confidence, n + 1) * error
    return centre - reach, centre + reach


class TestBounds:
    def test_passing_takes_pseudo_queries_and_failing_t(self) -> None:
        # 10 of 50 queries lose 0.5: mean -0.1, sd √((10 × 0.4² + 40 × 0.1²) / 49) = 0.202031,
        # standard error 0.0285714, t(0.95; 49) = 1.676551: upper -0.1 + 0.0479015
        values = np.array([-0.5] * 10 + [0.0] * 40)
        evidence = PairedEvidence(values, widest=1.0)
        assert evidence.highest(0.95) == pytest.approx(-0.1 + 1.676551 * 0.0285714, abs=1e-6)
        # M² = (10 × 0.25 + 1) / 11 = 0.318182; 52 queries: mean -5 / 52 = -0.0961538, variance
        # (2.5 + 2 × 0.318182) / 52 - 0.0961538² = 0.0510689, error √(0.0510689 / 51) = 0.0316441,
        # t(0.95; 51) = 1.675285
        assert evidence.lowest(0.95) == pytest.approx(-0.0961538 - 1.675285 * 0.0316441, abs=1e-6)

    def test_tiny_changes_hide_no_large_loss(self) -> None:
        # 50 changed, but as much as k = (1 + 49 × 0.001)² / (1 + 49 × 0.000001) = 1.1003 equal
        # changes: M² = (1.000049 + 1) / 2.1003 = 0.952266; 52 queries: mean -0.951 / 52 =
        # -0.0182885, variance (1.000049 + 2 × 0.952266) / 52 - 0.0182885² = 0.0555230, error
        # √(0.0555230 / 51) = 0.0329952, t(0.95; 51) = 1.675285
        values = np.array([-1.0] + [0.001] * 49)
        evidence = PairedEvidence(values, widest=1.0)
        assert evidence.lowest(0.95) == pytest.approx(-0.0182885 - 1.675285 * 0.0329952, abs=1e-6)

    def test_a_constant_column_is_no_certainty(self) -> None:
        values = np.full(50, -0.1)
        evidence = PairedEvidence(values, widest=1.0)
        ends = (evidence.lowest(0.95), evidence.highest(0.95))
        assert ends == pytest.approx(pseudo_bounds(values))
        assert ends[0] < -0.1 < ends[1]  # type: ignore[operator]

    def test_a_single_query_has_no_bounds(self) -> None:
        for evidence in (
            PairedEvidence(np.array([0.2]), widest=1.0),
            MeanEvidence(np.array([0.2])),
        ):
            assert (evidence.lowest(0.95), evidence.highest(0.95)) == (None, None)

    def test_without_a_widest_difference_equal_scores_say_nothing(self) -> None:
        evidence = PairedEvidence(np.zeros(50))
        assert (evidence.lowest(0.95), evidence.highest(0.95)) == (None, None)
        # M = 1, as the widest difference seen: Σd² = 1, M² = (1 + 1) / 2
        values = np.array([0.0] * 9 + [-1.0])
        assert PairedEvidence(values).lowest(0.95) == pytest.approx(pseudo_bounds(values)[0])

    def test_clusters_give_a_robust_t(self) -> None:
        values = np.array([-0.4, -0.4, -0.4, -0.1, -0.1, -0.1])
        evidence = PairedEvidence(values, np.array([0, 0, 0, 1, 1, 1]), widest=1.0)
        # two clusters of means -0.4 and -0.1: error 0.15, one degree of freedom, t = 6.313752
        assert evidence.highest(0.95) == pytest.approx(-0.25 + 6.313752 * 0.15, abs=1e-6)
        lowest = evidence.lowest(0.95)
        assert lowest is not None
        assert lowest < -0.4


class TestVerdicts:
    @pytest.mark.parametrize(
        ("now", "before", "rule", "outcome"),
        [
            # equal scores of unknown rankings: 50 queries show no loss of 0.0460 or more, 2 nothing
            ([0.5] * 50, [0.5] * 50, "ndcg@10 >= baseline - 0.05", "pass"),
            ([0.5] * 50, [0.5] * 50, "ndcg@10 >= baseline - 0.04", "inconclusive"),
            ([0.5, 0.7], [0.5, 0.7], "ndcg@10 >= baseline - 0.02", "inconclusive"),
            ([0.5], [0.4], "ndcg@10 > baseline", "inconclusive"),
            # 29 of 50 lose everything: t's upper bound is -0.58 + 1.6766 × 0.0705 = -0.46
            ([0.0] * 29 + [1.0] * 21, [1.0] * 50, "ndcg@10 >= baseline - 0.02", "fail"),
            # 2 of 50 lose everything: t's upper bound is -0.04 + 1.6766 × 0.028 = +0.007
            ([0.0] * 2 + [1.0] * 48, [1.0] * 50, "ndcg@10 >= baseline - 0.02", "inconclusive"),
            # the same as a metric that had better be low
            ([1.0] * 29 + [0.0] * 21, [0.0] * 50, "ndcg@10 <= baseline + 0.02", "fail"),
            ([0.5] * 50, [0.5] * 50, "ndcg@10 <= baseline + 0.05", "pass"),
            # by what was observed; 0.68 - 0.7 isn't -0.02 in floats
            ([0.68, 0.48], [0.7, 0.5], "ndcg@10 >= baseline - 0.02 as observed", "pass"),
            ([0.68, 0.48], [0.7, 0.5], "ndcg@10 > baseline - 0.02 as observed", "fail"),
            ([0.68, 0.48], [0.7, 0.5], "ndcg@10 >= baseline - 0.01 as observed", "fail"),
            ([0.7, 0.5], [0.68, 0.48], "ndcg@10 <= baseline + 0.02 as observed", "pass"),
            ([0.5], [0.4], "ndcg@10 > baseline as observed", "pass"),
        ],
    )
    def test_against_the_baseline(
        self, now: list[float], before: list[float], rule: str, outcome: str
    ) -> None:
        assert verdict_of(now, before, rule).outcome == outcome

    @pytest.mark.parametrize(
        ("values", "rule", "outcome"),
        [
            ([0.8, 0.8], "ndcg@10 >= 0.8", "pass"),
            ([0.8, 0.8], "ndcg@10 > 0.8", "fail"),
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
    def test_of_a_limit(self, values: list[float], rule: str, outcome: str) -> None:
        (verdict,) = check_rules(scores(values), rule)
        assert verdict.outcome == outcome

    @pytest.mark.parametrize(
        ("metric", "sign"),
        [("embedding_similarity", ">="), ("dcg@5", ">="), ("calls", "<="), ("hit_rate@5", ">=")],
    )
    def test_the_bound_of_a_mean_is_an_end_of_its_interval(self, metric: str, sign: str) -> None:
        values = scores(np.linspace(0.6, 0.9, 12).round(2), metric)
        (verdict,) = check_rules(values, f"{metric} {sign} 0.5 at 97.5%")
        interval = values.intervals()[metric]
        assert (verdict.lower, verdict.upper) == pytest.approx((interval.low, interval.high))

    def test_a_count_that_never_varied_may_yet_be_larger(self) -> None:
        (verdict,) = check_rules(scores([1.0] * 20, "calls"), "calls <= 1 at 95%")
        assert verdict.outcome == "inconclusive"

    @pytest.mark.parametrize(
        ("now", "outcome"), [(5.0, "fail"), (3.6, "fail"), (3.52, "inconclusive"), (3.4, "pass")]
    )
    def test_a_count_that_changed_by_the_same_everywhere(self, now: float, outcome: str) -> None:
        # d everywhere has pseudo-queries at ±d: m = 40d/42, v = d² - m², and the bounds are
        # m ± t(41) √(v/41) = d (0.9524 ± 1.6829 × 0.0476)
        new, before = (scores([value] * 40, "calls") for value in (now, 3.0))
        (verdict,) = check_rules(new, "calls <= baseline + 0.5", baseline=before)
        assert verdict.outcome == outcome
        sample = [*[now - 3.0] * 40, now - 3.0, 3.0 - now]
        expected = stats.ttest_1samp(sample, 0).confidence_interval(0.9)
        assert verdict.lower == pytest.approx(expected.low)
        assert verdict.upper == pytest.approx(expected.high)

    def test_a_count_that_never_changed_has_no_scale_to_go_by(self) -> None:
        same = [3.0] * 40
        (verdict,) = check_rules(
            scores(same, "calls"), "calls <= baseline + 0.5", baseline=scores(same, "calls")
        )
        assert (verdict.outcome, verdict.lower) == ("inconclusive", None)

    def test_clusters_that_lost_alike_are_no_certainty(self) -> None:
        # two documents; of each, one question lost 0.1 and another 0.3
        clusters = {f"q{number:04d}": number // 2 for number in range(4)}
        verdict = verdict_of([0.4, 0.2, 0.4, 0.2], [0.5] * 4, clusters=clusters)
        assert verdict.outcome == "inconclusive"

    def test_numbers_of_a_dense_difference(self) -> None:
        rng = np.random.default_rng(7)
        before = rng.uniform(0.3, 0.7, 150)
        now = before + rng.normal(-0.005, 0.05, 150)
        verdict = verdict_of(now, before)
        differences = now - before
        half = stats.t.ppf(0.95, 149) * differences.std(ddof=1) / math.sqrt(150)
        assert verdict.difference == pytest.approx(differences.mean())
        assert verdict.lower == pytest.approx(pseudo_bounds(differences)[0])
        assert verdict.upper == pytest.approx(differences.mean() + half)
        assert (verdict.value, verdict.baseline) == (  # type: ignore[comparison-overlap]
            pytest.approx(now.mean()),
            pytest.approx(before.mean()),
        )
        assert (verdict.outcome, verdict.n) == ("pass", 150)
        assert verdict.method == "t with pseudo-queries"

    def test_how_many_queries_would_decide_if_nothing_changed(self) -> None:
        rng = np.random.default_rng(8)
        before = rng.uniform(0.3, 0.7, 100)
        now = np.clip(before + rng.normal(-0.01, 0.2, 100), 0, 1)  # R is 1 within these
        verdict = verdict_of(now, before)
        # ((1.644854 + 0.841621) × sd / 0.02)², of 100 differences and two pseudo-queries; the
        # difference found plays no part
        d = now - before
        m = pseudo_change(d)
        error = np.std([*d, m, -m]) / math.sqrt(101)
        assert verdict.outcome == "inconclusive"
        assert verdict.needed == pytest.approx(100 * (2.486475 * error / 0.02) ** 2, abs=1)
        # its bound about 0: (t(0.95; 101) + 0.841621) × error
        assert verdict.decidable == pytest.approx((stats.t.ppf(0.95, 101) + 0.841621) * error)

    def test_the_number_named_decides_in_four_of_five_cases(self) -> None:
        rng = np.random.default_rng(2)

        def changes(n: int) -> FloatArray:  # one query in five moves by up to 0.5
            return rng.choice([-0.5, -0.25, 0.25, 0.5], n) * (rng.random(n) < 0.2)

        needed = [
            verdict.needed
            for verdict in (verdict_of(0.5 + changes(100), [0.5] * 100, worst=0) for _ in range(60))
            if verdict.needed
        ]
        n = int(np.median(needed))
        passed = [
            verdict_of(0.5 + changes(n), [0.5] * n, worst=0).outcome == "pass" for _ in range(200)
        ]
        # binomial(200, 0.8) lies between 0.70 and 0.89 in 99.9 % of cases
        assert 0.70 <= np.mean(passed) <= 0.89

    def test_no_number_shows_a_gain_if_nothing_changed(self) -> None:
        verdict = verdict_of([0.5, 0.6], [0.5, 0.5], "ndcg@10 > baseline")
        assert (verdict.outcome, verdict.needed) == ("inconclusive", None)
        assert verdict.sentence.endswith("the rule wants a gain: 2 queries are too few to tell.")

    def test_where_a_loss_is_clear_no_number_for_an_unchanged_system_is_named(self) -> None:
        # 10 of 50 lose 0.5: between -0.153 and -0.052
        verdict = verdict_of([0.0] * 10 + [0.5] * 40, [0.5] * 50, "ndcg@10 >= baseline - 0.1")
        assert (verdict.outcome, verdict.needed, verdict.decidable) == ("inconclusive", None, None)
        assert verdict.sentence.endswith(
            ": the loss is clear, but 50 queries are too few to tell whether it is more than 0.1."
        )

    def test_nothing_shows_that_an_unchanged_system_lost_nothing(self) -> None:
        # error √(2 / 202 / 201) = 0.007018; (1.652470 + 0.841621) × it = 0.0175
        verdict = verdict_of([0.5] * 200, [0.5] * 200, "ndcg@10 >= baseline")
        assert verdict.sentence.endswith(
            ": 200 queries are too few to tell, and no number would show that nothing at all was "
            "lost; a tolerance of 0.02 can be decided."
        )

    def test_no_tolerance_is_proposed_that_nobody_would_have(self) -> None:
        # of 5: error √(2 / 7 / 6) = 0.2182; (1.9432 + 0.8416) × it = 0.61
        verdict = verdict_of([0.5] * 5, [0.5] * 5)
        assert verdict.decidable is None
        assert verdict.sentence.endswith(
            "5 queries are too few to tell; about 3,700 would be needed."
        )

    def test_no_bound_lies_beyond_what_the_metric_allows(self) -> None:
        # plain t of two differences at 99.99 %: t(0.9999; 1) = 3183 standard errors
        verdict = verdict_of([0.6, 0.9], [0.5, 0.5], "ndcg@10 >= baseline at 99.99%")
        assert (verdict.lower, verdict.upper) == (-1.0, 1.0)

    def test_a_number_that_nobody_would_label_isnt_named(self) -> None:
        # 5 × (2.486475 × 0.2182 / 0.0001)² = 147 million
        verdict = verdict_of([0.5] * 5, [0.5] * 5, "ndcg@10 >= baseline - 0.0001")
        assert verdict.sentence.endswith("too few to tell; more than 100,000 would be needed.")

    def test_of_several_rules_a_bound_has_at_least_the_confidence_asked(self) -> None:
        before = Scores(list(map(str, range(50))), {"mrr": [0.5] * 50, "ap": [0.5] * 50})
        rules = ["mrr >= baseline - 0.02", "ap >= baseline - 0.03"]
        first, _ = check_rules(before, rules, baseline=before)
        assert "with at least 95 % confidence each" in first.sentence
        assert -first.lower < first.upper  # type: ignore[operator]

    @pytest.mark.parametrize(
        ("rule", "outcome"),
        [("failed <= 0", "fail"), ("failed <= 1", "pass"), ("queries >= 3", "pass")],
    )
    def test_of_a_count(self, rule: str, outcome: str) -> None:
        now = scores([0.5, 0.0, 1.0], failed={"q0001": "timeout"})
        (verdict,) = check_rules(now, rule)
        assert (verdict.outcome, verdict.n) == (outcome, 3)

    def test_a_count_is_certain(self) -> None:
        with pytest.raises(InvalidInput, match="a count is certain"):
            check_rules(scores([1.0]), "failed <= 0 at 95%")

    def test_other_tools_spellings(self) -> None:
        (verdict,) = check_rules(scores([0.5], "precision@5"), "P_5 >= 0.4")
        assert (verdict.metric, verdict.outcome) == ("precision@5", "pass")

    def test_clusters(self) -> None:
        metadata = {f"q{number:04d}": {"document": number // 3} for number in range(6)}
        now = scores([0.1] * 3 + [0.4] * 3, metadata=metadata)
        (verdict,) = check_rules(
            now, "ndcg@10 >= baseline", baseline=scores([0.5] * 6), clusters="document"
        )
        # the two clusters of TestBounds
        assert verdict.outcome == "inconclusive"
        assert verdict.upper == pytest.approx(-0.25 + 6.313752 * 0.15, abs=1e-6)
        assert verdict.method == "cluster-robust t with pseudo-queries"

    def test_the_order_of_the_queries_changes_nothing(self) -> None:
        rng = np.random.default_rng(3)
        now, before = rng.uniform(size=80), rng.uniform(size=80)
        ids = [f"q{number:02d}" for number in range(80)]
        back = Scores(ids[::-1], {"ndcg@10": now[::-1]})
        rule, baseline = "ndcg@10 >= baseline - 0.02", Scores(ids, {"ndcg@10": before})
        (verdict,) = check_rules(Scores(ids, {"ndcg@10": now}), rule, baseline=baseline)
        (other,) = check_rules(back, rule, baseline=baseline)
        assert (verdict.lower, verdict.upper) == (other.lower, other.upper)
        assert verdict.sentence == other.sentence


class TestIdenticalRankings:
    """Only rankings that are known to be identical pass without proof."""

    DATASET = RetrievalDataset(
        queries={"q0": "one", "q1": "two"}, relevance={"q0": ["a"], "q1": ["b"]}
    )

    def results(self, rankings: Rankings) -> EvaluationResults:
        return evaluate(lambda query: rankings[query], self.DATASET, ["recall@5"])  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("rule", "outcome"),
        [
            ("recall@5 >= baseline", "pass"),
            ("recall@5 >= baseline - 0.02", "pass"),
            ("recall@5 > baseline", "fail"),
            ("recall@5 >= baseline + 0.1", "fail"),
            ("recall@5 <= baseline", "pass"),
        ],
    )
    def test_a_change_of_nothing_is_certain(self, rule: str, outcome: str) -> None:
        rankings = {"one": ["a", "x"], "two": ["x"]}
        (verdict,) = check_rules(self.results(rankings), rule, baseline=self.results(rankings))
        assert (verdict.outcome, verdict.method, verdict.lower, verdict.upper) == (
            outcome,
            "identical rankings",
            0.0,
            0.0,
        )

    def test_another_order_with_the_same_scores_is_another_ranking(self) -> None:
        before = self.results({"one": ["a", "x"], "two": ["x"]})
        now = self.results({"one": ["x", "a"], "two": ["x"]})
        (verdict,) = check_rules(now, "recall@5 >= baseline - 0.02", baseline=before)
        assert (verdict.outcome, verdict.difference) == ("inconclusive", 0.0)

    def test_they_are_known_after_files(self, tmp_path: Path) -> None:
        results = self.results({"one": ["a"], "two": ["x"]})
        Baseline.of(results).save(tmp_path / "baseline.json")
        now = Scores.from_json(results.scores.to_json())
        (verdict,) = check_rules(now, "recall@5 >= baseline", baseline=tmp_path / "baseline.json")
        assert verdict.outcome == "pass"
        assert verdict.sentence == (
            "recall@5 is 0.5000 as in the baseline: the rankings of all 2 queries are identical."
        )


class TestCoverage:
    """A gate isn't green where nothing, or too little, was measured."""

    @pytest.mark.parametrize("rule", ["ndcg@10 >= 0.1", "ndcg@10 >= 0.1 at 95%", "failed <= 0"])
    def test_no_query_fails(self, rule: str) -> None:
        (verdict,) = check_rules(scores([]), rule)
        assert verdict.outcome == "fail"
        assert verdict.sentence.endswith("can't be judged: there are no queries.")

    def test_unlabelled_queries_fail(self) -> None:
        now = Scores([], {"ndcg@10": []}, excluded={"q1": "unjudged"})
        (verdict,) = check_rules(now, "ndcg@10 >= 0.1")
        assert (verdict.outcome, verdict.expected) == ("fail", 0)

    @pytest.mark.parametrize(
        ("present", "outcome"), [(100, "pass"), (95, "pass"), (94, "fail"), (5, "fail")]
    )
    @pytest.mark.parametrize(
        "rule", ["ndcg@10 >= 0.1", "ndcg@10 >= baseline", "ndcg@10 >= baseline as observed"]
    )
    def test_missing_values_fail(self, rule: str, present: int, outcome: str) -> None:
        now = scores([0.9] * present + [math.nan] * (100 - present))
        (verdict,) = check_rules(now, rule, baseline=scores([0.2] * 100))
        assert (verdict.outcome, verdict.n, verdict.expected) == (outcome, present, 100)
        incomplete = f"Only {present} of 100 queries have a value" in verdict.sentence
        assert incomplete == (present < 100)
        assert ("too few to judge by" in verdict.sentence) == (outcome == "fail")

    def test_values_missing_before_count_too(self) -> None:
        verdict = verdict_of([0.9] * 100, [0.5] * 90 + [math.nan] * 10)
        assert (verdict.outcome, verdict.n, verdict.expected) == ("fail", 90, 100)

    def test_failures_left_out_of_the_means_are_missing(self) -> None:
        now = Scores(
            [f"q{number:04d}" for number in range(60)],
            {"ndcg@10": [0.9] * 60},
            excluded={f"q{number:04d}": "failed" for number in range(60, 100)},
        )
        absolute, relative = check_rules(
            now, ["ndcg@10 >= 0.1", "ndcg@10 >= baseline"], baseline=scores([0.1] * 100)
        )
        assert (absolute.outcome, absolute.expected) == ("fail", 100)
        assert (relative.outcome, relative.expected) == ("fail", 100)

    def test_queries_without_labels_are_not_missing(self) -> None:
        now = Scores(
            [f"q{number:04d}" for number in range(20)],
            {"ndcg@10": [0.9] * 20},
            excluded={"u1": "unjudged", "u2": "no_relevant"},
        )
        (verdict,) = check_rules(now, "ndcg@10 >= 0.1")
        assert (verdict.outcome, verdict.expected) == ("pass", 20)

    def test_a_metric_without_need_of_labels_is_expected_everywhere(self) -> None:
        ids = [f"q{number:02d}" for number in range(20)]
        excluded = dict.fromkeys(ids[10:], "unjudged")
        values = [0.9] * 12 + [math.nan] * 8
        now = Scores(ids, {"similarity": values}, excluded=excluded)  # type: ignore[arg-type]
        (verdict,) = check_rules(now, "similarity >= 0.1")
        assert (verdict.outcome, verdict.n, verdict.expected) == ("fail", 12, 20)

    def test_how_much_is_enough_is_a_choice(self) -> None:
        now = scores([0.9] * 50 + [math.nan] * 50)
        assert check_rules(now, "ndcg@10 >= 0.1", min_coverage=0.5).outcome == "pass"
        assert check_rules(scores([]), "ndcg@10 >= 0.1", min_coverage=0).outcome == "fail"
        with pytest.raises(InvalidInput, match="min_coverage: expected a number from 0 to 1"):
            check_rules(now, "ndcg@10 >= 0.1", min_coverage=95)

    @pytest.mark.parametrize("rule", ["ndcg@10 >= 0.1", "ndcg@10 >= baseline"])
    def test_infinity_is_refused(self, rule: str) -> None:
        with pytest.raises(InvalidInput, match=r"score of 'q0001' by ndcg@10: expected a finite"):
            check_rules(scores([0.5, math.inf]), rule, baseline=scores([0.5, 0.5]))
        with pytest.raises(InvalidInput, match="finite"):
            Baseline.of(scores([-math.inf]))


class TestSeveralRules:
    RULES = [f"m{number} >= baseline - 0.02" for number in range(5)]

    def columns(self, draw: Callable[[int], FloatArray], n: int) -> Scores:
        ids = [f"q{number:04d}" for number in range(n)]
        return Scores(ids, {f"m{number}": draw(n) for number in range(5)})

    def test_each_fails_with_the_confidence_of_all(self) -> None:
        # -0.1 and sd 0.202031 as in TestBounds: t(0.99; 49) = 2.404892, upper -0.0313
        loss = [0.0] * 10 + [0.5] * 40
        ids = [f"q{number:04d}" for number in range(50)]
        rng = np.random.default_rng(1)
        columns = {f"m{number}": rng.uniform(0.3, 0.7, 50) for number in range(1, 5)}
        now = Scores(ids, {"m0": loss, **columns})
        moved = {name: column + rng.normal(0, 0.3, 50) for name, column in columns.items()}
        before = Scores(ids, {"m0": [0.5] * 50, **moved})
        first, *others = check_rules(now, self.RULES, baseline=before)
        assert first.upper == pytest.approx(-0.1 + 2.404892 * 0.0285714, abs=1e-6)
        assert (first.outcome, first.together, first.confidence) == ("fail", 5, 0.99)
        assert "with 99 % confidence below −0.0313" in first.sentence
        # Holm: what has failed no longer counts
        assert {verdict.together for verdict in others if verdict.outcome != "fail"} == {4}

    def test_the_same_numbers_count_once(self) -> None:
        ids = [f"q{number:04d}" for number in range(50)]
        now = Scores(ids, {"m0": [0.0] * 10 + [0.5] * 40, "m1": [0.0] * 10 + [0.5] * 40})
        before = Scores(ids, {"m0": [0.5] * 50, "m1": [0.5] * 50})
        report = check_rules(now, self.RULES[:2], baseline=before)
        assert [(verdict.outcome, verdict.together) for verdict in report] == [("fail", 1)] * 2

    def test_five_rules_at_their_limits_fail_in_one_case_of_twenty(self) -> None:
        rng = np.random.default_rng(5)
        failed = 0
        for _ in range(200):
            before = self.columns(lambda n: rng.uniform(0.4, 0.6, n), 40)
            now = Scores(
                before.query_ids,
                {name: before[name] + rng.normal(-0.02, 0.15, 40) for name in before},
            )
            failed += check_rules(now, self.RULES, baseline=before, worst=0).outcome == "fail"
        # binomial(200, 0.05) is at most 21 in 99.9 % of cases; without a correction it is about 45
        assert 1 <= failed <= 21


class TestErrorRates:
    """A change exactly at the limit: how often it is taken for a clear case."""

    DATA_SETS = 200

    def outcomes(self, draw: Callable[[np.random.Generator, int], Any], n: int) -> list[str]:
        rng = np.random.default_rng(11)
        rule = Rule("ndcg@10", ">=", -0.02, baseline=True)
        reports = [
            check_rules(scores(0.5 + draw(rng, n)), rule, baseline=scores([0.5] * n), worst=0)
            for _ in range(self.DATA_SETS)
        ]
        return [report.outcome for report in reports]

    def test_dense_differences(self) -> None:
        outcomes = self.outcomes(lambda rng, n: rng.normal(-0.02, 0.15, n), 40)
        # 5 % each: of 200, binomial(0.05) lies between 1 and 21 in 99.9 % of cases
        assert 1 <= outcomes.count("pass") <= 21
        assert 1 <= outcomes.count("fail") <= 21

    def test_few_queries_change(self) -> None:
        # 4 % of 200 queries lose 0.5: mean -0.02. Without a loss P = 0.96^200 = 0.0003
        outcomes = self.outcomes(lambda rng, n: -0.5 * (rng.random(n) < 0.04), 200)
        assert outcomes.count("pass") <= 21
        assert outcomes.count("fail") <= 21


def evaluated(
    rankings: Rankings, queries: Sequence[str] = ("where?", "what <b>is</b> | it?")
) -> EvaluationResults:
    dataset = RetrievalDataset(
        queries={f"q{n}": text for n, text in enumerate(queries)},
        relevance={f"q{n}": {"good": 2, "fine": 1, "bad": 0} for n in range(len(queries))},
    )

    def retrieve(query: str) -> Any:
        if rankings[query] is None:
            raise TimeoutError("asleep")
        return rankings[query]

    return evaluate(retrieve, dataset, ["recall@5"], name="new")


class TestWhatIsShown:
    def test_the_worst_queries_with_what_was_wanted_and_came(self) -> None:
        results = evaluated(
            {"where?": ["good", "fine"], "what <b>is</b> | it?": ["bad", "x", "fine"]}
        )
        (verdict,) = check_rules(results, "recall@5 >= 0.9")
        (worst,) = verdict.worst
        assert (worst.query_id, worst.question) == ("q1", "what <b>is</b> | it?")
        assert (worst.score, worst.baseline, worst.error) == (0.5, None, "")
        assert worst.wanted == ("good", "fine")
        assert worst.got == ("bad [0]", "x", "fine [1]")

    def test_a_query_that_failed_says_so(self) -> None:
        results = evaluated({"where?": ["good", "fine"], "what <b>is</b> | it?": None})
        with pytest.raises(GateFailed, match="failed: TimeoutError: asleep"):
            assert_retrieval(results, "recall@5 >= 0.9")

    def test_a_count_of_failures_says_which_and_why(self) -> None:
        now = scores([0.0, 0.0, 1.0], failed={"q0000": "timeout", "q0001": "<b>"})
        shown = "1 more failed"
        assert check_rules(now, "failed <= 0").notes == (
            "q0000 failed: timeout",
            "q0001 failed: <b>",
        )
        assert check_rules(now, "failed <= 0", worst=1).notes == ("q0000 failed: timeout", shown)
        assert check_rules(now, "failed <= 2").notes == ()

    # the columns are 12, 6, 8, 10, 17 and 7 wide and take 3 more each, the margin 1; the rule takes
    # 33, or in two lines 19: 112 and 98 in all, 88 without the queries, 68 without the bounds
    @pytest.mark.parametrize(
        ("width", "label", "left_out"),
        [
            (40, 19, ["now", "baseline", "difference", "bounds", "queries"]),
            (60, 19, ["difference", "bounds", "queries"]),
            (80, 19, ["bounds", "queries"]),
            (88, 19, ["queries"]),
            (98, 19, []),
            (112, 33, []),
        ],
    )
    def test_a_rule_takes_two_lines_at_most(
        self, width: int, label: int, left_out: list[str]
    ) -> None:
        now, before = scores([0.5, 0.5, 0.0]), scores([0.5, 0.5, 0.5])
        rule = "ndcg@10 >= baseline - 0.02 at 95%"
        report = check_rules(now, rule, baseline=before)
        lines = to_text(report.report(), width=width).splitlines()
        assert max(map(len, lines)) <= width
        start = next(row for row, line in enumerate(lines) if line.split()[:1] == ["rule"])
        n_lines = 1 if label == len(rule) else 2
        label_lines = [line[: 1 + label].strip() for line in lines[start + 2 :][:n_lines]]
        assert " ".join(label_lines) == rule
        columns = ["verdict", "now", "baseline", "difference", "bounds", "queries"]
        shown = columns[: len(columns) - len(left_out)]
        assert lines[start].split() == ["rule", *shown]
        remark = f"too narrow for: {', '.join(left_out)}"
        assert (remark in " ".join(" ".join(lines).split())) == bool(left_out)

    def test_against_the_baseline_only_losses_are_shown_largest_first(self) -> None:
        verdict = verdict_of([0.1, 0.9, 0.5, 0.0], [0.2, 0.2, 0.9, 0.0])
        assert [query.query_id for query in verdict.worst] == ["q0002", "q0000"]
        assert (verdict.worst[0].score, verdict.worst[0].baseline) == (0.5, 0.9)

    def test_the_message_of_a_failure(self) -> None:
        results = evaluated({"where?": ["x"], "what <b>is</b> | it?": ["good", "fine"]})
        before = evaluated({"where?": ["good"], "what <b>is</b> | it?": ["good", "fine"]})
        with pytest.raises(AssertionError) as caught:
            assert_retrieval(
                results, "recall@5 >= baseline at 99%", "recall@5 >= 0.6", baseline=before
            )
        lines = [" ".join(line.split()) for line in str(caught.value).splitlines()]
        assert "Retrieval gate of new: fail" in lines
        assert "recall@5 >= 0.6 fail 0.5000 – – – 2" in lines
        assert "fail: recall@5 is 0.5000 over 2 queries; the rule wants 0.6 or more." in lines
        assert "q0 where?" in lines
        assert "new 0.5000 → 0.0000 x" in lines
        assert "wanted good, fine" in lines

    def test_inconclusive_is_a_warning_or_with_strict_a_failure(self) -> None:
        now, before = scores([0.0] * 2 + [1.0] * 48), scores([1.0] * 50)
        rule = "ndcg@10 >= baseline - 0.02"
        with pytest.warns(InconclusiveGate, match="50 queries are too few to tell"):
            assert_retrieval(now, rule, baseline=before)
        with pytest.raises(GateFailed, match="inconclusive"):
            assert_retrieval(now, rule, baseline=before, strict=True)

    def test_a_pass_is_silent(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert assert_retrieval(scores([1.0]), "ndcg@10 >= 0.5").outcome == "pass"

    @pytest.mark.parametrize(
        ("now", "before", "rule", "sentence"),
        [
            (
                [0.0] * 29 + [1.0] * 21,
                [1.0] * 50,
                "ndcg@10 >= baseline - 0.02",
                # -0.58 + 1.676551 × 0.0705
                "ndcg@10 is 0.4200 against 1.0000 in the baseline, −0.5800 over 50 queries, with "
                "95 % confidence below −0.4618; the rule tolerates a loss of up to 0.02.",
            ),
            (
                [0.5] * 50,
                [0.5] * 50,
                "ndcg@10 >= baseline - 0.02",
                # M = 1: error √(2 / 52 / 51) = 0.027462, t(0.95; 51) = 1.675285, z = 0.841621;
                # 50 × (2.486475 × 0.027462 / 0.02)² = 582.8; 2.516906 × 0.027462 = 0.0691
                "ndcg@10 is 0.5000 against 0.5000 in the baseline, 0.0000 over 50 queries "
                "(between −0.0460 and +0.0460, with 95 % confidence each); the rule tolerates a "
                "loss of up to 0.02: 50 queries are too few to tell; about 590 would be needed, or "
                "a tolerance of 0.07.",
            ),
            (
                [0.5],
                [0.5],
                "ndcg@10 >= baseline + 0.2",
                "ndcg@10 is 0.5000 against 0.5000 in the baseline, 0.0000 over 1 query; the rule "
                "wants a gain of at least 0.2: 1 query is too few to tell.",
            ),
            (
                [0.6, 0.6],
                [0.5, 0.5],
                "ndcg@10 > baseline + 0.2 as observed",
                "ndcg@10 is 0.6000 against 0.5000 in the baseline, +0.1000 over 2 queries; the "
                "rule wants a gain of more than 0.2.",
            ),
            (
                [0.4, 0.4],
                [0.5, 0.5],
                "ndcg@10 >= baseline as observed",
                "ndcg@10 is 0.4000 against 0.5000 in the baseline, −0.1000 over 2 queries; the "
                "rule tolerates no loss.",
            ),
            (
                [math.nan],
                [0.5],
                "ndcg@10 >= baseline",
                "ndcg@10 can't be judged: none of 1 query has a value both now and in the "
                "baseline.",
            ),
        ],
    )
    def test_sentences(
        self, now: list[float], before: list[float], rule: str, sentence: str
    ) -> None:
        assert verdict_of(now, before, rule).sentence == sentence

    @pytest.mark.parametrize(
        ("rule", "wanted"),
        [
            ("calls <= baseline + 0.5 as observed", "tolerates a rise of up to 0.5."),
            ("calls < baseline - 0.2 as observed", "wants a fall of more than 0.2."),
            ("calls <= baseline as observed", "tolerates no rise."),
        ],
    )
    def test_sentences_where_less_is_better(self, rule: str, wanted: str) -> None:
        new, before = scores([4.0, 4.0], "calls"), scores([3.0, 3.0], "calls")
        (verdict,) = check_rules(new, rule, baseline=before)
        assert verdict.sentence == (
            "calls is 4.0000 against 3.0000 in the baseline, +1.0000 over 2 queries; the rule "
            + wanted
        )

    def test_a_value_just_off_the_limit_is_told_from_it(self) -> None:
        (verdict,) = check_rules(scores([0.79999, 0.8]), "ndcg@10 >= 0.8")
        assert verdict.sentence == "ndcg@10 is 0.799995 over 2 queries; the rule wants 0.8 or more."

    def test_json(self) -> None:
        report = check_rules(scores([0.25, 0.5]), "ndcg@10 >= 0.5")
        data = json.loads(report.to_json())
        assert data["outcome"] == "fail"
        (verdict,) = data["verdicts"]
        assert (verdict["rule"], verdict["value"], verdict["n"]) == ("ndcg@10 >= 0.5", 0.375, 2)
        assert verdict["worst"][0]["query_id"] == "q0000"


NASTY = (
    "<img src=x> | `code` [a](http://x) **b** _c_ @someone #4321 https://x.org www.x.org ~~d~~ \\"
)


class TestMarkdown:
    def rendered(self, text: str) -> Any:
        return (
            MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
        )

    def test_what_came_from_data_stays_text(self) -> None:
        dataset = RetrievalDataset(queries={"q|<1>": NASTY}, relevance={"q|<1>": ["<b>|x", "a|b"]})
        results = evaluate(lambda query: ["a|b", NASTY], dataset, ["recall@5"], name=NASTY)
        text = check_rules(results, ["recall@5 >= 0.8"]).to_markdown()
        inline = [token for token in self.rendered(text) if token.type == "inline"]
        kinds = {child.type for token in inline for child in token.children or ()}
        assert kinds == {"text"}
        shown = ["".join(child.content for child in token.children or ()) for token in inline]
        assert f"Retrieval gate of {NASTY}: ❌ fail" in shown
        assert {"q|<1>", NASTY, "<b>|x, a|b", f"a|b [1], {NASTY}"} <= set(shown)
        html = {
            token.content.strip() for token in self.rendered(text) if token.type == "html_block"
        }
        assert html == {
            "<details><summary>Worst queries by recall&#64;5</summary>",
            "</details>",
        }

    @settings(deadline=None)
    @given(
        st.text() | st.text("ab1 .|`*_[]()<>&#!\\-+=~:;/@'\"{}^$%,?", max_size=25),
        st.sampled_from(["| head |\n| --- |\n| {} |\n", "- {}\n", "### x {}\n"]),
    )
    def test_any_text_stays_text_wherever_it_stands(self, data: str, line: str) -> None:
        tokens = self.rendered(line.format(escaped(data)))
        inline = [token for token in tokens if token.type == "inline"]
        content = "".join(child.content for child in inline[-1].children or ()) if inline else ""
        assert {child.type for token in inline for child in token.children or ()} <= {"text"}
        assert content.strip() == ("x " * ("x" in line) + plain(data)).strip()
        assert not any(token.type in {"ordered_list_open", "html_block"} for token in tokens)

    def test_nothing_is_left_that_github_would_link(self) -> None:
        for link in ("@someone", "#4321", "https://", "www.x", "a@b.org"):
            assert link in f"{NASTY} a@b.org"
            assert link not in escaped(f"{NASTY} a@b.org")


class TestNotes:
    def test_an_intersection_says_so(self) -> None:
        before = Baseline.of(Scores(["q1", "q2"], {"mrr": [1.0, 0.5]}))
        now = Scores(["q2", "q3", "q4"], {"mrr": [0.5, 0.0, 0.0]})
        report = check_rules(now, "mrr >= baseline", baseline=before, on_missing="intersect")
        assert [verdict.n for verdict in report] == [1]
        assert report.notes[0].startswith("rules against the baseline are decided by 1 query")

    def test_another_version_says_so(self) -> None:
        baseline = Baseline(scores([1.0]), version="0.0.9")
        report = check_rules(scores([1.0]), "ndcg@10 >= baseline", baseline=baseline)
        assert "stored by version 0.0.9" in report.notes[0]

    def test_queries_left_out_since_they_failed_are_told(self) -> None:
        before = scores([1.0, 0.5])
        now = Scores(["q0000"], {"ndcg@10": [1.0]}, excluded={"q0001": "failed"})
        report = check_rules(now, "ndcg@10 >= baseline", baseline=before)
        assert "out of its means (failed)" in report.notes[0]
