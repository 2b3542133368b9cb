"""trec_eval's report: its names of measures, its averages, its lines."""

from llama_index_rag_metrics.report.trec_eval.measures import Column, at_level, columns, metrics_of
from llama_index_rag_metrics.report.trec_eval.output import report_lines

__all__ = ["Column", "at_level", "columns", "metrics_of", "report_lines"]
