"""Retrievers whose asynchronous methods block all the same, and what may go wrong in between."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.evaluation.retrieval.metrics import HitRate as CoreHitRate
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from support.retrievers import Asynchronous, Postprocessor, Scripted

from llama_index_rag_metrics import (
    RerankRelevancy,
    RetrievalDataset,
    RetrieverEvaluator,
    aevaluate,
    evaluate,
    evaluate_stages,
)
from llama_index_rag_metrics.evaluation.as_ask import retrieval_depth
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.runtime.errors import EveryQueryFailed

QUERIES = {f"q{n}": f"{n}?" for n in range(13)}
DATASET = RetrievalDataset(queries=QUERIES, relevance={query_id: ["d"] for query_id in QUERIES})


class Words(BaseNodePostprocessor):
    """Scores a text by its number of words."""

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
        return [NodeWithScore(node=node.node, score=len(node.text.split())) for node in nodes]


class SlowEmbedding(BaseEmbedding):
    """Has only blocking methods, as a local model does."""

    wait: Callable[[], None]

    def _get_text_embedding(self, text: str) -> list[float]:
        return [1.0, 0.0]

    def _get_query_embedding(self, query: str) -> list[float]:
        self.wait()
        return [1.0, 0.0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def test_asynchronous_sources_are_awaited_on_every_query() -> None:
    retriever = Asynchronous({query: ["d"] for query in QUERIES.values()})
    results = evaluate(retriever, DATASET, ["recall"], workers=4)
    assert results.scores.failed == {}
    assert len(retriever.asked) == len(QUERIES)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["recall@5"], 5),
        (["recall@5", "mrr"], 10),
        (["mrr", "recall@20"], 20),
        (["bm25_similarity@3", "recall@2"], 3),
        (["bm25_similarity", "recall@2"], 10),
    ],
)
def test_request_has_one_depth(names: list[str], expected: int) -> None:
    index = VectorStoreIndex.from_documents(
        [Document(doc_id=f"d{n}", text=f"text {n}") for n in range(30)],
        embed_model=SlowEmbedding(wait=lambda: None),
        transformations=[],
    )
    dataset = RetrievalDataset(
        queries={"q": "?"},
        relevance={"q": ["d0"]},
        corpus={f"d{n}": f"text {n}" for n in range(30)},
    )
    chosen = resolve(names)
    assert retrieval_depth(chosen) == expected
    evaluator = RetrieverEvaluator(metrics=chosen, retriever=index)
    options: dict[str, Any] = {"match_on": "ref_doc_id"}
    chain = {"list": Postprocessor(function=list)}
    stages = evaluate_stages(index, chain, dataset, chosen, **options)
    by_evaluator = evaluator.model_copy(update=options).evaluate_dataset(dataset)
    results = [evaluate(index, dataset, chosen, **options), by_evaluator, *stages.values()]
    assert [len(each.run["q"].ids) for each in results] == [expected] * 4
    noted = [f"first {expected}: as_retriever" in str(each.scores.notes) for each in results]
    assert noted == [False, False, True, True]


def test_cancellation_inside_the_retriever_fails_its_query_only() -> None:
    if not hasattr(asyncio.Task, "cancelling"):
        pytest.skip("before Python 3.11 it can't be told from a cancelled evaluation")

    async def ask(query: str) -> list[str]:
        if query == "3?":
            raise asyncio.CancelledError
        return ["d"]

    assert list(evaluate(ask, DATASET, ["recall"]).scores.failed) == ["q3"]


def test_retriever_that_swallows_a_cancellation_does_not_go_on() -> None:
    asked: list[str] = []

    async def ask(query: str) -> list[str]:
        asked.append(query)
        try:
            await asyncio.sleep(3600 if len(asked) > 1 else 0)
        except asyncio.CancelledError:
            raise RuntimeError("the client was closed") from None
        return ["d"]

    async def main() -> None:
        task = asyncio.create_task(aevaluate(ask, DATASET, ["recall"], workers=3))
        while len(asked) < 4:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(asked) == 4


def test_raise_on_error_leaves_no_task_behind() -> None:
    async def ask(query: str) -> list[str]:
        await asyncio.sleep(0 if query == "0?" else 3600)
        raise RuntimeError("no")

    async def main() -> set[asyncio.Task[Any]]:
        with pytest.raises(Exception, match="no"):
            await aevaluate(ask, DATASET, ["recall"], workers=3, raise_on_error=True)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(main()) == set()


class TestNothingIsLost:
    """What is wrong is found before anything is asked, or costs no more than its own value."""

    def test_copies_count_for_no_metric(self) -> None:
        # a, a and b are a and b: 1 word and 4, 2.5 on average; chunks of one file likewise
        words = {"a": "one", "b": "these are four words"}
        named = {key: TextNode(id_=key, text=words[key], metadata={"file": "f"}) for key in words}
        nodes = [NodeWithScore(node=named[name]) for name in "aab"]
        counted = RerankRelevancy(reranker=Words(), agg="mean")
        for match_on, label in (("node_id", "a"), ("file", "f")):
            dataset = RetrievalDataset({"q": "?"}, {"q": [label]})
            results = evaluate(lambda _: nodes, dataset, [counted], match_on=match_on)
            assert list(results.scores.means.values()) == [2.5]

    def test_grade_that_a_metric_refuses(self) -> None:
        dataset = RetrievalDataset(queries={"q": "?"}, relevance={"q": {"d": 3}})
        results = evaluate(lambda query: ["d"], dataset, ["err(max_grade=2)", "mrr"])
        assert results.scores.means["mrr"] == 1
        assert any("Raise the metric's max_grade" in note for note in results.scores.notes)

    @pytest.mark.parametrize("options", [{"failed": "bogus"}, {"workers": True}, {"match_on": 5}])
    def test_wrong_options_are_refused_before_anything_is_asked(self, options: Any) -> None:
        retriever = Scripted({})
        dataset = RetrievalDataset(queries={"q": "?"}, relevance={"q": {"d": 0}})
        with pytest.raises(ValueError, match=next(iter(options)) + "|relevance of question 'q'"):
            evaluate(retriever, dataset, ["mrr"], **options)
        assert retriever.asked == []

    @pytest.mark.parametrize("item", [3, None, ["d"]])
    def test_id_that_is_no_string_fails_its_query(self, item: Any) -> None:
        results = evaluate(
            Scripted({"?": ["d"], "??": ["e"]}),
            RetrievalDataset({"r": "??", "q": "?"}, {"q": ["d"], "r": ["e"]}),
            ["mrr"],
            workers=1,  # after an answer that has ids
            match_on=lambda hit: item if hit.node.node_id == "d" else hit.node.node_id,
        )
        assert "of a retrieved node: expected an id, a text" in results.scores.failed["q"]
        assert results.scores.by_query("mrr") == {"q": 0.0, "r": 1.0}

    def test_retriever_that_never_works_is_a_warning(self) -> None:
        message = "retrieval failed on every question, 13 times with: ValueError: no index"

        def ask(query: str) -> list[str]:
            raise ValueError("no index")

        with pytest.warns(EveryQueryFailed, match=message):
            results = evaluate(ask, DATASET, ["mrr"])
        assert message in results.scores.notes

    def test_failed_retrievals_score_zero_by_other_metrics_too(self) -> None:
        retriever = Scripted({"?": ["d"], "??": RuntimeError("gone")})
        dataset = RetrievalDataset({"q": "?", "r": "??"}, {"q": ["d"], "r": ["d"]})
        results = evaluate(retriever, dataset, ["recall", CoreHitRate()])
        assert results.scores.by_query("hit_rate") == {"q": 1.0, "r": 0.0}
        left_out = evaluate(retriever, dataset, ["recall", CoreHitRate()], failed="exclude")
        assert left_out.scores.by_query("hit_rate") == {"q": 1.0}
