"""Groups as expected items: whichever alternative is retrieved, it stands for its need, once."""

from __future__ import annotations

import pytest

from llama_index_rag_metrics import GroupMatcher, Relevance, RetrievalDataset, evaluate, metric
from llama_index_rag_metrics.rankings.matching.id_matcher import expected_groups
from llama_index_rag_metrics.runtime.errors import InvalidInput, NoRetrieval, NotJudged


def scores(relevance: Relevance, retrieved: list[str], *names: str) -> list[float]:
    dataset = RetrievalDataset({"q": "?"}, {"q": relevance})
    results = evaluate(lambda _: retrieved, dataset, list(names), matcher="group")
    return [results.scores.means[name] for name in names]


class TestEvaluation:
    def test_the_second_alternative_is_a_repetition(self) -> None:
        # x, then (a or b), then its repetition, which goes, then c: hits at 2 and 3, of two needs
        relevance = Relevance.groups([["a", "b"], ["c"]])

        values = scores(relevance, ["x", "b", "a", "c"], "recall", "ap", "mrr", "precision")

        assert values == [1.0, (1 / 2 + 2 / 3) / 2, 1 / 2, 2 / 3]

    def test_an_item_of_several_groups_stands_for_each(self) -> None:
        # n meets two needs, on ranks 1 and 2, of three; the third is never met
        relevance = Relevance.groups([["n"], ["n", "m"], ["o"]])

        assert scores(relevance, ["n", "m", "x"], "recall", "precision@2", "ap") == [
            2 / 3, 1.0, (1 / 1 + 2 / 2) / 3,
        ]  # fmt: skip

    def test_a_groups_grade_is_the_lowest_of_its_ids(self) -> None:
        # needs of grade 1 (n2 alone is 3, n1 1) and 3; n2 stands for both, the better first
        relevance = Relevance.groups([["n1", "n2"], ["n2"]], {"n1": 1, "n2": 3})

        assert expected_groups(relevance).relevance == Relevance.groups(
            [["n1 or n2"], ["n2"]], {"n1 or n2": 1, "n2": 3}
        )
        assert scores(relevance, ["n2"], "ndcg@10") == [1.0]

    def test_facets_keep_names_and_weights(self) -> None:
        relevance = Relevance.facets({"hop 1": ["a", "b"], "hop 2": ["c"]}, weights={"hop 2": 3})

        assert scores(relevance, ["b", "a"], "facet_recall", "recall") == [1 / 4, 1 / 2]

    def test_a_need_that_nothing_is_known_to_supply_is_missed(self) -> None:
        # a facet without passages: one of two needs is met, of weight 1 out of 1.5
        relevance = Relevance.facets({"x": [], "y": ["d1"]}, weights={"x": 0.5})

        # its name isn't the id of a document: a retrieved "x" doesn't meet it
        values = scores(relevance, ["d1", "x"], "facet_recall", "recall", "ap")

        assert values == pytest.approx([1 / 1.5, 1 / 2, 1 / 2])

    def test_needs_without_any_supply_are_nothing_relevant_as_by_ids(self) -> None:
        dataset = RetrievalDataset(
            {"q": "?", "r": "?", "s": "?"},
            {
                "q": Relevance.facets({"x": [], "y": []}),
                "r": Relevance.facets({"x": ["d1"], "y": []}),
                "s": Relevance.facets({"x": []}, grades={"d1": 0}),
            },
        )
        names = ["facet_recall", "recall", "mrr"]

        by_ids, by_group = (
            evaluate(lambda _: ["d1"], dataset, names, matcher=matcher).scores
            for matcher in (None, "group")
        )

        assert by_ids.excluded == by_group.excluded
        assert set(by_group.excluded) == {"q", "s"}
        assert by_group.means["facet_recall"] == by_ids.means["facet_recall"] == 1 / 2
        assert by_group.means["recall"] == 1 / 2  # by ids one of one, since needs have none there

    def test_without_groups_ids_are_compared(self) -> None:
        relevance = Relevance({"a": 2, "b": 1, "c": 0})

        assert expected_groups(relevance).relevance == relevance
        assert scores(relevance, ["c", "b"], "recall", "mrr", "judged") == [1 / 2, 1 / 2, 1.0]

    def test_judged_ids_outside_of_groups_stay(self) -> None:
        relevance = Relevance.groups([["a", "b"]], {"d": 0, "e": 1})

        assert scores(relevance, ["d", "e", "b"], "recall", "judged") == [1.0, 1.0]

    def test_names_are_distinct(self) -> None:
        twice = expected_groups(Relevance.groups([["n"], ["n"]]))
        named = expected_groups(Relevance.facets({"a": ["b"]}, grades={"a": 1}))

        assert twice.ids == ("n", "n (2)")
        assert set(named.ids) == {"a", "a (2)"}

    def test_what_stands_for_what_is_shown(self) -> None:
        dataset = RetrievalDataset(
            {"q": "?"}, {"q": [["a", "b"]]}, {"a": "Geysers of water.", "b": "Water geysers."}
        )
        results = evaluate(lambda _: ["b"], dataset, ["recall"], matcher="group")

        (matched,) = results.matched.values()
        assert matched.stands_for == {"q": [["a or b"]]}
        assert matched.passages == {"q": {"a or b": "Geysers of water."}}


class TestMetric:
    def test_compute_needs_no_texts(self) -> None:
        relevance = Relevance.groups([["a", "b"], ["c"]])

        result = metric("recall(match=group)@2").compute(
            "?", expected_ids=relevance, retrieved_ids=["a", "b", "c"]
        )

        # b repeats a, so that c stands on rank 2
        assert result.score == 1.0

    def test_nothing_given(self) -> None:
        recall = metric("recall(match=group)")
        with pytest.raises(NotJudged):
            recall.compute("?", retrieved_ids=["a"])
        with pytest.raises(NoRetrieval, match="retrieved_ids"):
            recall.compute("?", expected_ids=["a"])

    def test_no_threshold(self) -> None:
        with pytest.raises(InvalidInput, match="threshold"):
            metric("recall(match=group>=0.5)")
        assert GroupMatcher().name == "group"
