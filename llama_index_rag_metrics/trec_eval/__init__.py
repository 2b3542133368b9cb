"""trec_eval's report: its names of measures, its averages, its lines."""

from llama_index_rag_metrics.trec_eval.measures import (
    LEFT_OUT,
    Column,
    Version,
    at_level,
    columns,
    leaves_out,
    metrics_of,
)
from llama_index_rag_metrics.trec_eval.output import report_lines

__all__ = [
    "LEFT_OUT",
    "Column",
    "Version",
    "at_level",
    "columns",
    "leaves_out",
    "metrics_of",
    "report_lines",
]
