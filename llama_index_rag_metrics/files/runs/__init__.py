"""Runs and qrels in and out: files of every usual format, and what other tools hold in memory."""

from llama_index_rag_metrics.files.judgements import Qrels
from llama_index_rag_metrics.files.runs.read_runs import (
    qrels_format,
    read_qrels,
    read_run,
    run_format,
)
from llama_index_rag_metrics.files.runs.write_runs import write_qrels, write_run

__all__ = [
    "Qrels",
    "qrels_format",
    "read_qrels",
    "read_run",
    "run_format",
    "write_qrels",
    "write_run",
]
