"""A notebook for core 0.14.20 or earlier: its imports are changed, and how it reads its dataset."""

import asyncio
import json
import tempfile
from pathlib import Path

from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever

from llama_index_rag_metrics import RetrievalDataset, RetrieverEvaluator

SAVED = {
    "queries": {"q1": "How is the laser cutter booked?", "q2": "When does the library close?"},
    "corpus": {
        "n1": "The laser cutter is booked online, in slots of one hour.",
        "n2": "The library closes at nine, on Sundays at six.",
        "n3": "Bicycles are repaired on Saturdays.",
    },
    "relevant_docs": {"q1": ["n1"], "q2": ["n2"]},
    "mode": "text",
}

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "pg_eval_dataset.json"
    path.write_text(json.dumps(SAVED))
    dataset = RetrievalDataset.load(path)

nodes = [TextNode(id_=one, text=text) for one, text in dataset.corpus.items()]
retriever = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=2)
evaluator = RetrieverEvaluator.from_metric_names(
    ["hit_rate", "mrr", "precision", "recall", "ap", "ndcg"], retriever=retriever
)
results = asyncio.run(evaluator.aevaluate_dataset(dataset, workers=2))

for result in results:
    print(result)
print(results)
