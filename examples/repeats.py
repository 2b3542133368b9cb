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


metrics = ["recall@5", "hit_rate@5", "pass^3 hit_rate@5"]
results = evaluate(agent, dataset, metrics, repeats=5, name="agent", workers=1)
for interval in results.scores.intervals().values():
    print(interval)

spread = results.scores.spread("recall@5")
print(spread)
for query_id in spread.unstable[:3]:
    print(query_id, dataset.queries[query_id], spread.runs[query_id])
print("as precise, asked once:", spread.questions(repeats=1), "questions")

plain = evaluate(retriever, dataset, ["recall@5"], name="bm25")
print(compare({"bm25": plain, "agent": results}, baseline="bm25").decision)
print(assert_retrieval(results, "pass^5 hit_rate@5 >= 0.2").outcome)
