"""Statistics: arrays in, numbers out. Nothing here depends on scores or systems."""

from llama_index_rag_metrics.statistics.corrections import Correction, correct, max_t
from llama_index_rag_metrics.statistics.differences import difference_intervals, pseudo_queries
from llama_index_rag_metrics.statistics.intervals import (
    MeanInterval,
    mean_interval,
    mean_intervals,
)
from llama_index_rag_metrics.statistics.power import (
    detectable_difference,
    detectable_differences,
    queries_to_decide,
)
from llama_index_rag_metrics.statistics.resampling import NOISE, Units
from llama_index_rag_metrics.statistics.student import Student, student

__all__ = [
    "NOISE",
    "Correction",
    "MeanInterval",
    "Student",
    "Units",
    "correct",
    "detectable_difference",
    "detectable_differences",
    "difference_intervals",
    "max_t",
    "mean_interval",
    "mean_intervals",
    "pseudo_queries",
    "queries_to_decide",
    "student",
]
