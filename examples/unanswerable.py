"""Questions without an answer: what comes back for them, and a threshold that keeps them empty."""

from llama_index_rag_metrics import compare, evaluate, sweep
from llama_index_rag_metrics.demo.collection import load_collection
from llama_index_rag_metrics.demo.retrievers import bm25

METRICS = ["recall@5", "abstained", "returned@5"]

# five of its questions are labelled, and no passage answers them
dataset = load_collection()
retriever = bm25(dataset.to_nodes(), 10)
results = evaluate(retriever, dataset, METRICS, name="all passages")
print(results)

# what each threshold costs the others, and how many questions without an answer it keeps empty
found = sweep(lambda: retriever, {"min_score": [None, 2.0, 4.0, 6.0]}, dataset, METRICS)
for configuration in found:
    print(configuration)

behind = evaluate(retriever, dataset, METRICS, min_score=4.0, name="above the threshold")
print(compare({"all": results, "cut": behind}, baseline="all", metrics=["abstained"]))
