# ci: mlflow
"""Last week's traces: what was retrieved in production, scored with labels. Offline.

MLflow records the questions of a program; `read_traces` makes a run of what it recorded. Files of
OTLP/JSON, as the OpenTelemetry Collector writes them, are read in the same way.
Needs `pip install mlflow`, and the `demo` extra for BM25.
"""

import tempfile
from pathlib import Path

import mlflow
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever

from llama_index_rag_metrics import RetrievalDataset, Run, compare, read_traces, score_rankings

CORPUS = {
    "tiber": "The Tiber flows through Rome to the sea.",
    "rome": "Rome was founded on seven hills.",
    "venus": "Venus is the hottest planet; its clouds keep the heat.",
    "mars": "Mars, the red planet, has two small moons.",
}
dataset = RetrievalDataset(
    queries={
        "q1": "Which river flows through Rome?",
        "q2": "Which planet is the hottest?",
        "q3": "Which planet has two moons?",
    },
    relevance={"q1": ["tiber"], "q2": ["venus"], "q3": ["mars"]},
)
nodes = [TextNode(text=text, id_=one) for one, text in CORPUS.items()]


def week(name: str, folder: Path, nodes: list[TextNode]) -> Run:
    """Ask the questions while MLflow records them, and read back what it recorded."""
    artifacts = str(folder / name)
    experiment = mlflow.create_experiment(name, artifact_location=artifacts)
    mlflow.set_experiment(experiment_id=experiment)
    retriever = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=2)
    for question in dataset.queries.values():
        retriever.retrieve(question)
    mlflow.flush_trace_async_logging()
    traces = mlflow.search_traces(locations=[experiment], return_type="list")
    return read_traces(traces, questions=dataset, name=name)


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.llama_index.autolog()
    last = week("last week", folder, nodes)
    this = week("this week", folder, nodes[:-1])  # a document was lost
    mlflow.llama_index.autolog(disable=True)
    scores = [score_rankings(dataset.relevance, run, ["mrr", "recall@2"]) for run in (last, this)]
    print(compare({scored.name: scored for scored in scores}, baseline="last week"))
