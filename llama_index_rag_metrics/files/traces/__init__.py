"""Traces: what a program retrieved, read from the spans that its instrumentation recorded.

`otlp` and `containers` (MLflow, Phoenix, files) yield spans; `dialects` says what the attributes
of a span mean. Any container may hold any dialect.
"""

from llama_index_rag_metrics.files.traces.trace_reading import read_traces

__all__ = ["read_traces"]
