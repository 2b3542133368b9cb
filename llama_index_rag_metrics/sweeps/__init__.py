"""Sweeps: which configuration of a retriever is best, if any is, and what it costs."""

from llama_index_rag_metrics.sweeps.result import Configuration, Sweep
from llama_index_rag_metrics.sweeps.sweeping import asweep, sweep

__all__ = ["Configuration", "Sweep", "asweep", "sweep"]
