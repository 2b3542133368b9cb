"""Which queries are compared: those that systems lack, leave out or have no value for."""

from __future__ import annotations

import json
import math

import pytest

from llama_index_rag_metrics import Scores, compare
from llama_index_rag_metrics.runtime.errors import InvalidInput


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
        assert comparison.paired.query_ids == ("q1", "q2")
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
        assert [row["n"] for row in json.loads(comparison.to_json())] == [0]

    def test_metrics_that_one_lacks_are_named(self) -> None:
        a = Scores(["q1", "q2"], {"mrr": [1, 0.5], "ap": [1, 1]})
        b = Scores(["q1", "q2"], {"mrr": [1, 0.5], "err": [1, 1]})
        comparison = compare({"a": a, "b": b}, "a")
        assert comparison.metric_names == ("mrr",)
        with pytest.raises(InvalidInput, match="'ap'"):
            compare({"a": a, "b": b}, "a", metrics=["ap"])


def test_infinite_scores_are_refused() -> None:
    pair = {
        name: Scores(["q1", "q2"], {"dcg": [1.0, score]})
        for name, score in (("a", 2.0), ("b", math.inf))
    }
    with pytest.raises(InvalidInput, match="scores by dcg: expected finite numbers"):
        compare(pair, "a")
