"""The stored baseline: what the file holds, what it doesn't, and when it is refused."""

from __future__ import annotations

import json
import math

import pytest

from llama_index_rag_metrics import Baseline, RetrievalDataset, Scores, check_rules, evaluate
from llama_index_rag_metrics.errors import (
    BaselineMismatch,
    FileFormatError,
    InvalidInput,
    UnknownMetric,
)

QUERIES = {"q2": "Where is the kiln?", "q1": "番茄", "q3": "Who?"}


def scores(**options) -> Scores:
    columns = {"ndcg@10": [1 / 3, 1.0], "mrr": [0.5, math.nan]}
    given = {"excluded": {"q3": "no_relevant"}, "queries": QUERIES, "name": "bm25", **options}
    return Scores(["q2", "q1"], columns, **given)


def evaluated(relevance, queries=QUERIES):
    dataset = RetrievalDataset(queries=queries, relevance=relevance)
    return evaluate(lambda query: ["d1", "d2"], dataset, ["recall@5"])


class TestFile:
    def test_is_read_as_it_was_written(self, tmp_path):
        baseline = Baseline.of(scores(), rules=["ndcg@10 >= baseline - 0.02", "mrr >= 0.4"])
        baseline.save(tmp_path / "new" / "baseline.json")
        again = Baseline.load(tmp_path / "new" / "baseline.json")
        assert again.to_json() == baseline.to_json()
        assert (again.rules, again.version) == (baseline.rules, baseline.version)
        assert again.fingerprints == baseline.fingerprints
        assert again.scores.by_query("ndcg@10") == {"q1": 1.0, "q2": 0.333333333333}
        assert again.scores.by_query("mrr") == {"q2": 0.5}
        assert again.scores.excluded == {"q3": "no_relevant"}

    def test_one_line_a_query_sorted_by_id(self):
        lines = Baseline.of(scores()).to_json().splitlines()
        rows = [line for line in lines if line.startswith("  ")]
        assert [json.loads(row.split(":")[0]) for row in rows] == ["q1", "q2", "q3"]
        assert '"scores": [0.333333333333, 0.5]}' in rows[1]

    def test_holds_no_texts(self):
        results = evaluated({"q1": ["d1"], "q2": ["d2"], "q3": ["d9"]})
        text = Baseline.of(results).to_json()
        for secret in (*QUERIES.values(), "d1", "d2", "d9"):
            assert secret not in text

    def test_the_order_of_the_queries_changes_nothing(self):
        back = Scores(["q1", "q2"], {"ndcg@10": [1.0, 1 / 3], "mrr": [math.nan, 0.5]})
        there = Scores(["q2", "q1"], {"ndcg@10": [1 / 3, 1.0], "mrr": [0.5, math.nan]})
        assert Baseline.of(back).to_json() == Baseline.of(there).to_json()

    def test_some_metrics_only(self):
        assert Baseline.of(scores(), metrics=["mrr"]).scores.metric_names == ("mrr",)
        with pytest.raises(UnknownMetric):
            Baseline.of(scores(), metrics=["map"])

    def test_a_file_that_was_there_is_replaced_whole(self, tmp_path):
        path = tmp_path / "baseline.json"
        path.write_text("x" * 10_000)
        Baseline.of(scores()).save(path)
        assert Baseline.load(path).scores.name == "bm25"
        assert [one.name for one in tmp_path.iterdir()] == ["baseline.json"]

    def test_last_bits_lost_in_the_file_are_no_difference(self, tmp_path):
        path = tmp_path / "baseline.json"
        Baseline.of(scores()).save(path)
        (one,) = check_rules(scores(), "ndcg@10 >= baseline", baseline=path)
        assert (one.outcome, one.method, one.difference) == ("pass", "constant", 0.0)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", r"baseline.json, line 1: expected JSON"),
            ("[]", "expected a file whose format is"),
            ('{"format": "something else"}', "expected a file whose format is"),
        ],
    )
    def test_another_file_is_refused(self, tmp_path, text, message):
        path = tmp_path / "baseline.json"
        path.write_text(text)
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
    def test_a_damaged_file_is_refused(self, tmp_path, part, value):
        path = tmp_path / "baseline.json"
        data = json.loads(Baseline.of(scores()).to_json())
        path.write_text(json.dumps({**data, part: value}))
        with pytest.raises(FileFormatError, match="store a new one"):
            Baseline.load(path)

    def test_ids_that_json_can_t_hold_as_keys_are_refused(self):
        with pytest.raises(InvalidInput, match="Convert it with str"):
            Baseline.of(Scores([1, 2], {"mrr": [1.0, 1.0]}))  # type: ignore[list-item]


class TestOtherQueries:
    LABELS = {"q1": ["d1"], "q2": {"d2": 2, "d1": 1}, "q3": ["d1"]}

    def test_missing_and_new_ones_are_listed(self):
        baseline = Baseline.of(Scores(["a", "b", "c"], {"mrr": [1, 1, 1]}))
        with pytest.raises(BaselineMismatch) as caught:
            check_rules(Scores(["c", "d"], {"mrr": [1, 1]}), "mrr >= baseline", baseline=baseline)
        assert str(caught.value) == (
            "the baseline is of other queries: 2 missing now (a, b); 1 new (d). Store a new "
            "baseline, or compare the 1 in common (on_missing='intersect')."
        )

    def test_another_question_under_the_same_id_is_another_query(self):
        before = evaluated(self.LABELS)
        now = evaluated(self.LABELS, {**QUERIES, "q1": "馬鈴薯"})
        with pytest.raises(BaselineMismatch, match=r"1 with another question \(q1\)"):
            check_rules(now, "recall@5 >= baseline", baseline=before)

    @pytest.mark.parametrize("labels", [{"d2": 1, "d1": 1}, ["d2"], [["d2", "d1"]]])
    def test_other_judgements_make_another_query(self, labels):
        before, now = evaluated(self.LABELS), evaluated({**self.LABELS, "q2": labels})
        with pytest.raises(BaselineMismatch, match=r"1 with other judgements \(q2\)"):
            check_rules(now, "recall@5 >= baseline", baseline=before)

    def test_the_order_of_judgements_makes_no_other_query(self):
        before = evaluated(self.LABELS)
        now = evaluated({**self.LABELS, "q2": {"d1": 1.0, "d2": 2.0}})
        (one,) = check_rules(now, "recall@5 >= baseline", baseline=before)
        assert one.outcome == "pass"

    def test_what_one_side_doesn_t_know_isn_t_compared(self):
        before = evaluated(self.LABELS)
        bare = Scores(["q2", "q1", "q3"], {"recall@5": [1.0, 1.0, 1.0]})
        (one,) = check_rules(bare, "recall@5 >= baseline", baseline=before)
        assert one.n == 3

    def test_the_others_can_be_compared(self):
        before, now = evaluated(self.LABELS), evaluated({**self.LABELS, "q2": ["d7", "d1"]})
        report = check_rules(now, "recall@5 >= baseline", baseline=before, on_missing="intersect")
        assert [one.n for one in report] == [2]
        assert (
            "2 queries, those that are the same now (3) and in the baseline (3)" in report.notes[0]
        )

    def test_none_in_common_is_refused_in_any_case(self):
        baseline = Baseline.of(Scores(["a"], {"mrr": [1]}))
        with pytest.raises(BaselineMismatch, match=r"Store a new baseline\.$"):
            check_rules(
                Scores(["b"], {"mrr": [1]}),
                "mrr >= baseline",
                baseline=baseline,
                on_missing="intersect",
            )
