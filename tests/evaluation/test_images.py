"""Images and texts in one retrieval, with LlamaIndex's own multi-modal index."""

from __future__ import annotations

from typing import Any

from llama_index.core.embeddings import MultiModalEmbedding
from llama_index.core.indices import MultiModalVectorStoreIndex
from llama_index.core.schema import ImageNode, TextNode

from llama_index_rag_metrics import RetrieverEvaluator

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


def test_images_and_texts_count_by_their_ids() -> None:
    retriever = index().as_retriever(similarity_top_k=1, image_similarity_top_k=1)
    evaluator = RetrieverEvaluator.from_metric_names(["recall", "precision"], retriever=retriever)
    result = evaluator.evaluate("kiln", ["kiln text"], mode="image")  # type: ignore[arg-type]
    assert result.metric_vals_dict == {"recall": 1.0, "precision": 0.5}
    assert result.mode == "image"
