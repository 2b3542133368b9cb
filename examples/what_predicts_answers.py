"""Which metric predicts the answers? A scripted reader stands in for an LLM and its judge.

It reads what fits into 300 tokens: with a relevant passage it is mostly right, without one seldom.
"""

import random

from llama_index_rag_metrics import compare, evaluate, relate
from llama_index_rag_metrics.demo.collection import load_collection
from llama_index_rag_metrics.demo.retrievers import bm25, lsa

METRICS = ["ndcg@10", "recall@300tokens", "hit_rate@1", "recall@10", "mrr"]

dataset = load_collection()
nodes = dataset.to_nodes()
results = evaluate(bm25(nodes, 10), dataset, METRICS, name="bm25")

# in your case: scores by people, an LLM judge, ragas, DeepEval; a CSV, MLflow's or Phoenix's
chance = random.Random(7)
found = results.scores.by_query("recall@300tokens")
answers = {question: chance.random() < (0.9 if hit else 0.2) for question, hit in found.items()}
closed_book = {question: chance.random() < 0.2 for question in found}

relation = relate(results, answers, closed_book=closed_book)
print(relation)
relation.plot("predictions").write("predictions.svg")

# decide by it: what raises this metric probably raises the answers, too
other = evaluate(lsa(nodes, 10), dataset, METRICS, name="lsa")
if relation.primary is not None:
    print(compare({"bm25": results, "lsa": other}, "bm25", primary=relation.primary).decision)
