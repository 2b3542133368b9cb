"""Traces: what a program retrieved, read from the spans that its instrumentation recorded.

Containers (`otlp`, `mlflow_traces`, `phoenix_traces`) hold spans; `dialects` says what the
attributes of a span mean. Any container may hold any dialect.
"""

from llama_index_rag_metrics.files.traces.trace_reading import read_traces

__all__ = ["read_traces"]
