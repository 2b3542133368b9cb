"""The gate: rules, verdicts with derivations, error rates, and what is shown."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from scipy import stats

from llama_index_rag_metrics import (
    Baseline,
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
    UnknownMetric,
)
from llama_index_rag_metrics.gate.bounds import bounds_of
from llama_index_rag_metrics.report.escape import markdown as escaped
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.terminal import to_text


def scores(values, metric="ndcg@10", **options) -> Scores:
    return Scores([f"q{at:04d}" for at in range(len(values))], {metric: values}, **options)


def verdict(now, before, rule="ndcg@10 >= baseline - 0.02", **options):
    (one,) = check_rules(scores(now), rule, baseline=scores(before), **options)
    return one


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
            ("embedding_similarity > -0.1", Rule("embedding_similarity", ">", -0.1)),
            (
                "recall(match=text>=0.6, min_grade=2)@5 >= 0.5",
                Rule("recall(match=text>=0.6, min_grade=2)@5", ">=", 0.5),
            ),
        ],
    )
    def test_is_read_and_written(self, text, rule):
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
            "0.02 more than the baseline",
            ">= 0.5",
        ],
    )
    def test_what_is_no_rule_is_refused_with_examples(self, text):
        with pytest.raises(InvalidInput, match=r"For example 'ndcg@10 >= baseline - 0\.02'"):
            Rule.parse(text)

    @pytest.mark.parametrize("percent", ["50", "100", "5", "0.95"])
    def test_a_confidence_that_decides_nothing_is_refused(self, percent):
        with pytest.raises(InvalidInput, match="between 50% and 100%"):
            Rule.parse(f"mrr >= 0.5 at {percent}%")

    def test_a_limit_that_is_no_number_is_refused(self):
        with pytest.raises(InvalidInput, match="a finite number"):
            Rule("mrr", ">=", math.nan)
        with pytest.raises(InvalidInput, match="sign of a rule"):
            Rule("mrr", "==", 0.5)  # type: ignore[arg-type]

    @settings(deadline=None)
    @given(
        st.sampled_from(["ndcg@10", "rbp(p=0.8)@5", "recall(match=text>=0.6)@5"]),
        st.sampled_from([">=", ">", "<=", "<"]),
        st.decimals(-5, 5, places=4),
        st.booleans(),
        st.none() | st.decimals("50.1", "99.9", places=1),
    )
    def test_what_is_written_is_read_again(self, metric, sign, value, baseline, percent):
        confidence = None if percent is None else round(float(percent) / 100, 12)
        rule = Rule(metric, sign, float(value), baseline, confidence)
        assert Rule.parse(str(rule)) == rule


class TestBounds:
    def test_few_queries_lose_by_clopper_pearson_and_t(self):
        # 10 of 50 queries lose 0.5: mean -0.1, sd √((10 × 0.4² + 40 × 0.1²) / 49) = 0.202031,
        # standard error 0.0285714, t(0.95; 49) = 1.676551: upper -0.1 + 0.0479015
        # Clopper-Pearson's upper limit for 10 of 50 is Beta(0.95; 11, 40) = 0.316…; each loses 1
        found = bounds_of(np.array([-0.5] * 10 + [0.0] * 40), 0.95, -1.0, differences=True)
        assert found.mean == pytest.approx(-0.1)
        assert found.upper == pytest.approx(-0.1 + 1.676551 * 0.0285714, abs=1e-6)
        exact = stats.binomtest(10, 50, alternative="less").proportion_ci(0.95, "exact").high
        assert found.lower == pytest.approx(-exact)
        assert found.lower == pytest.approx(-stats.beta.ppf(0.95, 11, 40))
        assert (found.n, found.informative, found.method) == (50, 10, "worst case, t")

    def test_many_queries_as_scipy_s_bootstrap(self):
        values = np.random.default_rng(4).normal(-0.01, 0.2, 120)
        found = bounds_of(values, 0.95, -1.0, differences=True)
        there = stats.bootstrap(
            (values,), np.mean, confidence_level=0.9, n_resamples=20_000, method="BCa", rng=1
        ).confidence_interval
        # the ends of two bootstraps of 10,000 and 20,000 differ by about 2 % of their width
        width = there.high - there.low
        assert found.lower == pytest.approx(there.low, abs=0.04 * width)
        assert found.upper == pytest.approx(there.high, abs=0.04 * width)

    def test_a_single_query_has_no_upper_bound(self):
        found = bounds_of(np.array([0.2]), 0.95, 0.0, differences=False)
        # one query: the share below its value may be as high as 0.95
        assert (found.lower, found.upper) == (pytest.approx(0.2 - 0.95 * 0.2), None)

    def test_without_a_lowest_value_there_is_no_worst_case(self):
        found = bounds_of(np.array([0.0] * 9 + [-1.0]), 0.95, -math.inf, differences=True)
        assert found.lower is None

    def test_clusters_give_a_robust_t(self):
        values, clusters = (
            np.array([-0.4, -0.4, -0.4, -0.1, -0.1, -0.1]),
            np.array([0, 0, 0, 1, 1, 1]),
        )
        found = bounds_of(values, 0.95, -1.0, differences=True, clusters=clusters)
        # two clusters of means -0.4 and -0.1: error 0.15, one degree of freedom, t = 6.313752
        assert found.upper == pytest.approx(-0.25 + 6.313752 * 0.15, abs=1e-6)
        assert found.lower is None


class TestVerdicts:
    @pytest.mark.parametrize(
        ("now", "before", "rule", "outcome"),
        [
            # identical: both bounds are 0
            ([0.5, 0.7], [0.5, 0.7], "ndcg@10 >= baseline - 0.02", "pass"),
            ([0.5, 0.7], [0.5, 0.7], "ndcg@10 >= baseline", "pass"),
            ([0.5, 0.7], [0.5, 0.7], "ndcg@10 > baseline", "fail"),
            # every query changed by the same amount: that is both bounds; 0.68 - 0.7 isn't -0.02
            ([0.68, 0.48], [0.7, 0.5], "ndcg@10 >= baseline - 0.02", "pass"),
            ([0.68, 0.48], [0.7, 0.5], "ndcg@10 > baseline - 0.02", "fail"),
            ([0.68, 0.48], [0.7, 0.5], "ndcg@10 >= baseline - 0.01", "fail"),
            # no query of 200 loses, 3 gain: at worst Beta(0.95; 1, 200) = 1.49 % lose all
            ([1.0] * 200, [1.0] * 197 + [0.5] * 3, "ndcg@10 >= baseline - 0.02", "pass"),
            ([1.0] * 200, [1.0] * 197 + [0.5] * 3, "ndcg@10 >= baseline - 0.01", "inconclusive"),
            # 29 of 50 lose everything: t's upper bound is -0.58 + 1.6766 × 0.0705 = -0.46
            ([0.0] * 29 + [1.0] * 21, [1.0] * 50, "ndcg@10 >= baseline - 0.02", "fail"),
            # 2 of 50 lose everything: t's upper bound is -0.04 + 1.6766 × 0.028 = +0.007
            ([0.0] * 2 + [1.0] * 48, [1.0] * 50, "ndcg@10 >= baseline - 0.02", "inconclusive"),
            # the same as a metric that had better be low
            ([1.0] * 29 + [0.0] * 21, [0.0] * 50, "ndcg@10 <= baseline + 0.02", "fail"),
            ([0.5, 0.7], [0.5, 0.7], "ndcg@10 <= baseline", "pass"),
        ],
    )
    def test_against_the_baseline(self, now, before, rule, outcome):
        assert verdict(now, before, rule).outcome == outcome

    @pytest.mark.parametrize(
        ("values", "rule", "outcome"),
        [
            ([0.8, 0.8], "ndcg@10 >= 0.8", "pass"),
            ([0.8, 0.8], "ndcg@10 > 0.8", "fail"),
            ([0.8, 0.7], "ndcg@10 >= 0.8", "fail"),
            ([0.8, 0.7], "ndcg@10 <= 0.75", "pass"),
            ([], "ndcg@10 >= 0.8", "inconclusive"),
            ([], "ndcg@10 >= 0.8 at 95%", "inconclusive"),
            # Wilson, one-sided 95 %: 90 of 100 is above 0.839, 80 of 100 between 0.726 and 0.858
            ([1.0] * 90 + [0.0] * 10, "ndcg@10 >= 0.83 at 95%", "pass"),
            ([1.0] * 80 + [0.0] * 20, "ndcg@10 >= 0.83 at 95%", "inconclusive"),
            ([1.0] * 80 + [0.0] * 20, "ndcg@10 >= 0.87 at 95%", "fail"),
            # 20 perfect queries: at worst Beta(0.95; 1, 20) = 13.9 % score 0
            ([1.0] * 20, "ndcg@10 >= 0.86 at 95%", "pass"),
            ([1.0] * 20, "ndcg@10 >= 0.87 at 95%", "inconclusive"),
            ([0.0] * 20, "ndcg@10 >= 0.1 at 95%", "fail"),
            ([0.5], "ndcg@10 >= 0.8 at 95%", "inconclusive"),
        ],
    )
    def test_of_a_limit(self, values, rule, outcome):
        (one,) = check_rules(scores(values), rule)
        assert one.outcome == outcome

    def test_numbers_of_a_dense_difference(self):
        rng = np.random.default_rng(7)
        before = rng.uniform(0.3, 0.7, 150)
        now = before + rng.normal(-0.005, 0.05, 150)
        one = verdict(now, before)
        differences = now - before
        # one-sided t bounds by hand; the bootstrap's are within a tenth of their distance
        half = stats.t.ppf(0.95, 149) * differences.std(ddof=1) / math.sqrt(150)
        assert one.difference == pytest.approx(differences.mean())
        assert one.lower == pytest.approx(differences.mean() - half, abs=0.1 * half)
        assert one.upper == pytest.approx(differences.mean() + half, abs=0.1 * half)
        assert (one.value, one.baseline) == (
            pytest.approx(now.mean()),
            pytest.approx(before.mean()),
        )
        assert (one.outcome, one.n, one.method) == ("pass", 150, "BCa bootstrap")

    def test_how_many_queries_would_decide(self):
        rng = np.random.default_rng(8)
        before = rng.uniform(0.3, 0.7, 100)
        now = before + rng.normal(0, 0.2, 100)
        one = verdict(now, before)
        # ((1.644854 + 0.841621) × sd / (difference + 0.02))²
        differences = now - before
        needed = (2.486475 * differences.std(ddof=1) / (differences.mean() + 0.02)) ** 2
        assert one.outcome == "inconclusive"
        assert one.needed == pytest.approx(needed, abs=1)

    def test_where_few_queries_changed_more_are_needed_for_a_bootstrap(self):
        # 2 of 50 changed: 30 would in 50 × 30 / 2 = 750
        one = verdict([0.0] * 2 + [1.0] * 48, [1.0] * 50, "ndcg@10 >= baseline - 0.2")
        assert (one.outcome, one.needed) == ("pass", None)
        one = verdict([0.0] * 2 + [1.0] * 48, [1.0] * 50, "ndcg@10 >= baseline - 0.1")
        assert (one.outcome, one.needed) == ("inconclusive", 750)

    def test_no_number_decides_where_the_difference_is_the_margin(self):
        one = verdict([0.0, 0.96], [0.0, 1.0], "ndcg@10 >= baseline - 0.02")
        assert (one.outcome, one.needed) == ("inconclusive", None)
        assert "so few queries can't tell" in one.sentence

    @pytest.mark.parametrize(
        ("rule", "outcome"),
        [("failed <= 0", "fail"), ("failed <= 1", "pass"), ("queries >= 3", "pass")],
    )
    def test_of_a_count(self, rule, outcome):
        given = scores([0.5, 0.0, 1.0], failed={"q0001": "timeout"})
        (one,) = check_rules(given, rule)
        assert (one.outcome, one.n) == (outcome, 3)

    def test_a_count_is_certain(self):
        with pytest.raises(InvalidInput, match="a count is certain"):
            check_rules(scores([1.0]), "failed <= 0 at 95%")

    def test_other_tools_spellings(self):
        (one,) = check_rules(scores([0.5], "precision@5"), "P_5 >= 0.4")
        assert (one.metric, one.outcome) == ("precision@5", "pass")

    def test_a_metric_of_ones_own_has_no_worst_case(self):
        now = scores([1.0] * 50, "mine")
        before = scores([1.0] * 49 + [0.0], "mine")
        (one,) = check_rules(now, "mine >= baseline - 0.2", baseline=before)
        assert (one.outcome, one.lower) == ("inconclusive", None)

    def test_a_query_without_a_value_on_one_side_stands_in_no_comparison(self):
        one = verdict([math.nan, 0.5, 0.5], [1.0, 0.5, 0.5])
        assert (one.n, one.outcome, one.baseline) == (2, "pass", 0.5)

    def test_clusters(self):
        metadata = {f"q{at:04d}": {"document": at // 3} for at in range(6)}
        now = scores([0.1] * 3 + [0.4] * 3, metadata=metadata)
        (one,) = check_rules(
            now, "ndcg@10 >= baseline", baseline=scores([0.5] * 6), clusters="document"
        )
        assert (one.outcome, one.lower) == ("inconclusive", None)

    def test_the_order_of_the_queries_changes_nothing(self):
        rng = np.random.default_rng(3)
        now, before = rng.uniform(size=80), rng.uniform(size=80)
        ids = [f"q{at:02d}" for at in range(80)]
        back = Scores(ids[::-1], {"ndcg@10": now[::-1]})
        rule, baseline = "ndcg@10 >= baseline - 0.02", Scores(ids, {"ndcg@10": before})
        (one,) = check_rules(Scores(ids, {"ndcg@10": now}), rule, baseline=baseline)
        (other,) = check_rules(back, rule, baseline=baseline)
        assert (one.lower, one.upper, one.sentence) == (other.lower, other.upper, other.sentence)


class TestRefusals:
    def test_no_rule(self):
        with pytest.raises(InvalidInput, match="at least one rule"):
            check_rules(scores([1.0]), [])

    def test_no_baseline(self):
        with pytest.raises(InvalidInput, match=r"The rule is 'ndcg@10 >= baseline - 0.02 at 95%'"):
            check_rules(scores([1.0]), "ndcg@10 >= baseline - 0.02")

    def test_something_else_as_a_baseline(self):
        with pytest.raises(InvalidInput, match="the path of one"):
            check_rules(scores([1.0]), "ndcg@10 >= baseline", baseline=7)  # type: ignore[arg-type]

    def test_a_metric_that_the_scores_lack(self):
        with pytest.raises(InvalidInput) as caught:
            check_rules(scores([1.0]), "P_5 >= 0.5")
        assert str(caught.value) == (
            "metric of a rule: expected one that was scored: ndcg@10, got 'P_5'. Score by "
            "precision@5, too."
        )

    def test_a_metric_that_there_isn_t(self):
        with pytest.raises(UnknownMetric, match="Did you mean 'ndcg@10'"):
            check_rules(scores([1.0]), "ngcd@10 >= 0.5")

    def test_a_metric_that_the_baseline_lacks(self):
        with pytest.raises(InvalidInput, match="Store a new baseline from scores by ndcg@10"):
            check_rules(scores([1.0]), "ndcg@10 >= baseline", baseline=scores([1.0], "mrr"))


class TestErrorRates:
    """A change exactly at the limit: how often it is taken for a clear case."""

    DATA_SETS = 200

    def outcomes(self, draw, n):
        rng = np.random.default_rng(11)
        rule = Rule("ndcg@10", ">=", -0.02, baseline=True)
        found = [
            check_rules(scores(0.5 + draw(rng, n)), rule, baseline=scores([0.5] * n), worst=0)
            for _ in range(self.DATA_SETS)
        ]
        return [one.outcome for one in found]

    def test_dense_differences(self):
        found = self.outcomes(lambda rng, n: rng.normal(-0.02, 0.15, n), 40)
        # 5 % each: of 200, binomial(0.05) lies between 1 and 21 in 99.9 % of cases
        assert 1 <= found.count("pass") <= 21
        assert 1 <= found.count("fail") <= 21

    def test_few_queries_change(self):
        # 4 % of 200 queries lose 0.5: mean -0.02. Without a loss P = 0.96^200 = 0.0003
        found = self.outcomes(lambda rng, n: -0.5 * (rng.random(n) < 0.04), 200)
        assert found.count("pass") <= 21
        assert found.count("fail") <= 21


def evaluated(found, queries=("where?", "what <b>is</b> | it?")):
    dataset = RetrievalDataset(
        queries={f"q{at}": text for at, text in enumerate(queries)},
        relevance={f"q{at}": {"good": 2, "fine": 1, "bad": 0} for at in range(len(queries))},
    )

    def retrieve(query):
        if found[query] is None:
            raise TimeoutError("asleep")
        return found[query]

    return evaluate(retrieve, dataset, ["recall@5"], name="new")


class TestWhatIsShown:
    def test_the_worst_queries_with_what_was_wanted_and_came(self):
        results = evaluated(
            {"where?": ["good", "fine"], "what <b>is</b> | it?": ["bad", "x", "fine"]}
        )
        (one,) = check_rules(results, "recall@5 >= 0.9")
        (worst,) = one.worst
        assert (worst.query_id, worst.question) == ("q1", "what <b>is</b> | it?")
        assert (worst.score, worst.baseline, worst.error) == (0.5, None, "")
        assert worst.wanted == ("good", "fine")
        assert worst.got == ("bad [0]", "x", "fine [1]")

    def test_a_query_that_failed_says_so(self):
        results = evaluated({"where?": ["good", "fine"], "what <b>is</b> | it?": None})
        with pytest.raises(GateFailed, match="failed: TimeoutError: asleep"):
            assert_retrieval(results, "recall@5 >= 0.9")

    def test_a_count_of_failures_says_which_and_why(self):
        given = scores([0.0, 0.0, 1.0], failed={"q0000": "timeout", "q0001": "<b>"})
        shown = "1 more failed"
        assert check_rules(given, "failed <= 0").notes == (
            "q0000 failed: timeout",
            "q0001 failed: <b>",
        )
        assert check_rules(given, "failed <= 0", worst=1).notes == ("q0000 failed: timeout", shown)
        assert check_rules(given, "failed <= 2").notes == ()

    @pytest.mark.parametrize("width", [40, 60, 80, 120])
    def test_a_narrow_terminal_breaks_no_word_of_a_rule(self, width):
        now, before = scores([0.5, 0.5, 0.0]), scores([0.5, 0.5, 0.5])
        report = check_rules(now, "ndcg@10 >= baseline - 0.02", baseline=before)
        lines = to_text(report.report(), width=width).splitlines()
        assert max(map(len, lines)) <= width
        words = " ".join(lines).split()
        assert {"inconclusive", "ndcg@10", "baseline", "0.02", "95%"} <= set(words)
        # 8 + 12 + 6 + 8 + 10 + 17 + 7 and 6 gaps of 3 are 86, 76 without the queries
        head = next(line.split() for line in lines if line.split()[:1] == ["rule"])
        assert ("queries" in head, "bounds" in head) == (width >= 87, width >= 77)

    def test_against_the_baseline_only_losses_are_shown_largest_first(self):
        one = verdict([0.1, 0.9, 0.5, 0.0], [0.2, 0.2, 0.9, 0.0])
        assert [query.query_id for query in one.worst] == ["q0002", "q0000"]
        assert (one.worst[0].score, one.worst[0].baseline) == (0.5, 0.9)

    def test_the_message_of_a_failure(self):
        results = evaluated({"where?": ["x"], "what <b>is</b> | it?": ["good", "fine"]})
        before = evaluated({"where?": ["good"], "what <b>is</b> | it?": ["good", "fine"]})
        with pytest.raises(AssertionError) as caught:
            assert_retrieval(
                results, "recall@5 >= baseline at 99%", "recall@5 >= 0.6", baseline=before
            )
        lines = [" ".join(line.split()) for line in str(caught.value).splitlines()]
        assert "Retrieval gate of new: fail" in lines
        assert "recall@5 >= 0.6 fail 0.5000 – – – 2" in lines
        assert "fail: recall@5 is 0.5000 over 2 queries; 0.6 or more is wanted." in lines
        assert "q0 where?" in lines
        assert "new 0.5000 → 0.0000 x" in lines
        assert "wanted good, fine" in lines

    def test_inconclusive_is_a_warning_or_with_strict_a_failure(self):
        now, before = scores([0.0] * 2 + [1.0] * 48), scores([1.0] * 50)
        rule = "ndcg@10 >= baseline - 0.02"
        with pytest.warns(InconclusiveGate, match="50 queries can't tell"):
            assert_retrieval(now, rule, baseline=before)
        with pytest.raises(GateFailed, match="inconclusive"):
            assert_retrieval(now, rule, baseline=before, strict=True)

    def test_a_pass_is_silent(self):
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
                "ndcg@10 is 0.4200 against 1.0000, −0.5800 over 50 queries, with 95 % confidence "
                "below −0.4618; no more than 0.02 worse is tolerated.",
            ),
            (
                [0.5, 0.5],
                [0.5, 0.5],
                "ndcg@10 >= baseline",
                "ndcg@10 is 0.5000, the same as in the baseline on all 2 queries.",
            ),
            (
                [0.5, 0.5],
                [0.5, 0.5],
                "ndcg@10 > baseline",
                "ndcg@10 is 0.5000, the same as in the baseline on all 2 queries; better is "
                "wanted.",
            ),
            (
                [0.5],
                [0.5],
                "ndcg@10 >= baseline + 0.2",
                "ndcg@10 is 0.5000, the same as in the baseline on all 1 query; at least 0.2 "
                "better is wanted.",
            ),
            (
                [0.6, 0.6],
                [0.5, 0.5],
                "ndcg@10 >= baseline + 0.2",
                "ndcg@10 is 0.6000 against 0.5000, +0.1000 over 2 queries, the same change on "
                "each; at least 0.2 better is wanted.",
            ),
            (
                [math.nan],
                [0.5],
                "ndcg@10 >= baseline",
                "ndcg@10 can't be judged: no query has a value on both sides.",
            ),
        ],
    )
    def test_sentences(self, now, before, rule, sentence):
        assert verdict(now, before, rule).sentence == sentence

    def test_a_value_just_off_the_limit_is_told_from_it(self):
        (one,) = check_rules(scores([0.79999, 0.8]), "ndcg@10 >= 0.8")
        assert one.sentence == "ndcg@10 is 0.799995 over 2 queries; 0.8 or more is wanted."

    def test_json(self):
        report = check_rules(scores([0.25, 0.5]), "ndcg@10 >= 0.5")
        data = json.loads(report.to_json())
        assert data["outcome"] == "fail"
        (one,) = data["verdicts"]
        assert (one["rule"], one["value"], one["n"]) == ("ndcg@10 >= 0.5", 0.375, 2)
        assert one["worst"][0]["query_id"] == "q0000"


NASTY = (
    "<img src=x> | `code` [a](http://x) **b** _c_ @someone #4321 https://x.org www.x.org ~~d~~ \\"
)


class TestMarkdown:
    def rendered(self, text):
        return (
            MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
        )

    def test_what_came_from_data_stays_text(self):
        dataset = RetrievalDataset(queries={"q|<1>": NASTY}, relevance={"q|<1>": ["<b>|x", "a|b"]})
        results = evaluate(lambda query: ["a|b", NASTY], dataset, ["recall@5"], name=NASTY)
        text = check_rules(results, ["recall@5 >= 0.8"]).to_markdown()
        inline = [one for one in self.rendered(text) if one.type == "inline"]
        kinds = {child.type for one in inline for child in one.children or ()}
        assert kinds == {"text"}
        shown = ["".join(child.content for child in one.children or ()) for one in inline]
        assert f"Retrieval gate of {NASTY}: ❌ fail" in shown
        assert {"q|<1>", NASTY, "<b>|x, a|b", f"a|b [1], {NASTY}"} <= set(shown)
        html = {one.content.strip() for one in self.rendered(text) if one.type == "html_block"}
        assert html == {
            "<details><summary>Worst queries by recall&#64;5</summary>",
            "</details>",
        }

    @settings(deadline=None)
    @given(
        st.text() | st.text("ab1 .|`*_[]()<>&#!\\-+=~:;/@'\"{}^$%,?", max_size=25),
        st.sampled_from(["| head |\n| --- |\n| {} |\n", "- {}\n", "### x {}\n"]),
    )
    def test_any_text_stays_text_wherever_it_stands(self, data, line):
        tokens = self.rendered(line.format(escaped(data)))
        found = [one for one in tokens if one.type == "inline"]
        content = "".join(child.content for child in found[-1].children or ()) if found else ""
        assert {child.type for one in found for child in one.children or ()} <= {"text"}
        assert content.strip() == ("x " * ("x" in line) + plain(data)).strip()
        assert not any(one.type in {"ordered_list_open", "html_block"} for one in tokens)

    def test_nothing_is_left_that_github_would_link(self):
        for link in ("@someone", "#4321", "https://", "www.x", "a@b.org"):
            assert link in f"{NASTY} a@b.org"
            assert link not in escaped(f"{NASTY} a@b.org")


class TestNotes:
    def test_an_intersection_says_so(self):
        before = Baseline.of(Scores(["q1", "q2"], {"mrr": [1.0, 0.5]}))
        now = Scores(["q2", "q3", "q4"], {"mrr": [0.5, 0.0, 0.0]})
        report = check_rules(now, "mrr >= baseline", baseline=before, on_missing="intersect")
        assert [one.n for one in report] == [1]
        (note,) = report.notes
        assert note.startswith("rules against the baseline are decided by 1 query")

    def test_another_version_says_so(self):
        baseline = Baseline(scores([1.0]), version="0.0.9")
        report = check_rules(scores([1.0]), "ndcg@10 >= baseline", baseline=baseline)
        assert "stored by version 0.0.9" in report.notes[0]

    def test_queries_left_out_since_they_failed_are_told(self):
        before = scores([1.0, 0.5])
        now = Scores(["q0000"], {"ndcg@10": [1.0]}, excluded={"q0001": "failed"})
        report = check_rules(now, "ndcg@10 >= baseline", baseline=before)
        assert "out of its means (failed)" in report.notes[0]
