"""Traces: what a program retrieved, read from the spans that its instrumentation recorded.

`otlp` and `containers` (MLflow, Phoenix, files) yield spans; `dialects` says what the attributes
of a span mean. Any container may hold any dialect.
"""
