"""Statistics: arrays in, numbers out. Nothing here depends on scores or systems."""

from llama_index_rag_metrics.statistics.differences import difference_intervals
from llama_index_rag_metrics.statistics.intervals import MeanInterval, mean_interval

__all__ = ["MeanInterval", "difference_intervals", "mean_interval"]
