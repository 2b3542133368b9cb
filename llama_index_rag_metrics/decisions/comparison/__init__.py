"""Comparison: from scores to decisions, with the uncertainty beside every number."""
