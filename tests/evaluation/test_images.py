"""Modes: images and texts in one retrieval, with LlamaIndex's own multi-modal index."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.embeddings import MultiModalEmbedding
from llama_index.core.evaluation import (
    MultiModalRetrieverEvaluator as CoreMultiModalRetrieverEvaluator,
)
from llama_index.core.indices import MultiModalVectorStoreIndex
from llama_index.core.schema import ImageNode, NodeWithScore, QueryBundle, TextNode
from support.retrievers import Postprocessor, Scripted, node

from llama_index_rag_metrics import (
    MultiModalRetrieverEvaluator,
    RetrievalDataset,
    RetrieverEvaluator,
    evaluate,
    evaluate_stages,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput, JournalMismatch

KILN, GLAZE = [1.0, 0.0], [0.0, 1.0]


class Both(MultiModalEmbedding):
    """Embeds images and texts: nearer to one of two directions."""

    def _vector(self, about: str) -> list[float]:
        return KILN if "kiln" in about else GLAZE

    def _get_image_embedding(self, img_file_path: Any) -> list[float]:
        return self._vector(str(img_file_path))

    async def _aget_image_embedding(self, img_file_path: Any) -> list[float]:
        return self._vector(str(img_file_path))

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)


def index() -> MultiModalVectorStoreIndex:
    texts = [
        TextNode(id_="kiln text", text="the kiln"),
        TextNode(id_="glaze text", text="the glaze"),
    ]
    images = [
        ImageNode(id_=f"{name} image", image_path=f"{name}.png", metadata={"file": f"{name}.png"})
        for name in ("kiln", "glaze")
    ]
    return MultiModalVectorStoreIndex(
        [*texts, *images], embed_model=Both(), image_embed_model=Both()
    )


def dataset(mode: str) -> RetrievalDataset:
    return RetrievalDataset(
        queries={"q": "kiln"},
        relevance={"q": ["kiln image" if mode == "image" else "kiln text"]},
        mode=mode,
    )


@pytest.mark.parametrize("mode", ["text", "image"])
@pytest.mark.parametrize("kind", [RetrieverEvaluator, MultiModalRetrieverEvaluator])
def test_only_the_mode_is_scored(mode: str, kind: type[RetrieverEvaluator]) -> None:
    retriever = index().as_retriever(similarity_top_k=1, image_similarity_top_k=1)
    evaluator = kind.from_metric_names(["mrr", "precision"], retriever=retriever)
    # one text and one image come back, and one of them counts
    expected = {"mrr": 1.0, "precision": 1.0}
    other = "images" if mode == "text" else "texts"
    with pytest.warns(UserWarning, match=f"{other} that were retrieved are left out"):
        result = evaluator.evaluate("kiln", [f"kiln {mode}"], mode=mode)  # type: ignore[arg-type]
    assert result.metric_vals_dict == expected
    assert result.mode == mode
    results = evaluator.evaluate_dataset(dataset(mode))
    assert results.scores.means == expected
    assert results[0].retrieved_ids == [f"kiln {mode}"]
    assert [note for note in results.scores.notes if f"{other} that were" in note]


def test_images_score_as_by_the_class_of_llama_index() -> None:
    retriever = index().as_retriever(similarity_top_k=2, image_similarity_top_k=2)
    core = CoreMultiModalRetrieverEvaluator.from_metric_names(["mrr"], retriever=retriever)
    ours = MultiModalRetrieverEvaluator.from_metric_names(["mrr"], retriever=retriever)
    theirs = core.evaluate("kiln", ["glaze image"], mode="image")  # type: ignore[arg-type]
    mine = ours.evaluate("kiln", ["glaze image"], mode="image")  # type: ignore[arg-type]
    assert mine.retrieved_ids == theirs.retrieved_ids == ["kiln image", "glaze image"]
    assert mine.metric_vals_dict == theirs.metric_vals_dict == {"mrr": 0.5}


def test_an_index_is_asked_for_as_many_images_as_texts() -> None:
    results = evaluate(index(), dataset("image"), ["recall@2"])
    assert results[0].retrieved_ids == ["kiln image", "glaze image"]


def mixed() -> Scripted:
    image = NodeWithScore(node=ImageNode(id_="image", image_path="kiln.png"), score=0.5)
    return Scripted({"kiln": [node("text"), image, node("kiln text")]})


def test_stages_are_scored_by_mode() -> None:
    stages = evaluate_stages(mixed(), [Postprocessor(function=list)], dataset("text"), ["mrr"])
    for results in stages.values():
        assert list(results.run["q"].ids) == ["text", "kiln text"]
        assert any("images that were retrieved" in note for note in results.scores.notes)


def test_a_journal_is_of_one_mode(tmp_path: Any) -> None:
    evaluate(mixed(), dataset("text"), ["mrr"], journal=tmp_path / "run.jsonl")
    with pytest.raises(JournalMismatch, match="mode"):
        evaluate(mixed(), dataset("image"), ["mrr"], journal=tmp_path / "run.jsonl")


def test_an_unknown_mode_is_refused() -> None:
    class Asked(Scripted):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            raise AssertionError("the mode is checked before")

    evaluator = RetrieverEvaluator.from_metric_names(["mrr"], retriever=Asked({}))
    with pytest.raises(InvalidInput, match="'text' or 'image', got 'video'"):
        evaluator.evaluate("kiln", ["a"], mode="video")  # type: ignore[arg-type]
