"""Traces: `otlp` and `containers` yield spans; `dialects` says what their attributes mean."""
