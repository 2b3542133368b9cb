"""score_rankings: shapes, what the means leave out, and what an adversary passes in."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from llama_index.core.evaluation.retrieval.metrics import HitRate as CoreHitRate
from llama_index.core.schema import NodeWithScore, TextNode
from support.strategies import plain_metrics

from llama_index_rag_metrics import (
    ERR,
    NDCG,
    Accuracy,
    FScore,
    Judged,
    Precision,
    Ranking,
    RankingMetric,
    Recall,
    Relevance,
    Run,
    metric,
    score_rankings,
)
from llama_index_rag_metrics.metrics.metric_names import metrics
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.runtime.errors import InvalidInput

each_metric = pytest.mark.parametrize("metric", plain_metrics(), ids=str)


class TestShapes:
    def test_sequences_and_mappings_give_the_same_scores(self) -> None:
        listed = score_rankings([["a"], ["b"]], [["a"], ["x", "b"]], "mrr")
        mapped = score_rankings({"0": ["a"], "1": ["b"]}, {"1": ["x", "b"], "0": ["a"]}, "mrr")
        assert listed == mapped
        assert listed.query_ids == ("0", "1")

    def test_judged_query_without_a_ranking_is_an_empty_ranking(self) -> None:
        scores = score_rankings({"q1": ["a"], "q2": ["b"]}, {"q1": ["a"]}, "mrr")
        assert scores.by_query("mrr") == {"q1": 1.0, "q2": 0.0}
        assert scores.empty == ("q2",)

    def test_ranking_without_relevance_is_unjudged(self) -> None:
        scores = score_rankings({"q1": ["a"]}, {"q1": ["a"], "q2": ["b"]}, "mrr")
        assert scores.query_ids == ("q1",)
        assert scores.excluded == {"q2": "unjudged"}

    def test_run_gives_its_name_and_its_failures(self) -> None:
        run = Run({"q1": ["a"], "q2": Ranking(error="timeout")}, name="bm25")
        scores = score_rankings({"q1": ["a"], "q2": ["b"]}, run, "mrr")
        assert scores.name == "bm25"
        assert scores.failed == {"q2": "timeout"}
        assert scores.empty == ()
        assert scores.means["mrr"] == 0.5

    def test_rankings_in_a_sequence(self) -> None:
        rankings = [Ranking(["a"]), Ranking(error="timeout"), ["c"]]
        scores = score_rankings([["a"], ["b"], ["c"]], rankings, "mrr")  # type: ignore[arg-type]
        assert scores.failed == {"1": "timeout"}
        assert scores["mrr"].tolist() == [1, 0, 1]

    @pytest.mark.parametrize(
        "ranking",
        [["x", "a"], ("x", "a"), np.array(["x", "a"])],
        ids=lambda ranking: type(ranking).__name__,
    )
    def test_rankings_of_any_ordered_kind(self, ranking: Any) -> None:
        assert score_rankings([["a"]], [ranking], "mrr")["mrr"].tolist() == [0.5]
        assert metric("mrr").compute("", ["a"], ranking).score == 0.5

    def test_generators(self) -> None:
        def relevance() -> Any:
            return (item for item in ["a", "b"])

        def ranking() -> Any:
            return (item for item in ["x", "a"])

        assert score_rankings([relevance()], [ranking()], ["mrr", "recall"]).per_query == {
            "0": {"mrr": 0.5, "recall": 0.5}
        }
        assert metric("recall").compute("", relevance(), ranking()).score == 0.5

    def test_generator_of_other_ids_is_still_compared_by_type(self) -> None:
        with pytest.raises(InvalidInput):
            score_rankings([(item for item in ["1"])], [(item for item in [1])], "mrr")  # type: ignore[list-item]

    def test_lists_of_lists_are_groups(self) -> None:
        # the first of two groups; ungrouped it would be 2 of 3
        batch = score_rankings([[["a", "b"], ["c"]], ["a"]], [["b", "a"], ["a"]], "group_recall")
        assert batch["group_recall"].tolist() == [0.5, 1]

    def test_metrics_by_name_and_ready_made(self) -> None:
        scores = score_rankings([["a"]], [["a"]], ["mrr", Precision(k=2)])
        assert dict(scores.means) == {"mrr": 1, "precision@2": 0.5}

    def test_metadata_and_queries_are_kept_for_reports(self) -> None:
        about: Any = {"queries": {"q1": "first?"}, "metadata": {"q1": {"lang": "ko"}}}
        run = Run({"q1": ["a"], "q2": ["x"]}, **about)
        scores = score_rankings({"q1": ["a"], "q2": ["b"]}, run, "mrr", name="dense")
        assert scores.queries == {"q1": "first?"}
        assert scores.slices("lang")["ko"].means["mrr"] == 1
        assert scores.name == "dense"

    def test_metrics_of_texts_have_no_place_here(self) -> None:
        with pytest.raises(InvalidInput, match="metrics: expected metrics of rankings"):
            score_rankings([["a"]], [["a"]], CoreHitRate())


class TestWhatTheMeansLeaveOut:
    EXPECTED = {"good": ["a"], "nothing": {"a": 0, "b": -1}, "empty list": [], "unjudged": None}
    RETRIEVED = {"good": ["a"], "nothing": ["a"], "empty list": ["a"], "unjudged": ["a"]}

    def test_queries_with_nothing_relevant_by_default(self) -> None:
        scores = score_rankings(self.EXPECTED, self.RETRIEVED, "mrr")
        assert scores.query_ids == ("good",)
        assert scores.excluded == {
            "nothing": "no_relevant",
            "empty list": "no_relevant",
            "unjudged": "unjudged",
        }
        assert (scores.counts.no_relevant, scores.counts.unjudged) == (2, 1)
        assert scores.means["mrr"] == 1

    def test_queries_with_nothing_relevant_as_zero(self) -> None:
        scores = score_rankings(self.EXPECTED, self.RETRIEVED, "mrr", no_relevant="zero")
        assert scores.by_query("mrr") == {"good": 1, "nothing": 0, "empty list": 0}
        assert scores.no_relevant == ("nothing", "empty list")
        assert (scores.counts.no_relevant, scores.counts.scored) == (2, 3)

    def test_queries_with_nothing_relevant_as_an_error(self) -> None:
        with pytest.raises(InvalidInput, match="relevance of question 'nothing'"):
            score_rankings(self.EXPECTED, self.RETRIEVED, "mrr", no_relevant="error")

    def test_unjudged_is_no_error(self) -> None:
        scores = score_rankings([None, ["a"]], [["a"], ["a"]], "mrr", no_relevant="error")
        assert scores.counts.unjudged == 1

    def test_failed_query_counts_as_zero_unless_excluded(self) -> None:
        run = Run({"q1": ["a"], "q2": Ranking(error="timeout")})
        expected = {"q1": ["a"], "q2": ["b"]}
        assert score_rankings(expected, run, "mrr").means["mrr"] == 0.5
        without = score_rankings(expected, run, "mrr", failed="exclude")
        assert without.means["mrr"] == 1
        assert without.excluded == {"q2": "failed"}
        assert without.counts.failed == 1

    def test_query_with_grades_below_min_grade_scores_zero_with_a_note(self) -> None:
        names = ["precision(min_grade=2)@1", "precision@1"]
        scores = score_rankings([{"a": 1}, {"b": 2}], [["a"], ["b"]], names)
        assert scores["precision(min_grade=2)@1"].tolist() == [0, 1]
        assert scores["precision@1"].tolist() == [1, 1]
        assert scores.notes == (
            "Below min_grade=2: 1 of 2 labels with a positive grade, which metrics of that "
            "min_grade don't count as relevant",
        )

    def test_query_with_nothing_relevant_has_no_note_on_min_grade(self) -> None:
        scores = score_rankings([{"a": 0}, {"a": 1}], [["a"], ["a"]], "mrr", no_relevant="zero")
        assert scores["mrr"].tolist() == [0, 1]
        assert scores.notes == ()

    def test_metrics_share_one_denominator(self) -> None:
        scores = score_rankings(self.EXPECTED, self.RETRIEVED, plain_metrics())
        assert {scores.n(name) for name in scores} == {1}


class TestBatchesOfNothing:
    @each_metric
    def test_queries_of_none(self, metric: RankingMetric) -> None:
        scores = score_rankings([], [], metric)
        assert scores[metric.metric_name].tolist() == []
        assert scores.counts.queries == 0

    @each_metric
    def test_labels_of_none(self, metric: RankingMetric) -> None:
        scores = score_rankings([None, None], [["a"], []], metric)
        assert (scores.counts.unjudged, scores.counts.scored) == (2, 0)
        assert math.isnan(scores.means[metric.metric_name])

    @each_metric
    def test_rankings_of_none(self, metric: RankingMetric) -> None:
        scores = score_rankings([["a"], {"b": 2}], [[], []], metric)
        # accuracy: all but one of a million items are rightly left alone
        expected = 1 - 1e-6 if isinstance(metric, Accuracy) else 0.0
        assert scores[metric.metric_name].tolist() == [expected, expected]
        assert metric.compute("", ["a"], []).score == expected
        assert scores.counts.empty == 2

    @each_metric
    def test_hits_of_none(self, metric: RankingMetric) -> None:
        # accuracy: three of a million items are on the wrong side, one at 5 as well
        expected = pytest.approx(1 - 3e-6) if isinstance(metric, Accuracy) else 0.0
        scores = score_rankings([["a"]], [["x", "y"]], metric)
        assert scores[metric.metric_name].tolist() == [expected]


class TestIds:
    @pytest.mark.parametrize(
        ("expected", "retrieved"),
        [
            (["1"], [1]),
            ([1], ["1"]),
            ({1: 2.0}, ["1", "2"]),
            ([["1"], ["2"]], [1, 2]),
            (["1", 2], ["1", "2"]),
            ([2, "1"], ["1", "2"]),
            ([("1", "2")[0], b"2"], ["1", "2"]),
            (["1"], [None.__class__]),
        ],
    )
    def test_ids_of_different_types_raise(self, expected: Any, retrieved: Any) -> None:
        with pytest.raises(InvalidInput):
            Recall().compute("", expected, retrieved)
        with pytest.raises(InvalidInput):
            score_rankings([["a"], expected], [["a"], retrieved], "recall")

    @pytest.mark.parametrize(
        ("expected", "retrieved"),
        [([1, 2], ["1", "2"]), (["1", "2"], [1, 2]), ([1, "x"], ["1", "x"])],
    )
    def test_query_ids_of_different_types_raise(self, expected: Any, retrieved: Any) -> None:
        got = f"query ids of the type of .* such as {expected[0]!r}, got {retrieved[0]!r}"
        with pytest.raises(InvalidInput, match=got):
            score_rankings(
                {query_id: ["a"] for query_id in expected},
                {query_id: ["a"] for query_id in retrieved},
                "recall",
            )

    @pytest.mark.parametrize(
        ("expected", "retrieved"),
        [([1], np.array([2])), (["1"], np.array(["2"])), ([1], [1.0]), ([1, "x"], [1]), ([], [1])],
    )
    def test_query_ids_that_could_match_are_taken(self, expected: Any, retrieved: Any) -> None:
        judged = {query_id: ["a"] for query_id in expected}
        rankings = {query_id: ["a"] for query_id in retrieved}
        assert score_rankings(judged, rankings, "recall").counts.scored == len(expected)

    def test_types_may_differ_between_queries(self) -> None:
        scores = score_rankings([[1], ["1"]], [[1], ["1"]], "recall")  # type: ignore[list-item]
        assert scores["recall"].tolist() == [1, 1]

    def test_judgements_of_mixed_types_raise_even_where_all_are_found(self) -> None:
        for expected in ([1, "a"], ["a", 1], {"a": 1, 1: 2}, [("a", 1, "b")]):
            with pytest.raises(InvalidInput):
                score_rankings([expected], [["a", 1]], "recall")  # type: ignore[list-item]

    def test_numpy_ids_match_plain_ones(self) -> None:
        assert Recall().compute("", ["a", "b"], np.array(["b"])).score == 0.5  # type: ignore[arg-type]
        assert Recall().compute("", [1, 2], np.array([2])).score == 0.5  # type: ignore[arg-type, list-item]
        assert Recall().compute("", np.array([1, 2]), [3]).score == 0  # type: ignore[list-item]

    def test_ids_compare_exactly(self) -> None:
        assert Recall().compute("", ["é", "A", "a ", "b"], ["e\u0301", "a", "a", "b"]).score == 0.25

    @pytest.mark.parametrize(
        ("call", "question"),
        [
            (lambda e, r: Recall().compute("", e, r), ""),
            (lambda e, r: score_rankings([e], [r], "recall"), " of question '0'"),
        ],
    )
    @pytest.mark.parametrize(
        ("expected", "retrieved", "words"),
        [
            (["a", None], ["a"], "expected_ids: expected an id, got None"),
            (["a", None], ["b"], "expected_ids: expected an id, got None"),
            ([None, "a"], ["a"], "expected_ids: expected an id, got None"),
            (["a", ["b"]], ["a"], r"expected_ids: expected an id, got \['b'\]"),
            (["a"], ["a", None], "retrieved_ids, rank 2: expected an id that isn't empty"),
            (["a"], ["", "a"], "retrieved_ids, rank 1: expected an id that isn't empty"),
            (["a", ""], ["a"], "expected_ids: expected an id, got ''"),
            (["a"], [["a"]], "retrieved_ids: expected a list of ids"),
            (["a"], np.array([["a"]]), "retrieved_ids: expected a list of ids"),
            (["a"], "a", r"retrieved_ids: .* Write one id as \['id'\]"),
            (["a"], b"a", "retrieved_ids: expected a list of ids, best first"),
            (["a"], {"a": 1.0}, "retrieved_ids: expected a list of ids, best first"),
            (["a"], {"a"}, "retrieved_ids: expected a list of ids, best first"),
            (["a"], 5, "retrieved_ids: expected a list of ids, best first"),
            ("a", ["a"], r"expected_ids: expected a list of ids or .* Write one id as \['id'\]"),
            ([TextNode(id_="a")], ["a"], "expected_ids: expected an id, .* node.node_id of"),
            (["a"], [TextNode(id_="a")], "retrieved_ids: expected a list .* is node.node_id"),
            (["a"], [NodeWithScore(node=TextNode(id_="a"))], "node.node_id"),
        ],
    )
    def test_value_that_is_no_list_of_ids(
        self, call: Any, question: str, expected: Any, retrieved: Any, words: str
    ) -> None:
        with pytest.raises(InvalidInput, match=words.replace(":", f"{question}:", 1)):
            call(expected, retrieved)

    def test_lists_of_one_query_differ_from_lists_of_lists(self) -> None:
        with pytest.raises(InvalidInput, match=r"expected has, 1, got 2\. Even for one question"):
            score_rankings(["a"], ["a", "b"], "recall")
        with pytest.raises(InvalidInput, match=r"retrieved: expected as many .* has, 1, got 2"):
            score_rankings([["a"]], [["a"], ["b"]], "recall")

    def test_columns_of_pandas(self) -> None:
        pd = pytest.importorskip("pandas", reason="the extra pandas")
        expected = pd.Series([["a"], ["b"]], index=["q1", "q2"])
        retrieved = pd.Series([["a"], ["x", "b"]], index=["q1", "q2"])
        scores = score_rankings(expected, retrieved, "mrr")
        assert (scores.means["mrr"], scores.name) == (0.75, "")
        assert "0.75" in str(scores)
        with pytest.raises(InvalidInput, match=r"rows labelled like those of expected"):
            score_rankings(expected, retrieved[::-1], "mrr")
        with pytest.raises(InvalidInput, match="as many rankings as expected has, 2"):
            score_rankings(expected, retrieved[:1], "mrr")

    def test_judging_remembers_queries_by_value(self) -> None:
        expected, retrieved = ["a"], ["x", "a"]
        assert metric("mrr").compute("", expected, retrieved).score == 0.5
        retrieved.reverse()
        assert metric("mrr").compute("", expected, retrieved).score == 1
        expected[0] = "x"
        assert metric("mrr").compute("", expected, retrieved).score == 0.5
        assert metric("mrr").compute("", {"x": 0, "a": 1}, retrieved).score == 1  # type: ignore[arg-type]
        assert metric("group_mrr").compute("", [["a", "x"]], retrieved).score == 1  # type: ignore[list-item]


class TestGrades:
    def test_negative_grades_have_no_gain_and_no_place_in_the_ideal(self) -> None:
        # 2/log2(3) over 2
        grades = {"a": 2, "b": -3}
        score = pytest.approx(2 / np.log2(3) / 2, abs=1e-12)
        assert NDCG(k=5).compute("", grades, ["b", "a"]).score == score
        assert NDCG().compute("", grades, ["b", "a"]).score == score
        assert NDCG(ideal="all").compute("", grades, ["b", "a"]).score == score

    def test_err_takes_the_top_grade_and_no_higher(self) -> None:
        # (2^4 - 1) / 2^4
        assert ERR().compute("", {"a": 4}, ["a"]).score == 15 / 16
        with pytest.raises(InvalidInput, match=r"at most 4, got 4\.5"):
            ERR().compute("", {"a": 1, "b": 4.5}, ["a"])
        # (2^4.5 - 1) / 2^5
        expected = pytest.approx((2**4.5 - 1) / 32, abs=1e-12)
        assert ERR(max_grade=5).compute("", {"b": 4.5}, ["b"]).score == expected

    @pytest.mark.parametrize("name", ["dcg(mode=exponential)", "ndcg(mode=exponential)@1"])
    def test_exponential_gains_take_grades_up_to_64(self, name: str) -> None:
        top = score_rankings([{"a": 64, "b": 63}], [["a"]], name)[name][0]
        # 2^64 - 1 is 2^64 in a float
        assert top == (1 if name.startswith("n") else 2.0**64)
        for retrieved in (["a"], ["x"]):
            with pytest.raises(InvalidInput, match=r"grade: expected at most 64, got 65\.0"):
                score_rankings([{"a": 65}], [retrieved], name)

    def test_largest_grades_stay_finite(self) -> None:
        grades = {f"d{n}": 1e300 for n in range(1000)}
        scores = score_rankings([grades], [list(grades)], ["dcg", "ndcg", "ndcg@10"])
        assert scores.means["dcg"] < np.inf
        assert (scores.means["ndcg"], scores.means["ndcg@10"]) == (1, 1)

    @pytest.mark.parametrize("beta", [1e-200, 1e-3, 1e3])
    def test_f_goes_from_precision_to_recall(self, beta: float) -> None:
        # P 1, R 1/4: a small beta says P, a large one R
        score = FScore(beta=beta).compute("", ["a", "b", "c", "d"], ["a"]).score
        assert score == pytest.approx(1 if beta < 1 else 0.25, abs=1e-5)

    def test_bpref_counts_no_more_non_relevant_items_than_there_are_relevant_ones(self) -> None:
        # R = 2, N = 3: a has none above it, b has 3, of which 2 count: ((1 - 0) + (1 - 2/2)) / 2
        grades = {"a": 1, "b": 1, "n1": 0, "n2": 0, "n3": 0}
        assert metric("bpref").compute("", grades, ["a", "n1", "n2", "n3", "b"]).score == 0.5  # type: ignore[arg-type]

    def test_judged_needs_no_relevance(self) -> None:
        # 0 is a judgement, a negative grade is none: 1 of 3
        assert Judged().compute("", {"a": 0, "b": -1}, ["a", "b", "c"]).score == 1 / 3
        assert Judged().compute("", None, ["a"]).score == 0
        assert Judged().compute("", [], ["a"]).score == 0

    def test_corpus_holds_at_least_what_was_seen(self) -> None:
        # a and b are judged, x is retrieved: three, whatever the cutoff
        for k in (None, 1):
            with pytest.raises(InvalidInput, match="corpus_size: expected at least 3"):
                Accuracy(corpus_size=2, k=k).compute("", {"a": 1, "b": 0}, ["a", "x"])
        assert Accuracy(corpus_size=3).compute("", {"a": 1, "b": 0}, ["a", "x"]).score == 2 / 3


def test_huge_ranking() -> None:
    # hits at 1 and at a million, of R = 2, and at 500,000 among more than the few looked up by one
    ids = [str(n) for n in range(10**6)]
    scores = score_rankings([[ids[0], ids[-1]]], [ids], ["mrr", "ap", "granular_mrr", "recall"])
    assert scores.per_query["0"] == {
        "mrr": 1,
        "ap": pytest.approx((1 + 2e-6) / 2, abs=1e-12),
        "granular_mrr": pytest.approx((1 + 1e-6) / 2, abs=1e-12),
        "recall": 1,
    }
    many = judge([ids[499_999:500_009]], [ids])
    assert many.item_rank.tolist() == list(range(500_000, 500_010))


@pytest.mark.parametrize("n_hits", range(8))
def test_hits_few_or_many_are_found_alike(n_hits: int) -> None:
    ranking = [f"d{position}" for position in range(10)]
    for hits in itertools.combinations(range(10), n_hits):
        judged = judge([[ranking[position] for position in reversed(hits)]], [ranking])
        assert judged.item_rank.tolist() == [position + 1 for position in hits]


def test_query_that_is_repeated_scores_the_same_each_time() -> None:
    scores = score_rankings(
        [Relevance({"a": 3, "b": 1})] * 1000, [["b", "x", "a"]] * 1000, plain_metrics()
    )
    for name in scores:
        assert len(set(scores[name].tolist())) == 1


def test_metrics_are_asked_in_the_order_given() -> None:
    names = ["ndcg@10", "mrr", "f1@5", "hit_rate"]
    assert score_rankings([["a"]], [["a"]], metrics(names)).metric_names == tuple(names)
