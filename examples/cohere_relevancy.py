"""How relevant Cohere's reranker finds what was retrieved: no labels, and nothing paid twice.

Needs a key in CO_API_KEY; without one it says so, and ends. It sends ten requests, as many as a
trial key allows in a minute. Where CO_API_URL is set, that server is asked instead of Cohere's.

Where the collection has labels, too, the questions on which the two disagree most are worth a look:
either a label is missing, or the reranker was taken in.
"""

import os
import tempfile
from pathlib import Path

from llama_index_rag_metrics import Cache, CohereRerankRelevancy, evaluate
from llama_index_rag_metrics.demo.collection import load_collection
from llama_index_rag_metrics.demo.retrievers import bm25, lsa

if not os.environ.get("CO_API_KEY"):
    print("Nothing was asked: set CO_API_KEY to a key of Cohere's (a trial key will do).")
    raise SystemExit

collection = load_collection()
questions = collection.select(["q01", "q17", "q25", "q29", "q36"])
nodes = collection.to_nodes()
cohere = CohereRerankRelevancy(k=5)
relevancy, labelled = cohere.metric_name, "ndcg@5"

with tempfile.TemporaryDirectory() as folder:
    cache = Cache(Path(folder) / "cohere.sqlite")  # keep yours, and no text is paid for again
    for name, retriever in (
        ("bm25", bm25(nodes, 5)),
        ("lsa", lsa(nodes, 5)),
        ("bm25 again", bm25(nodes, 5)),
    ):
        results = evaluate(retriever, questions, [cohere, labelled], cache=cache, name=name)
        scores = results.scores
        print(f"{name:<11} {scores.means[relevancy]:.3f}  {cache}")

by_cohere, by_labels = scores.by_query(relevancy), scores.by_query(labelled)
print(f"\nbm25's questions; where {relevancy} and {labelled} differ most comes first")
scored = by_cohere.keys() & by_labels  # not those on which Cohere failed
for query_id in sorted(scored, key=lambda one: -abs(by_cohere[one] - by_labels[one])):
    print(f"{by_cohere[query_id]:>6.3f} {by_labels[query_id]:>6.3f}  {questions.queries[query_id]}")
