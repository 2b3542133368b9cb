"""A run that is cut short, and goes on where it ended: the journal."""

import tempfile
from pathlib import Path

from llama_index_rag_metrics import RetrievalDataset, evaluate

dataset = RetrievalDataset(
    queries={f"q{n}": f"question {n}" for n in range(10)},
    relevance={f"q{n}": [f"d{n}"] for n in range(10)},
)
asked: list[str] = []


def retrieve(query: str) -> list[str]:
    """Stands for a retriever that costs money; it goes away in the middle of the first run."""
    asked.append(query)
    if len(asked) == 7:
        raise ConnectionError("the index is restarting")
    return ["d0", query.replace("question ", "d")]


with tempfile.TemporaryDirectory() as folder:
    journal = Path(folder) / "run.jsonl"
    first = evaluate(retrieve, dataset, ["mrr"], journal=journal, workers=1)
    print("first run:", first.scores.counts)
    print("failed:", first.scores.failed)

    asked_before = len(asked)
    second = evaluate(retrieve, dataset, ["mrr", "recall@5"], journal=journal, workers=1)
    print("second run:", second.scores.counts, "- asked again:", asked[asked_before:])
    print({name: round(mean, 4) for name, mean in second.scores.means.items()})
