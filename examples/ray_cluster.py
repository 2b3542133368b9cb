"""Stored rankings and live retrieval on a Ray cluster: here on one of this machine alone.

Needs `pip install ".[ray,batch,demo]"`.
"""

# ci: ray

import os

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import pyarrow as pa
import ray

from llama_index_rag_metrics import RetrievalDataset, score_table
from llama_index_rag_metrics.demo.retrievers import bm25
from llama_index_rag_metrics.distributed.ray import evaluate

# On a cluster: ray.init("auto"), or nothing at all. Workers need this package, too.
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)

# Stored rankings, such as ray.data.read_parquet("s3://...") gives: scored where they lie.
stored = {
    "query_id": ["q1", "q2", "q3"],
    "retrieved_ids": [["d3", "d1"], ["d2"], ["d9", "d4"]],
    "expected_ids": [["d1"], ["d2", "d5"], ["d4"]],
}
rankings = ray.data.from_arrow(pa.table(stored)).repartition(2)
metrics = {"metrics": ["ndcg@10", "recall@1"]}
scores = rankings.map_batches(score_table, fn_kwargs=metrics, batch_format="pyarrow").materialize()
print(f"ndcg@10: {scores.mean('ndcg@10'):.2f}, recall@1: {scores.mean('recall@1'):.2f}")

# Live retrieval: each worker builds its retriever once; a query lost with a worker is asked again.
dataset = RetrievalDataset(
    queries={"q1": "How hot does the kiln get?", "q2": "How is the laser cutter booked?"},
    relevance={"q1": ["heat"], "q2": ["laser"]},
    corpus={
        "heat": "The stoneware kiln fires at 1240 degrees and takes nine hours to cool.",
        "keys": "Firing the kiln needs two keys, one from the office and one from the tutor.",
        "laser": "The laser cutter is booked online, in slots of one hour.",
    },
)
nodes = dataset.to_nodes()
print(evaluate(lambda: bm25(nodes, 2), dataset, ["mrr", "bm25_similarity"], workers=2, name="bm25"))
