"""An agent that searches in other words each time: every question asked five times."""

import random

from llama_index_rag_metrics import assert_retrieval, compare, evaluate
from llama_index_rag_metrics.demo.collection import load_collection
from llama_index_rag_metrics.demo.retrievers import bm25

dataset = load_collection()
retriever = bm25(dataset.to_nodes(), 5)
luck = random.Random(0)


async def agent(question: str) -> str:
    """Stands for one that has an LLM: it leaves some words out of the question, and looks."""
    words = [word for word in question.split() if luck.random() < 0.7] or [question]
    await retriever.aretrieve(" ".join(words))
    return "an answer"


metrics = ["recall@5", "hit_rate@5"]
results = evaluate(agent, dataset, metrics, repeats=5, name="agent", workers=1)
for interval in results.scores.intervals().values():
    print(interval)

runs = [run.by_query("recall@5") for run in results.scores.repeats]
unstable = [query_id for query_id in runs[0] if len({run[query_id] for run in runs}) > 1]
print(len(unstable), "questions score differently from run to run")
for query_id in unstable[:3]:
    print(query_id, dataset.queries[query_id], [run[query_id] for run in runs])

plain = evaluate(retriever, dataset, ["recall@5"], name="bm25")
print(compare({"bm25": plain, "agent": results}, baseline="bm25").decision)
print(assert_retrieval(results, "hit_rate@5 >= 0.4").outcome)
