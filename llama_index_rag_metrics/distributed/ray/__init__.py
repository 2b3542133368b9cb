"""On a Ray cluster: stored rankings by `score_dataset`, live retrieval by `evaluate`.

What costs time or money happens on the workers; what makes numbers of it happens as on one machine,
so the numbers are the same, to the last bit.
"""

from llama_index_rag_metrics.distributed.ray.ray_evaluating import aevaluate, evaluate
from llama_index_rag_metrics.distributed.ray.ray_scoring import score_dataset

__all__ = ["aevaluate", "evaluate", "score_dataset"]
