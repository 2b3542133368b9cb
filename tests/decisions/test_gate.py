"""The gate as a whole: how much must be measured, several rules together, and error rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.verdicts import scores, verdict_of

from llama_index_rag_metrics import Scores, check_rules
from llama_index_rag_metrics.runtime.arrays import FloatArray

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
def test_a_gate_isnt_green_where_too_little_was_measured(
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

    def test_each_fails_with_the_confidence_of_all(self) -> None:
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

    def test_the_same_numbers_count_once(self) -> None:
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

    def outcomes(self, draw: Callable[[np.random.Generator, int], Any], n: int) -> list[str]:
        rng = np.random.default_rng(11)
        rule = "ndcg@10 >= baseline - 0.02"
        reports = [
            check_rules(scores(0.5 + draw(rng, n)), rule, baseline=scores([0.5] * n))
            for _ in range(self.DATA_SETS)
        ]
        return [report.outcome for report in reports]

    @pytest.mark.slow
    def test_dense_differences(self) -> None:
        outcomes = self.outcomes(lambda rng, n: rng.normal(-0.02, 0.15, n), 40)
        # 5 % each: of 200, binomial(0.05) lies between 1 and 21 in 99.9 % of cases
        assert 1 <= outcomes.count("pass") <= 21
        assert 1 <= outcomes.count("fail") <= 21

    @pytest.mark.slow
    def test_few_queries_change(self) -> None:
        # 4 % of 200 queries lose 0.5: mean -0.02. Without a loss P = 0.96^200 = 0.0003
        outcomes = self.outcomes(lambda rng, n: -0.5 * (rng.random(n) < 0.04), 200)
        assert outcomes.count("pass") <= 21
        assert outcomes.count("fail") <= 21
