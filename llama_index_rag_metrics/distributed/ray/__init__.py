"""On a Ray cluster: stored rankings by `score_dataset`, live retrieval by `evaluate`."""

from llama_index_rag_metrics.distributed.ray.ray_evaluating import aevaluate, evaluate
from llama_index_rag_metrics.distributed.ray.ray_scoring import score_dataset

__all__ = ["aevaluate", "evaluate", "score_dataset"]
