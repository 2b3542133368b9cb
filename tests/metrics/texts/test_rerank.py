"""Rerankers as metrics: LlamaIndex's own LLMRerank and Cohere's package, and scripted ones."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore
from support.cohere_server import cohere_server
from support.question_llms import ScriptedLLM
from support.retrievers import Scripted

from llama_index_rag_metrics import RerankRelevancy, RetrievalDataset, evaluate, metric
from llama_index_rag_metrics.runtime.errors import InvalidInput

pytestmark = pytest.mark.cohere

TEXTS = ["one", "two words", "all three words"]


class Reranker(BaseNodePostprocessor):
    """Gives every node the score that a function makes of its text, best first."""

    scored: Callable[[str], Any]
    top_n: int = 2
    calls: list[list[str]] = []

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
        self.calls.append([node.node.get_content() for node in nodes])
        for node in nodes:
            node.score = self.scored(node.node.get_content())
        return sorted(nodes, key=lambda node: -(node.score or 0))[: self.top_n]


def reranker(scored: Callable[[str], Any] = lambda text: float(len(text.split()))) -> Reranker:
    return Reranker(scored=scored, calls=[])


@pytest.mark.parametrize(
    # 1, 2 and 3 words
    ("agg", "texts", "score"),
    [("max", TEXTS, 3), ("mean", TEXTS, 2), ("median", TEXTS[:2], 1.5)],
)
def test_texts_are_all_scored_beyond_top_n(agg: Any, texts: list[str], score: float) -> None:
    result = RerankRelevancy(reranker=reranker(), agg=agg).compute("?", retrieved_texts=texts)
    assert result.score == score
    assert result.metadata == {"agg": agg, "scores": [1.0, 2.0, 3.0][: len(texts)]}


def test_blanks_and_nothing_are_0_without_a_call() -> None:
    used = reranker()
    scorer = RerankRelevancy(reranker=used, agg="mean")
    assert scorer.compute("?", retrieved_texts=[]).score == 0
    assert scorer.compute("?", retrieved_texts=[" "]).score == 0
    assert used.calls == []
    assert scorer.compute("?", retrieved_texts=["", *TEXTS, "one"]).score == (0 + 1 + 2 + 3 + 1) / 5
    assert used.calls == [TEXTS]


def test_texts_that_the_reranker_leaves_out_score_0() -> None:
    class Cutting(Reranker):
        def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
            return super()._postprocess_nodes(nodes, query_bundle)[:1]

    scorer = RerankRelevancy(reranker=Cutting(scored=len, calls=[]))
    assert scorer.compute("?", retrieved_texts=TEXTS).metadata["scores"] == [0, 0, 15]


@pytest.mark.parametrize(
    ("score", "message"), [(None, "score None"), (math.nan, "score nan"), (math.inf, "score inf")]
)
def test_reranker_that_gives_no_score(score: float | None, message: str) -> None:
    with pytest.raises(match=message):
        RerankRelevancy(reranker=reranker(lambda _: score)).compute("?", retrieved_texts=TEXTS)


def test_list_is_asked_once_and_another_order_is_another_list() -> None:
    used = reranker()
    scorer = RerankRelevancy(reranker=used)
    scorer.compute("?", retrieved_texts=TEXTS)
    scorer.compute("?", retrieved_texts=TEXTS)
    scorer.compute("?", retrieved_texts=TEXTS[::-1])
    scorer.compute("??", retrieved_texts=TEXTS)
    assert len(used.calls) == 3


def test_rerankers_of_other_models_have_other_names() -> None:
    scorers = [RerankRelevancy(reranker=reranker(), label=label) for label in ("a", "b")]
    retriever = Scripted({"?": ["x"]})
    means = evaluate(retriever, RetrievalDataset({"q": "?"}), scorers).scores.means
    # "text of x"
    assert means == {"rerank_relevancy(label=a)": 3, "rerank_relevancy(label=b)": 3}


def test_name_says_what_it_needs() -> None:
    message = r"rerank_relevancy needs reranker. Write RerankRelevancy\(reranker=...\)."
    with pytest.raises(InvalidInput, match=message):
        metric("rerank_relevancy")


class TestLLMRerank:
    ANSWER = "Doc: 2, Relevance: 7\nDoc: 1, Relevance: 3\n"

    def test_scores_as_the_llm_does(self) -> None:
        llm = ScriptedLLM(lambda _: self.ANSWER)
        scorer = RerankRelevancy(reranker=LLMRerank(llm=llm, top_n=1), agg="mean")
        result = scorer.compute("who?", retrieved_texts=TEXTS)
        # the LLM names the second and the first, and leaves the third out
        assert result.metadata["scores"] == [3, 7, 0]
        assert result.score == pytest.approx(10 / 3)
        assert len(llm.asked) == 1
        assert "two words" in llm.asked[0]


def test_coheres_own_postprocessor() -> None:
    package = pytest.importorskip("llama_index.postprocessor.cohere_rerank")
    with cohere_server() as server:
        used = package.CohereRerank(
            api_key="not-a-key", model="rerank-v3.5", base_url=server.base_url
        )
        result = RerankRelevancy(reranker=used, agg="mean").compute(
            "all three", retrieved_texts=[*TEXTS, ""]
        )
    # 0, 0 and 2 of the query's 2 words; the blank text isn't sent
    assert result.metadata["scores"] == [0, 0, 1, 0]
    assert [len(body["documents"]) for body in server.requests] == [3]
    assert "not-a-key" not in repr(result)
