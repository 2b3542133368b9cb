"""Questions without an answer: what comes back for them, and a threshold that keeps them empty."""

import tempfile
from pathlib import Path

from llama_index.core.postprocessor import SimilarityPostprocessor

from llama_index_rag_metrics import compare, evaluate
from llama_index_rag_metrics.demo.collection import load_collection
from llama_index_rag_metrics.demo.retrievers import bm25

METRICS = ["recall@5", "abstained", "returned@5"]

# five of its questions are labelled, and no passage answers them
dataset = load_collection()
retriever = bm25(dataset.to_nodes(), 10)
results = evaluate(retriever, dataset, METRICS, name="all passages")
print(results)

thresholds = results.thresholds("recall@5", tolerance=0.1)
print(thresholds)
with tempfile.TemporaryDirectory() as folder:
    thresholds.plot().write(Path(folder) / "thresholds.svg")

proposed = thresholds.proposed
assert proposed is not None
print(proposed.line)
cut = [SimilarityPostprocessor(similarity_cutoff=proposed.min_score)]
behind = evaluate(retriever, dataset, METRICS, node_postprocessors=cut, name="above the threshold")
print(compare({"all": results, "cut": behind}, baseline="all", primary="abstained"))

# the same without asking anything again, from what was stored
print(behind.scores.means == evaluate(
    retriever, dataset, METRICS, min_score=proposed.min_score
).scores.means)  # fmt: skip
