"""Our metrics on LlamaIndex's own RetrieverEvaluator: names, graded relevance, groups."""

from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever

from llama_index_rag_metrics import Relevance

PASSAGES = {
    "kiln-heat": "The stoneware kiln fires at 1240 degrees and takes nine hours to cool.",
    "kiln-keys": "Firing the kiln needs two keys, one from the office and one from the tutor.",
    "laser": "The laser cutter is booked online, in slots of one hour.",
    "glaze": "Glazes for the stoneware kiln are mixed on Thursdays.",
}

nodes = [TextNode(id_=one, text=text) for one, text in PASSAGES.items()]
retriever = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=3)
evaluator = RetrieverEvaluator.from_metric_names(
    ["ndcg@10", "f1@5", "granular_hit_rate", "group_recall"], retriever=retriever
)

binary = ["kiln-heat"]
graded = Relevance({"kiln-keys": 3, "kiln-heat": 1, "laser": 0})
groups = Relevance(groups=[["kiln-heat", "glaze"], ["laser"]])

for query, expected in (
    ("How hot does the stoneware kiln get?", binary),
    ("Which keys does firing the kiln need?", graded),
    ("Which temperature suits stoneware, and how is the laser cutter booked?", groups),
):
    result = evaluator.evaluate(query, expected_ids=expected)
    print(query)
    for name, score in result.metric_vals_dict.items():
        print(f"  {name:<18} {score:.4f}")
