"""Runs and qrels in and out: files of every usual format, and what other tools hold in memory."""

from llama_index_rag_metrics.formats.judgements import Qrels
from llama_index_rag_metrics.formats.runs.reading import (
    qrels_format,
    read_qrels,
    read_run,
    run_format,
)
from llama_index_rag_metrics.formats.runs.writing import write_qrels, write_run

__all__ = [
    "Qrels",
    "qrels_format",
    "read_qrels",
    "read_run",
    "run_format",
    "write_qrels",
    "write_run",
]
