"""Where a pipeline loses relevant passages: the retriever, a reranker, the cutoff."""

from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_rag_metrics import evaluate_stages
from llama_index_rag_metrics.demo.collection import load_collection
from llama_index_rag_metrics.demo.retrievers import LSAEmbedding, bm25, lsa

dataset = load_collection()
nodes = dataset.to_nodes()
embedding = LSAEmbedding.fit([node.get_content() for node in nodes])


class Reranker(BaseNodePostprocessor):
    """Stands for yours, such as SentenceTransformerRerank(top_n=5)."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        assert query_bundle is not None
        asked = embedding.get_query_embedding(query_bundle.query_str)
        for node in nodes:
            text = embedding.get_text_embedding(node.node.get_content())
            node.score = embedding.similarity(asked, text)
        return sorted(nodes, key=lambda node: -(node.score or 0.0))[:5]


hybrid = QueryFusionRetriever(
    [bm25(nodes, 20), lsa(nodes, 20)],
    llm=MockLLM(),  # not asked: one query
    num_queries=1,
    similarity_top_k=10,
    mode="relative_score",
    use_async=False,
)
stages = evaluate_stages(hybrid, {"reranker": Reranker()}, dataset, ["recall@3", "ndcg@3"])
print(stages)

for stage in stages.flow:
    print(f"{stage.stage}: {stage.kept} kept, {stage.lost} lost")
print(*[loss for loss in stages.losses if loss.stage == "reranker"][:3], sep="\n")
stages.to_html("losses.html")

print(stages.differences[0])
