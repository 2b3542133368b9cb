"""Sweeps: which configuration of a retriever is best, if any is, and what it costs."""
