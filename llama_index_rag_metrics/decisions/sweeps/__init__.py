"""Sweeps: which configuration of a retriever is best, if any is, and what it costs."""

from llama_index_rag_metrics.decisions.sweeps.sweep_result import Configuration, Sweep
from llama_index_rag_metrics.decisions.sweeps.sweeping import asweep, sweep

__all__ = ["Configuration", "Sweep", "asweep", "sweep"]
