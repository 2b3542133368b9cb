"""Statistics: arrays in, numbers out. This room knows neither scores nor systems."""

from llama_index_rag_metrics.statistics.corrections import Correction, correct
from llama_index_rag_metrics.statistics.differences import (
    PairedBounds,
    Student,
    paired_bounds,
    pseudo_queries,
    student,
)
from llama_index_rag_metrics.statistics.intervals import (
    DifferenceBounds,
    MeanInterval,
    difference_bounds,
    mean_interval,
)
from llama_index_rag_metrics.statistics.power import detectable_difference, queries_to_decide
from llama_index_rag_metrics.statistics.resampling import NOISE, Units
from llama_index_rag_metrics.statistics.tukey import TukeyPair

__all__ = [
    "NOISE",
    "Correction",
    "DifferenceBounds",
    "MeanInterval",
    "PairedBounds",
    "Student",
    "TukeyPair",
    "Units",
    "correct",
    "detectable_difference",
    "difference_bounds",
    "mean_interval",
    "paired_bounds",
    "pseudo_queries",
    "queries_to_decide",
    "student",
]
