"""Which queries are compared: those that systems lack, leave out or have no value for."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import Run, Scores, check_rules, compare, score_rankings
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric


class TestMissing:
    @pytest.mark.parametrize(
        ("a", "b", "lacking"),
        [
            ("123", "234", "1 missing (q1); 1 new (q4)."),
            ("123456789", "1", "8 missing (q2, q3, q4, q5, q6 and 3 more)."),
        ],
    )
    def test_different_queries_are_refused_with_the_difference(
        self, a: str, b: str, lacking: str
    ) -> None:
        systems = {
            name: Scores([f"q{digit}" for digit in digits], {"mrr": [1.0] * len(digits)})
            for name, digits in (("a", a), ("b", b))
        }
        with pytest.raises(InvalidInput) as caught:
            compare(systems, "a")
        assert str(caught.value) == (
            f"Other questions in b than in a: {lacking} Evaluate all on the same dataset."
        )

    def test_excluded_queries_are_known_queries(self) -> None:
        a = Scores(["q1", "q2"], {"mrr": [1, 0.5]}, excluded={"q3": "no_relevant"})
        b = Scores(["q1"], {"mrr": [0.5]}, excluded={"q2": "failed", "q3": "no_relevant"})
        comparison = compare({"a": a, "b": b}, "a")
        assert comparison.query_ids == ("q1", "q2")
        assert (comparison["b", "mrr"].n, comparison["b", "mrr"].difference) == (1, -0.5)
        assert comparison.means["a", "mrr"].mean == 0.75

    def test_a_metric_without_a_value_pairs_where_both_have_one(self) -> None:
        a = Scores(["q1", "q2", "q3"], {"s": [1, math.nan, 0.2], "mrr": [1, 1, 0]})
        b = Scores(["q1", "q2", "q3"], {"s": [0.5, 0.1, math.nan], "mrr": [1, 0, 0]})
        comparison = compare({"a": a, "b": b}, "a")
        by_s = comparison["b", "s"]
        assert (by_s.n, by_s.baseline_mean, by_s.mean, by_s.difference) == (1, 1.0, 0.5, -0.5)
        assert comparison["b", "mrr"].n == 3
        assert (comparison.means["a", "s"].n, comparison.means["a", "s"].mean) == (2, 0.6)
        assert comparison.by_query("b", "s") == {"q1": -0.5}

    def test_nothing_scored_at_all(self) -> None:
        nothing = Scores([], {"mrr": []}, excluded={"q1": "unjudged"})
        comparison = compare({"a": nothing, "b": nothing}, "a")
        assert (comparison["b", "mrr"].n, comparison.means["a", "mrr"].n) == (0, 0)
        assert json.loads(comparison.to_json())["queries"] == 0

    def test_metrics_that_one_lacks_are_named(self) -> None:
        a = Scores(["q1", "q2"], {"mrr": [1, 0.5], "ap": [1, 1]})
        b = Scores(["q1", "q2"], {"mrr": [1, 0.5], "err": [1, 1]})
        comparison = compare({"a": a, "b": b}, "a")
        assert comparison.metric_names == ("mrr",)
        assert "not compared, since not every system has them: ap, err" in comparison.notes
        with pytest.raises(UnknownMetric, match="ap"):
            compare({"a": a, "b": b}, "a", metrics=["ap"])


def test_infinite_scores_are_refused() -> None:
    pair = {
        name: Scores(["q1", "q2"], {"dcg": [1.0, score]})
        for name, score in (("a", 2.0), ("b", math.inf))
    }
    with pytest.raises(InvalidInput, match="score of 'q2' by dcg: expected a finite number"):
        compare(pair, "a")


RUN = Run({"q1": ["a", "x"], "q2": ["b", "y"]}, name="bm25")
EXPECTED = {"q1": ["a"], "q2": ["b"]}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_retrieved": 1}, "max_retrieved is None for {}, 1 for {}"),
        ({"judged_only": True}, "judged_only is False for {}, True for {}"),
    ],
)
def test_that_other_passages_count_is_noted(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    """The same rankings, with a hit at rank 1: recall is the same, which proves nothing here."""
    whole, cut = (score_rankings(EXPECTED, RUN, ["recall"], **each) for each in ({}, options))
    cut = Scores.from_json(cut.to_json())
    of_two = said.format("old", "new")
    assert (
        f"not the same passages count: {of_two}" in compare({"old": whole, "new": cut}, "old").notes
    )
    assert not compare({"old": cut, "new": cut}, "old").notes
    rule = "recall >= baseline - 0.01"
    for kept in (whole, cut):
        kept.to_json(tmp_path / "baseline.json")
        report = check_rules(cut, rule, baseline=tmp_path / "baseline.json")
        of_two = said.format("the baseline", "these scores")
        is_noted = f"not the same passages count: {of_two}" in report.notes
        assert (is_noted, report.outcome) == (
            (True, "inconclusive") if kept is whole else (False, "pass")
        )
        assert any("equal scores prove little" in note for note in report.notes) == is_noted
    unknown = check_rules(cut.replace(retrieval=None), rule, baseline=cut)
    assert any("equal scores prove little" in note for note in unknown.notes)
    assert check_rules(cut, rule, baseline=cut).verdicts[0].identical
