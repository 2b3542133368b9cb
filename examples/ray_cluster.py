"""Stored rankings and live retrieval on a Ray cluster: here on one of this machine alone."""

# ci: ray

import os

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import pyarrow as pa
import ray
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever

from llama_index_rag_metrics import BM25Similarity, RetrievalDataset
from llama_index_rag_metrics.distributed.ray import evaluate, score_dataset

# On a cluster: ray.init("auto"), or nothing at all. Workers need this package, too.
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)

# Stored rankings, such as ray.data.read_parquet("s3://...") gives: scored where they lie.
stored = pa.table(
    {
        "query_id": ["q1", "q2", "q3"],
        "retrieved_ids": [["d3", "d1"], ["d2"], ["d9", "d4"]],
        "expected_ids": [["d1"], ["d2", "d5"], ["d4"]],
    }
)
rankings = ray.data.from_arrow(stored).repartition(2)
scores = score_dataset(rankings, ["ndcg@10", "recall@1"]).materialize()
print(f"ndcg@10: {scores.mean('ndcg@10'):.2f}, recall@1: {scores.mean('recall@1'):.2f}")
for row in scores.sort("query_id").iter_rows():
    print(row["query_id"], row["ndcg@10"])

# Live retrieval: each worker builds its retriever once; a query lost with a worker is asked again.
passages = {
    "heat": "The stoneware kiln fires at 1240 degrees and takes nine hours to cool.",
    "keys": "Firing the kiln needs two keys, one from the office and one from the tutor.",
    "laser": "The laser cutter is booked online, in slots of one hour.",
}


def retriever() -> BM25Retriever:
    nodes = [TextNode(id_=one, text=text) for one, text in passages.items()]
    return BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=2)


dataset = RetrievalDataset(
    queries={"q1": "How hot does the kiln get?", "q2": "How is the laser cutter booked?"},
    relevance={"q1": ["heat"], "q2": ["laser"]},
    corpus=passages,
)
metrics = ["mrr", "ndcg@2", BM25Similarity()]
print(evaluate(dataset, retriever, metrics, workers=2, concurrency=4, name="bm25"))
