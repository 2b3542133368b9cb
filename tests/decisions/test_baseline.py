"""The stored baseline: what the file holds, what it doesn't, and when it is refused."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
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
            (
                '{"format": "llama-index-rag-metrics baseline, version 9"}',
                "upgrade this package, or delete the file and store a new one",
            ),
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
            "baseline (--update-baseline, or pytest --rag-update-baseline), or compare the 1 in "
            "common (on_missing='intersect')."
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

    def test_the_others_can_be_compared(self) -> None:
        before, now = evaluated(self.LABELS), evaluated({**self.LABELS, "q2": ["d7", "d1"]})
        report = check_rules(now, "recall@5 >= baseline", baseline=before, on_missing="intersect")
        assert [verdict.n for verdict in report] == [2]
        assert (
            "2 questions, those that are the same now (3) and in the baseline (3)"
            in report.notes[0]
        )

    def test_none_in_common_is_refused_in_any_case(self) -> None:
        baseline = Baseline.of(Scores(["a"], {"mrr": [1]}))
        with pytest.raises(BaselineMismatch, match=r"pytest --rag-update-baseline\)\.$"):
            check_rules(
                Scores(["b"], {"mrr": [1]}),
                "mrr >= baseline",
                baseline=baseline,
                on_missing="intersect",
            )


OLDER = """{
 "format": "llama-index-rag-metrics baseline, version 1",
 "version": "0.1.0",
 "name": "bm25",
 "rules": ["mrr >= baseline - 0.1 at 95%"],
 "metrics": ["mrr"],
 "means": {"mrr": 0.75},
 "queries": {
  "q1": {"question": "73cb3858a6", "scores": [1.0]},
  "q2": {"scores": [0.5]},
  "q3": {"excluded": "no_relevant"}
 }
}
"""


class TestOlderFiles:
    def test_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "baseline.json"
        path.write_text(OLDER)
        baseline = Baseline.load(path)
        assert baseline.scores.by_query("mrr") == {"q1": 1.0, "q2": 0.5}
        assert baseline.fingerprints["q1"].question == "73cb3858a6"
        assert (baseline.anchor, baseline.history) == (None, ())

    def test_become_the_anchor_of_the_next(self, tmp_path: Path) -> None:
        path = tmp_path / "baseline.json"
        path.write_text(OLDER)
        now = Scores(["q1", "q2"], {"mrr": [1.0, 0.6]}, excluded={"q3": "no_relevant"})
        update_baseline(path, now)
        again = Baseline.load(path)
        assert again.scores.by_query("mrr") == {"q1": 1.0, "q2": 0.6}
        assert again.anchor is not None
        assert again.anchor.scores.by_query("mrr") == {"q1": 1.0, "q2": 0.5}
        assert [str(rule) for rule in again.rules] == ["mrr >= baseline - 0.1 at 95%"]


class TestDrift:
    """Many small losses add up against the anchor, which no update moves."""

    RULE = "mrr >= baseline - 0.02"
    N = 200

    def after(self, step: int) -> Scores:
        """Every query lost 0.01 in each step, give or take what a change usually moves."""
        noise = np.random.default_rng(step).normal(0, 0.02, self.N) if step else 0.0
        values = np.full(self.N, 0.8 - 0.01 * step) + noise
        return Scores([f"q{n:03d}" for n in range(self.N)], {"mrr": values})

    def stored(self, tmp_path: Path, steps: int, **options: Any) -> Path:
        path = tmp_path / "baseline.json"
        for step in range(steps + 1):
            update_baseline(path, self.after(step), rules=self.RULE, **options)
        return path

    def test_small_losses_end_at_the_anchor(self, tmp_path: Path) -> None:
        path = self.stored(tmp_path, 1)
        refused = 0
        for step in range(2, 21):
            try:
                update_baseline(path, self.after(step))
            except GateFailed:
                refused = step
                break
        # each step is tolerable: 0.01 of 0.02; after the third the loss is more than that
        assert refused == 3
        rolling, anchor = check_rules(self.after(3), self.RULE, baseline=path)
        assert (rolling.rule.anchor, rolling.outcome) == (False, "pass")
        assert (anchor.rule.anchor, anchor.outcome) == (True, "fail")
        # three steps of -0.01, and the mean of 200 draws of 0.02: give or take 0.0014
        assert anchor.difference == pytest.approx(-0.03, abs=0.005)
        assert "in the anchor" in anchor.sentence

    def test_an_anchor_rule_of_its_own_takes_the_place_of_the_usual_one(
        self, tmp_path: Path
    ) -> None:
        path = self.stored(tmp_path, 2)
        rules = [self.RULE, "mrr >= anchor - 0.1"]
        report = check_rules(self.after(3), rules, baseline=path)
        assert [str(verdict.rule) for verdict in report] == [f"{rule} at 95%" for rule in rules]
        assert report.outcome == "pass"

    def test_before_the_first_update_the_baseline_is_its_own_anchor(self, tmp_path: Path) -> None:
        path = self.stored(tmp_path, 0)
        assert Baseline.load(path).anchor is None
        report = check_rules(self.after(1), [self.RULE, "mrr >= anchor - 0.1"], baseline=path)
        assert [verdict.baseline for verdict in report] == pytest.approx([0.8, 0.8])

    def test_a_refused_update_leaves_the_file_alone(self, tmp_path: Path) -> None:
        path = self.stored(tmp_path, 0)
        before = path.read_bytes()
        with pytest.raises(GateFailed, match="stays as it was, since a rule is broken"):
            update_baseline(path, self.after(10))
        assert path.read_bytes() == before
        update_baseline(path, self.after(10), force=True)
        assert [update.forced for update in Baseline.load(path).history] == [False, True]

    def test_values_that_went_missing_are_no_baseline(self, tmp_path: Path) -> None:
        path = self.stored(tmp_path, 0)
        few = Scores(self.after(0).query_ids, {"mrr": [0.8] * 20 + [math.nan] * 180})
        with pytest.raises(GateFailed, match="Only 20 of 200 questions have a value"):
            update_baseline(path, few)

    def test_the_history_tells_of_every_update(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for variable in ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "GIT_COMMIT"):
            monkeypatch.delenv(variable, raising=False)
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
        for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
            subprocess.run([*git, *arguments], cwd=tmp_path, check=True)
        path = self.stored(tmp_path, 1)
        monkeypatch.setenv("GITHUB_SHA", "0123456789abcdef")
        update_baseline(path, self.after(2))
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout
        history = Baseline.load(path).history
        assert [update.commit for update in history] == [head[:12], head[:12], "0123456789ab"]
        assert [update.means["mrr"] for update in history] == pytest.approx(
            [0.8, 0.79, 0.78], abs=0.005
        )
        today = datetime.now(timezone.utc).date()
        assert today - date.fromisoformat(history[-1].date) <= timedelta(days=1)

    def test_storing_the_same_twice_is_one_update(self, tmp_path: Path) -> None:
        path = self.stored(tmp_path, 0)
        update_baseline(path, self.after(0))
        assert len(Baseline.load(path).history) == 1

    def test_a_metric_that_is_new_has_nothing_to_be_compared_with_yet(self, tmp_path: Path) -> None:
        path = self.stored(tmp_path, 1)
        now = self.after(2)
        both = Scores(now.query_ids, {"mrr": now["mrr"], "recall@5": [0.5] * self.N})
        rules = [self.RULE, "recall@5 >= baseline - 0.02 as observed"]
        update_baseline(path, both, rules=rules)
        report = check_rules(both, rules, baseline=path)
        assert [verdict.metric for verdict in report] == ["mrr", "mrr", "recall@5"]
        assert any("the anchor has no scores on recall@5" in note for note in report.notes)

    def test_other_queries_need_a_new_anchor(self, tmp_path: Path) -> None:
        path = self.stored(tmp_path, 1)
        others = Scores([f"x{n}" for n in range(self.N)], {"mrr": [0.5] * self.N})
        with pytest.raises(InvalidInput, match=r"only 0 of 200 questions are.*new_anchor=True"):
            update_baseline(path, others)
        update_baseline(path, others, new_anchor=True)
        again = Baseline.load(path)
        assert (again.anchor, len(again.history)) == (None, 3)

    def test_queries_that_join_leave_the_anchor_useful(self, tmp_path: Path) -> None:
        path = self.stored(tmp_path, 0)
        now = self.after(0)
        more = Scores(
            [*now.query_ids, *(f"x{n}" for n in range(50))], {"mrr": [*now["mrr"], *[0.5] * 50]}
        )
        update_baseline(path, more)
        (_, anchor) = check_rules(more, self.RULE, baseline=path)
        assert (anchor.n, anchor.expected) == (self.N, self.N)


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
