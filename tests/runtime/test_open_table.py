"""A matcher of a user's own, added in one place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llama_index.core.schema import TextNode

import llama_index_rag_metrics as rag
from llama_index_rag_metrics.rankings.matching.matcher_names import MATCHERS
from llama_index_rag_metrics.runtime.errors import InvalidInput


@pytest.fixture(autouse=True)
def tables_as_they_were() -> Iterator[None]:
    before = {id(table): dict(table) for table in (MATCHERS,)}
    yield
    for table in (MATCHERS,):
        assert dict(table) == before[id(table)]


class TestMatcher:
    def test_it_is_named_by_the_evaluator_and_by_a_metric(self) -> None:
        rag.register_matcher("mine", lambda threshold: rag.ContainmentMatcher(threshold or 0.9))
        try:
            dataset = rag.RetrievalDataset(
                {"q": "where?"}, {"q": None}, expected_texts={"q": ["on the second floor"]}
            )

            def retrieve(query: str) -> list[TextNode]:
                return [TextNode(text="no"), TextNode(text="It is on the second floor of it.")]

            by_evaluator = rag.evaluate(retrieve, dataset, ["mrr"], matcher="mine>=0.8")
            by_metric = rag.evaluate(retrieve, dataset, ["mrr(match=mine)"])
            # the text is within the second of two: 1/2
            assert by_evaluator.scores.means["mrr"] == 0.5
            assert list(by_metric.scores.means.values()) == [0.5]
        finally:
            rag.unregister_matcher("mine")
        with pytest.raises(InvalidInput, match="'mine'"):
            rag.evaluate(retrieve, dataset, ["mrr"], matcher="mine")

    @pytest.mark.parametrize("kind", ["id", "text", "a b", "a>=b", "", "命中"])
    def test_a_name_that_is_taken_or_cannot_be_written_is_refused(self, kind: str) -> None:
        with pytest.raises(InvalidInput, match="kind"):
            rag.register_matcher(kind, lambda threshold: rag.ExactMatcher())

    def test_those_of_the_package_stay(self) -> None:
        with pytest.raises(InvalidInput, match="registered matchers"):
            rag.unregister_matcher("text")
