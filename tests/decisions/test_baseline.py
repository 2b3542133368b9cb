"""The stored baseline: what the file holds, what it doesn't, and when it is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import (
    Baseline,
    EvaluationResults,
    RetrievalDataset,
    Scores,
    check_rules,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.decisions.gate.checking_rules import update_baseline
from llama_index_rag_metrics.runtime.errors import (
    BaselineMismatch,
    FileFormatError,
    GateFailed,
    InvalidInput,
    UnknownMetric,
)

QUERIES = {"q2": "Where is the kiln?", "q1": "番茄", "q3": "Who?"}


def scores(**options: Any) -> Scores:
    columns = {"ndcg@10": [1 / 3, 1.0], "mrr": [0.5, math.nan]}
    options = {"excluded": {"q3": "no_relevant"}, "queries": QUERIES, "name": "bm25", **options}
    return Scores(["q2", "q1"], columns, **options)


def evaluated(
    relevance: Mapping[str, Any], queries: Mapping[str, str] = QUERIES
) -> EvaluationResults:
    dataset = RetrievalDataset(queries=queries, relevance=relevance)
    return evaluate(lambda query: ["d1", "d2"], dataset, ["recall@5"])


class TestFile:
    def test_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        baseline = Baseline.of(scores(), rules=["ndcg@10 >= baseline - 0.02", "mrr >= 0.4"])
        baseline.save(tmp_path / "new" / "baseline.json")
        again = Baseline.load(tmp_path / "new" / "baseline.json")
        assert again.to_json() == baseline.to_json()
        assert (again.rules, again.version) == (baseline.rules, baseline.version)
        assert again.fingerprints == baseline.fingerprints
        assert again.scores.by_query("ndcg@10") == {"q1": 1.0, "q2": 0.333333333333}
        assert again.scores.by_query("mrr") == {"q2": 0.5}
        assert again.scores.excluded == {"q3": "no_relevant"}

    def test_one_line_a_query_sorted_by_id(self) -> None:
        lines = Baseline.of(scores()).to_json().splitlines()
        rows = [line for line in lines if line.startswith("  ")]
        assert [json.loads(row.split(":")[0]) for row in rows] == ["q1", "q2", "q3"]
        assert '"scores": [0.333333333333, 0.5]}' in rows[1]

    def test_holds_no_texts(self) -> None:
        results = evaluated({"q1": ["d1"], "q2": ["d2"], "q3": ["d9"]})
        text = Baseline.of(results).to_json()
        for secret in (*QUERIES.values(), "d1", "d2", "d9"):
            assert secret not in text

    def test_the_order_of_the_queries_changes_nothing(self) -> None:
        back = Scores(["q1", "q2"], {"ndcg@10": [1.0, 1 / 3], "mrr": [math.nan, 0.5]})
        there = Scores(["q2", "q1"], {"ndcg@10": [1 / 3, 1.0], "mrr": [0.5, math.nan]})
        assert Baseline.of(back).to_json() == Baseline.of(there).to_json()

    def test_some_metrics_only(self) -> None:
        assert Baseline.of(scores(), metrics=["mrr"]).scores.metric_names == ("mrr",)
        with pytest.raises(UnknownMetric):
            Baseline.of(scores(), metrics=["map"])

    def test_a_file_that_was_there_is_replaced_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "baseline.json"
        path.write_text("x" * 10_000)
        Baseline.of(scores()).save(path)
        assert Baseline.load(path).scores.name == "bm25"
        assert [file.name for file in tmp_path.iterdir()] == ["baseline.json"]

    def test_last_bits_lost_in_the_file_are_no_difference(self, tmp_path: Path) -> None:
        path = tmp_path / "baseline.json"
        Baseline.of(scores()).save(path)
        (verdict,) = check_rules(scores(), "ndcg@10 >= baseline as observed", baseline=path)
        assert (verdict.outcome, verdict.difference) == ("pass", 0.0)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", r"baseline.json, line 1: expected JSON"),
            ("[]", "expected a file whose format is"),
            ('{"format": "something else"}', "expected a file whose format is"),
        ],
    )
    def test_another_file_is_refused(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "baseline.json"
        path.write_text(text)
        with pytest.raises(FileFormatError, match=message):
            Baseline.load(path)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b'{"format": "caf\xe9"}', "line 1: expected UTF-8 text"),
            (b"[" * 100_000, "expected JSON"),
            (b'{"format": 1, "format": 2}', "every key once"),
        ],
        ids=["no text", "too deep", "repeated key"],
    )
    def test_what_no_json_can_be_is_refused(
        self, tmp_path: Path, content: bytes, message: str
    ) -> None:
        path = tmp_path / "baseline.json"
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=message):
            Baseline.load(path)

    @pytest.mark.parametrize(
        ("part", "value"),
        [
            ("metrics", ["mrr"]),
            ("metrics", None),
            ("queries", {"q1": {}}),
            ("queries", {"q1": {"scores": ["high", 1]}}),
            ("rules", ["mrr is high"]),
        ],
    )
    def test_a_damaged_file_is_refused(self, tmp_path: Path, part: str, value: Any) -> None:
        path = tmp_path / "baseline.json"
        data = json.loads(Baseline.of(scores()).to_json())
        path.write_text(json.dumps({**data, part: value}))
        with pytest.raises(FileFormatError, match="store a new one"):
            Baseline.load(path)

    def test_ids_that_json_can_t_hold_as_keys_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="Convert it with str"):
            Baseline.of(Scores([1, 2], {"mrr": [1.0, 1.0]}))  # type: ignore[list-item]


class TestOtherQueries:
    LABELS = {"q1": ["d1"], "q2": {"d2": 2, "d1": 1}, "q3": ["d1"]}

    def test_missing_and_new_ones_are_listed(self) -> None:
        baseline = Baseline.of(Scores(["a", "b", "c"], {"mrr": [1, 1, 1]}))
        with pytest.raises(BaselineMismatch) as caught:
            check_rules(Scores(["c", "d"], {"mrr": [1, 1]}), "mrr >= baseline", baseline=baseline)
        assert str(caught.value) == (
            "the baseline has other questions: 2 missing now (a, b); 1 new (d). Store a new "
            "baseline (--update-baseline, or pytest --rag-update-baseline)."
        )

    def test_another_question_under_the_same_id_is_another_query(self) -> None:
        before = evaluated(self.LABELS)
        now = evaluated(self.LABELS, {**QUERIES, "q1": "馬鈴薯"})
        with pytest.raises(BaselineMismatch, match=r"1 with another question \(q1\)"):
            check_rules(now, "recall@5 >= baseline", baseline=before)

    @pytest.mark.parametrize("labels", [{"d2": 1, "d1": 1}, ["d2"], [["d2", "d1"]]])
    def test_other_judgements_make_another_query(self, labels: Any) -> None:
        before, now = evaluated(self.LABELS), evaluated({**self.LABELS, "q2": labels})
        with pytest.raises(BaselineMismatch, match=r"1 with other labels \(q2\)"):
            check_rules(now, "recall@5 >= baseline", baseline=before)

    def test_the_order_of_judgements_makes_no_other_query(self) -> None:
        before = evaluated(self.LABELS)
        now = evaluated({**self.LABELS, "q2": {"d1": 1.0, "d2": 2.0}})
        (verdict,) = check_rules(now, "recall@5 >= baseline", baseline=before)
        assert verdict.outcome == "pass"

    def test_what_one_side_doesn_t_know_isn_t_compared(self) -> None:
        before = evaluated(self.LABELS)
        bare = Scores(["q2", "q1", "q3"], {"recall@5": [1.0, 1.0, 1.0]})
        (verdict,) = check_rules(bare, "recall@5 >= baseline", baseline=before)
        assert verdict.n == 3


class TestUpdates:
    RULE = "mrr >= baseline - 0.1 as observed"

    def test_what_breaks_a_rule_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "baseline.json"
        update_baseline(path, Scores(["q1", "q2"], {"mrr": [1.0, 0.5]}), rules=self.RULE)
        text = path.read_text()
        worse = Scores(["q1", "q2"], {"mrr": [0.5, 0.5]})
        with pytest.raises(GateFailed, match="To store it anyway, delete the file first"):
            update_baseline(path, worse)
        assert path.read_text() == text
        path.unlink()
        update_baseline(path, worse, rules=self.RULE)
        assert Baseline.load(path).scores.by_query("mrr") == {"q1": 0.5, "q2": 0.5}

    def test_rules_stay_with_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "baseline.json"
        update_baseline(path, Scores(["q1"], {"mrr": [0.5]}), rules=self.RULE)
        update_baseline(path, Scores(["q1"], {"mrr": [0.6]}))
        again = Baseline.load(path)
        assert [str(rule) for rule in again.rules] == [self.RULE]
        assert again.scores.by_query("mrr") == {"q1": 0.6}

    def test_of_other_questions_nothing_is_judged(self, tmp_path: Path) -> None:
        path = tmp_path / "baseline.json"
        update_baseline(path, Scores(["q1"], {"mrr": [1.0]}), rules=self.RULE)
        update_baseline(path, Scores(["q1", "q2"], {"mrr": [0.5, 0.5]}))
        assert Baseline.load(path).scores.by_query("mrr") == {"q1": 0.5, "q2": 0.5}

    def test_a_metric_that_is_new_has_nothing_to_be_compared_with_yet(self, tmp_path: Path) -> None:
        path = tmp_path / "baseline.json"
        update_baseline(path, Scores(["q1"], {"mrr": [1.0]}))
        both = Scores(["q1"], {"mrr": [1.0], "ap": [0.5]})
        update_baseline(path, both, rules=["ap >= baseline - 0.1", "mrr >= 0.5"])
        assert Baseline.load(path).scores.metric_names == ("mrr", "ap")


@pytest.mark.parametrize("number", ["1e308", "-1e308", "NaN", "Infinity"])
def test_numbers_that_no_mean_can_have(tmp_path: Path, number: str) -> None:
    text = Baseline.of(Scores(["q1", "q2"], {"dcg": [0.25, 1.0]})).to_json()
    (tmp_path / "b.json").write_text(text.replace("[0.25]", f"[{number}]"))
    with pytest.raises(FileFormatError):
        Baseline.load(tmp_path / "b.json")


def test_questions_that_most_means_leave_out_keep_the_values_that_they_have(tmp_path: Path) -> None:
    """Of 40 questions without an answer 30 get nothing in the baseline, and 10 of them now."""
    path, metrics = tmp_path / "b.json", ["recall", "abstained", "returned"]
    expected = {"q": ["a"], **{f"u{n}": [] for n in range(40)}, "unlabelled": None}
    rankings = [
        {"q": ["a"], **{f"u{n}": ["a"] * (n >= less) for n in range(40)}} for less in (30, 10)
    ]
    before, now = (score_rankings(expected, each, metrics) for each in rankings)
    update_baseline(path, before)
    stored = Baseline.load(path)
    assert stored.to_json() == path.read_text()
    assert {name: stored.scores.by_query(name) for name in metrics} == {
        name: before.by_query(name) for name in metrics
    }
    assert stored.scores.excluded == before.excluded
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
