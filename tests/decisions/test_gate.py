"""The gate: rules, baselines, error rates, verdicts with derivations, and identical rankings."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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
    score_rankings,
)
from llama_index_rag_metrics.decisions.gate.rules import Rule
from llama_index_rag_metrics.runtime.containers import FloatArray
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput
from llama_index_rag_metrics.scores.scores import json_of

IDS = [f"q{number:04d}" for number in range(100)]

NAN = math.nan


def excluding(n: int, reason: Any, values: list[float], metric: str = "ndcg@10") -> Scores:
    """Scores of some questions; the n after them are left out of the means for this reason."""
    left_out = dict.fromkeys(IDS[len(values) : len(values) + n], reason)
    return Scores(IDS[: len(values)], {metric: values}, excluded=left_out)


@pytest.mark.parametrize(
    ("now", "rule", "outcome", "n", "expected"),
    [
        (scores([]), "ndcg@10 >= 0.1", "fail", 0, 0),
        (scores([]), "ndcg@10 >= 0.1 at 95%", "fail", 0, 0),
        (scores([]), "failed <= 0", "fail", 0, 0),
        (excluding(1, "unjudged", []), "ndcg@10 >= 0.1", "fail", 0, 0),
        # those that failed are missing, those without labels aren't
        (excluding(40, "failed", [0.9] * 60), "ndcg@10 >= 0.1", "fail", 60, 100),
        (excluding(40, "failed", [0.9] * 60), "ndcg@10 >= baseline", "fail", 60, 100),
        (excluding(2, "unjudged", [0.9] * 20), "ndcg@10 >= 0.1", "pass", 20, 20),
        (excluding(2, "no_relevant", [0.9] * 20), "ndcg@10 >= 0.1", "pass", 20, 20),
        # a metric that needs no labels is expected everywhere
        (
            Scores(
                IDS[:20],
                {"similarity": [0.9] * 12 + [NAN] * 8},
                excluded=dict.fromkeys(IDS[10:20], "unjudged"),
            ),
            "similarity >= 0.1",
            *("fail", 12, 20),
        ),
        *(
            (scores([0.9] * present + [NAN] * (100 - present)), rule, outcome, present, 100)
            for present, outcome in [(100, "pass"), (95, "pass"), (94, "fail"), (5, "fail")]
            for rule in (
                *("ndcg@10 >= 0.1", "ndcg@10 >= baseline"),
                "ndcg@10 >= baseline as observed",
            )
        ),
    ],
)
def test_gate_needs_measurements(
    now: Scores, rule: str, outcome: str, n: int, expected: int
) -> None:
    (verdict,) = check_rules(now, rule, baseline=scores([0.2] * 100) if "base" in rule else None)
    assert (verdict.outcome, verdict.n, verdict.expected) == (outcome, n, expected)
    is_judged = "can't be judged" not in verdict.sentence
    assert is_judged == (outcome == "pass")


def test_values_missing_before_count_too() -> None:
    verdict = verdict_of([0.9] * 100, [0.5] * 90 + [NAN] * 10)
    assert (verdict.outcome, verdict.n, verdict.expected) == ("fail", 90, 100)


class TestSeveralRules:
    RULES = [f"m{number} >= baseline - 0.02" for number in range(5)]

    def columns(self, draw: Callable[[int], FloatArray], n: int) -> Scores:
        ids = [f"q{number:04d}" for number in range(n)]
        return Scores(ids, {f"m{number}": draw(n) for number in range(5)})

    def test_rules_fail_each_with_the_confidence_of_all(self) -> None:
        # -0.1 and sd 0.202031 as in test_bounds: t(0.99; 49) = 2.404892, upper -0.0313
        loss = [0.0] * 10 + [0.5] * 40
        ids = [f"q{number:04d}" for number in range(50)]
        rng = np.random.default_rng(1)
        columns = {f"m{number}": rng.uniform(0.3, 0.7, 50) for number in range(1, 5)}
        now = Scores(ids, {"m0": loss, **columns})
        moved = {name: column + rng.normal(0, 0.3, 50) for name, column in columns.items()}
        before = Scores(ids, {"m0": [0.5] * 50, **moved})
        first, *others = check_rules(now, self.RULES, baseline=before)
        assert first.upper == pytest.approx(-0.1 + 2.404892 * 0.0285714, abs=1e-6)
        assert (first.outcome, first.together) == ("fail", 5)
        assert "(at best −0.03 with 99 % confidence)" in first.sentence
        # Holm: what has failed no longer counts
        assert {verdict.together for verdict in others if verdict.outcome != "fail"} == {4}

    def test_numbers_of_a_metric_named_twice_count_once(self) -> None:
        ids = [f"q{number:04d}" for number in range(50)]
        now = Scores(ids, {"m0": [0.0] * 10 + [0.5] * 40, "m1": [0.0] * 10 + [0.5] * 40})
        before = Scores(ids, {"m0": [0.5] * 50, "m1": [0.5] * 50})
        report = check_rules(now, self.RULES[:2], baseline=before)
        assert [(verdict.outcome, verdict.together) for verdict in report] == [("fail", 1)] * 2

    @pytest.mark.slow
    def test_five_rules_at_their_limits_fail_in_one_case_of_twenty(self) -> None:
        rng = np.random.default_rng(5)
        failed = 0
        for _ in range(200):
            before = self.columns(lambda n: rng.uniform(0.4, 0.6, n), 40)
            now = Scores(
                before.query_ids,
                {name: before[name] + rng.normal(-0.02, 0.15, 40) for name in before},
            )
            failed += check_rules(now, self.RULES, baseline=before).outcome == "fail"
        # binomial(200, 0.05) is at most 21 in 99.9 % of cases; without a correction it is about 45
        assert 1 <= failed <= 21


class TestErrorRates:
    """A change exactly at the limit: how often it is taken for a clear case."""

    DATA_SETS = 200

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("draw", "n", "least"),
        [
            # 5 % each: of 200, binomial(0.05) lies between 1 and 21 in 99.9 % of cases
            (lambda rng, n: rng.normal(-0.02, 0.15, n), 40, 1),
            # 4 % of 200 queries lose 0.5: mean -0.02. Without a loss P = 0.96^200 = 0.0003
            (lambda rng, n: -0.5 * (rng.random(n) < 0.04), 200, 0),
        ],
        ids=["dense", "few changes"],
    )
    def test_change_at_the_limit(self, draw: Any, n: int, least: int) -> None:
        rng, before = np.random.default_rng(11), scores([0.5] * n)
        rule = "ndcg@10 >= baseline - 0.02"
        outcomes = [
            check_rules(scores(0.5 + draw(rng, n)), rule, baseline=before).outcome
            for _ in range(self.DATA_SETS)
        ]
        assert least <= outcomes.count("pass") <= 21
        assert least <= outcomes.count("fail") <= 21


class TestRule:
    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("ndcg@10 >= baseline - 0.02", Rule("ndcg@10", ">=", -0.02, True, 0.95)),
            ("ndcg@10>=baseline-.02 at 99 %", Rule("ndcg@10", ">=", -0.02, True, 0.99)),
            ("mrr >= baseline + 1e-3 at 99.9%", Rule("mrr", ">=", 0.001, True, 0.999)),
            ("recall@5 >= 0.8", Rule("recall@5", ">=", 0.8)),
            ("recall@5 >= 0.8 at 90%", Rule("recall@5", ">=", 0.8, confidence=0.9)),
            ("failed <= 0", Rule("failed", "<=", 0.0)),
            ("mrr >= baseline - 0.05 as observed", Rule("mrr", ">=", -0.05, baseline=True)),
            ("mrr >= 0.5 as observed", Rule("mrr", ">=", 0.5)),
            ("embedding_similarity >= -0.1", Rule("embedding_similarity", ">=", -0.1)),
            ("recall(min_grade=2)@5 >= 0.5", Rule("recall(min_grade=2)@5", ">=", 0.5)),
        ],
    )
    def test_rule_is_read_and_written(self, text: str, rule: Rule) -> None:
        assert Rule.parse(text) == rule
        assert Rule.parse(str(rule)) == rule

    @pytest.mark.parametrize(
        "text",
        [
            *("", "ndcg@10", ">= 0.5", "0.02 more than the baseline", "ndcg@10 > 0.5"),
            *("ndcg@10 = 0.5", "ndcg@10 >= nan", "ndcg@10 >= 80%", "ndcg@10 >= 0.5 at 95"),
            *("ndcg@10 >= baseline 0.02", "ndcg@10 >= baseline - 2%", "ndcg@10 >= baselines"),
            "ndcg@10 >= baseline - 0.02 at 95% as observed",
            ["ndcg@10 >= 0.5", "failed <= 0"],
        ],
    )
    def test_what_is_no_rule_is_refused_with_examples(self, text: Any) -> None:
        with pytest.raises(InvalidInput, match=r"For example 'ndcg@10 >= baseline - 0\.02'"):
            Rule.parse(text)

    @pytest.mark.parametrize(
        "rule",
        [
            *("ndcg@10 >= baseline - 2", "ndcg@10 >= baseline - 1 as observed", "ndcg@10 <= 80"),
            *("ndcg@10 >= -5", "ndcg@10 <= baseline + 5"),
        ],
    )
    def test_limit_that_no_score_can_break_is_refused(self, rule: str) -> None:
        with pytest.raises(InvalidInput, match="can be broken: scores are 1 apart at most"):
            check_rules(scores([0.1] * 5), rule, baseline=scores([0.9] * 5))
        in_per_cent = scores([70.0] * 5)
        assert check_rules(in_per_cent, "ndcg@10 >= baseline - 2", baseline=in_per_cent)

    @pytest.mark.parametrize("percent", ["50", "100", "5", "0.95"])
    def test_confidence_that_decides_nothing_is_refused(self, percent: str) -> None:
        with pytest.raises(InvalidInput, match="between 50% and 100%"):
            Rule.parse(f"mrr >= 0.5 at {percent}%")


QUERIES = {"q2": "Where is the kiln?", "q1": "番茄", "q3": "Who?"}

LABELS = {"q1": ["d1"], "q2": {"d2": 2, "d1": 1}, "q3": ["d1"]}

RULE = "recall@5 >= baseline"


def evaluated(
    relevance: Mapping[str, Any] = LABELS, queries: Mapping[str, str] = QUERIES
) -> EvaluationResults:
    dataset = RetrievalDataset(queries=queries, relevance=relevance)
    return evaluate(lambda query: ["d1", "d2"], dataset, ["recall@5"])


DAMAGED = json.dumps({**json.loads(evaluated().to_json()), "scores": {"recall@5": [1.0]}})


class TestFile:
    def test_results_are_read_as_they_were_written(self, tmp_path: Path) -> None:
        results, path = evaluated(), tmp_path / "eval" / "baseline.json"
        results.to_json(path)
        (verdict,) = check_rules(results, RULE, baseline=path)
        assert (verdict.outcome, verdict.identical, verdict.n) == ("pass", True, 3)
        again = Scores.from_json(path)
        assert again == results.scores
        (verdict,) = check_rules(again, RULE, baseline=results)
        assert (verdict.outcome, verdict.identical) == ("pass", True)

    def test_system_of_the_same_name_is_the_baseline_among_several(self, tmp_path: Path) -> None:
        bm25, lsa = Scores(["q"], {"mrr": [0.5]}, name="bm25"), Scores(["q"], {"mrr": [1.0]})
        path, rule = tmp_path / "both.json", "mrr >= baseline as observed"
        path.write_text(json_of([bm25, lsa.replace(name="lsa")]))
        assert check_rules(bm25, rule, baseline=path).verdicts[0].baseline == 0.5
        with pytest.raises(InvalidInput, match="'bm25' or 'lsa'"):
            check_rules(bm25.replace(name="new"), rule, baseline=path)

    @pytest.mark.parametrize(
        "text", ["{", "[]", '{"format": "something else"}', '{"a": 1, "a": 2}', DAMAGED]
    )
    def test_file_of_another_kind_is_refused(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "baseline.json"
        path.write_text(text)
        with pytest.raises(FileFormatError, match=r"baseline\.json"):
            check_rules(evaluated(), RULE, baseline=path)


class TestOtherQueries:
    def test_missing_and_new_ones_are_listed(self) -> None:
        before = Scores(["a", "b", "c"], {"mrr": [1, 1, 1]})
        with pytest.raises(InvalidInput) as caught:
            check_rules(Scores(["c", "d"], {"mrr": [1, 1]}), "mrr >= baseline", baseline=before)
        assert str(caught.value) == (
            "Other questions in these scores than in the baseline: 2 missing (a, b); 1 new (d). "
            "Accept these results: rag-metrics gate --accept, or pytest --rag-accept."
        )

    def test_order_of_labels_makes_no_other_query(self) -> None:
        now = evaluated({**LABELS, "q2": {"d1": 1.0, "d2": 2.0}})
        assert check_rules(now, RULE, baseline=evaluated()).outcome == "pass"

    def test_facts_that_one_side_doesn_t_know_aren_t_compared(self) -> None:
        bare = Scores(["q2", "q1", "q3"], {"recall@5": [1.0, 1.0, 1.0]})
        (verdict,) = check_rules(bare, RULE, baseline=evaluated())
        assert verdict.n == 3


def test_questions_that_most_means_leave_out_keep_the_values_that_they_have(tmp_path: Path) -> None:
    """Of 40 questions without an answer 30 get nothing in the baseline, and 10 of them now."""
    path, metrics = tmp_path / "b.json", ["recall", "abstained", "returned"]
    expected = {"q": ["a"], **{f"u{n}": [] for n in range(40)}, "unlabelled": None}
    rankings = [
        {"q": ["a"], **{f"u{n}": ["a"] * (n >= less) for n in range(40)}} for less in (30, 10)
    ]
    before, now = (score_rankings(expected, each, metrics) for each in rankings)
    before.to_json(path)
    rules = [
        "abstained >= baseline - 0.1",
        "returned <= baseline + 0.1",
        "recall >= baseline as observed",
    ]
    for results, outcomes in ((before, ["pass"] * 3), (now, ["fail", "fail", "pass"])):
        verdicts = check_rules(results, rules, baseline=path).verdicts
        assert [verdict.outcome for verdict in verdicts] == outcomes
        assert [verdict.n for verdict in verdicts] == [40, 40, 1]
    assert verdicts[0].difference == pytest.approx(-0.5)


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
    interval = stats.ttest_1samp([0.0, -4.0] * 20, 0).confidence_interval(0.9)
    assert verdict.upper == pytest.approx(interval.high)
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
        assert "1 of 3 failed (timeout), 1 counted as 0" in report.report().decision[-1].text

    def test_metric_that_the_baseline_lacks(self) -> None:
        before = Scores(["q0000"], {"mrr": [1.0]})
        with pytest.raises(InvalidInput, match="a metric that the baseline has: mrr, got 'ndcg@10"):
            check_rules(scores([1.0]), "ndcg@10 >= baseline", baseline=before)


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
