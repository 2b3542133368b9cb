"""A sweep of given scores and costs, without a retriever."""

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index_rag_metrics import EvaluationResults, Run, Scores
from llama_index_rag_metrics.decisions.sweeps.grid import Configuration
from llama_index_rag_metrics.decisions.sweeps.sweep_result import Sweep
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.scores.retrieval import Retrieval


def made_sweep(
    configurations: Mapping[str, tuple[Sequence[float], int, float]], **options: Any
) -> Sweep:
    """A sweep on ndcg: name to scores, and the tokens and the seconds of every question."""
    made = [_made(name, *columns) for name, columns in configurations.items()]
    return Sweep(made, ["ndcg"], **options)


def _made(name: str, scores: Sequence[float], tokens: int, seconds: float) -> Configuration:
    keys = [f"{number:03}" for number in range(len(scores))]
    ranking = Ranking(["d"], latency=seconds, tokens=[tokens])
    retrieval = Retrieval(Run(dict.fromkeys(keys, ranking)))
    made = Scores(keys, {"ndcg": list(scores)}).replace(retrieval=retrieval)
    results = EvaluationResults([], scores=made)
    return Configuration({"name": name}, {"name": name}, results, tokens=tokens)
