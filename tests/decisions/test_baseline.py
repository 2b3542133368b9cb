"""The baseline, a results file: what it has, and when it is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import (
    EvaluationResults,
    RetrievalDataset,
    Scores,
    check_rules,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput
from llama_index_rag_metrics.scores.scores import json_of

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
        assert again.labels == dict(results.scores.labels)
        assert check_rules(again, RULE, baseline=results).outcome == "pass"

    def test_of_several_systems_the_one_of_the_same_name(self, tmp_path: Path) -> None:
        bm25, lsa = Scores(["q"], {"mrr": [0.5]}, name="bm25"), Scores(["q"], {"mrr": [1.0]})
        path, rule = tmp_path / "both.json", "mrr >= baseline as observed"
        path.write_text(json_of([bm25, lsa.replace(name="lsa")]))
        assert check_rules(bm25, rule, baseline=path).verdicts[0].baseline == 0.5
        with pytest.raises(InvalidInput, match="'bm25' or 'lsa'"):
            check_rules(bm25.replace(name="new"), rule, baseline=path)

    @pytest.mark.parametrize(
        "text", ["{", "[]", '{"format": "something else"}', '{"a": 1, "a": 2}', DAMAGED]
    )
    def test_another_file_is_refused(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "baseline.json"
        path.write_text(text)
        with pytest.raises(FileFormatError, match=r"baseline\.json"):
            check_rules(evaluated(), RULE, baseline=path)

    def test_a_file_that_isn_t_there_says_how_to_write_it(self, tmp_path: Path) -> None:
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

    def test_the_order_of_labels_makes_no_other_query(self) -> None:
        now = evaluated({**LABELS, "q2": {"d1": 1.0, "d2": 2.0}})
        assert check_rules(now, RULE, baseline=evaluated()).outcome == "pass"

    def test_what_one_side_doesn_t_know_isn_t_compared(self) -> None:
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
