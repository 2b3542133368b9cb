"""The gate as a whole: rules, baselines, how much must be measured, and error rates."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.verdicts import scores, verdict_of

from llama_index_rag_metrics import (
    EvaluationResults,
    RetrievalDataset,
    Scores,
    check_rules,
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
    def test_changes_of_few_queries(self) -> None:
        # 4 % of 200 queries lose 0.5: mean -0.02. Without a loss P = 0.96^200 = 0.0003
        outcomes = self.outcomes(lambda rng, n: -0.5 * (rng.random(n) < 0.04), 200)
        assert outcomes.count("pass") <= 21
        assert outcomes.count("fail") <= 21


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
        assert check_rules(again, RULE, baseline=results).outcome == "pass"

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

    def test_file_that_isn_t_there_says_how_to_write_it(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="rag-metrics gate --accept"):
            check_rules(evaluated(), RULE, baseline=tmp_path / "none.json")


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
