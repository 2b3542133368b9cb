"""The gate: may a change be merged? Three changes against one stored baseline, offline.

A real project does this with `rag-metrics gate` in CI (see github_workflow.yml) or with the pytest
fixture `assert_retrieval`; what happens there is this.
"""

import random
import tempfile
from pathlib import Path

from llama_index_rag_metrics import RetrievalDataset, check_rules, evaluate

QUERIES = 200
RULES = [
    "ndcg@10 >= baseline - 0.02",
    "ndcg@10 >= baseline - 0.05 as observed",
    "recall@10 >= 0.8",
    "failed <= 0",
]

dataset = RetrievalDataset(
    queries={f"q{n:03}": f"question {n}" for n in range(QUERIES)},
    relevance={f"q{n:03}": [f"d{n}"] for n in range(QUERIES)},
)


def retriever(seed, lost=0.0):
    """Finds the right passage at one of the first ranks; loses it in a share of the questions."""

    def retrieve(query):
        number = int(query.removeprefix("question "))
        usual, mishap = random.Random(number), random.Random(f"{seed} {number}")
        ranking = [f"d{QUERIES + other}" for other in range(10)]
        rank = usual.choice([0, 0, 0, 1, 2])
        if mishap.random() < 0.2:
            rank = mishap.choice([0, 0, 0, 1, 2])
        if mishap.random() >= lost:
            ranking.insert(rank, f"d{number}")
        return ranking

    return retrieve


def measured(name, retrieve):
    return evaluate(retrieve, dataset, ["ndcg@10", "recall@10"], name=name)


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "retrieval_baseline.json"
    measured("main", retriever("main")).to_json(path)

    for name, change in {
        "nothing that matters": retriever("main"),
        "another tokeniser": retriever("tokeniser"),
        "a broken index": retriever("index", lost=0.25),
    }.items():
        report = check_rules(measured(name, change), RULES, baseline=path)
        print(report, end="\n\n")
        print("exit code of `rag-metrics gate`:", int(bool(report.broken())))
        print("with --strict:", int(bool(report.broken(strict=True))), end="\n\n")
