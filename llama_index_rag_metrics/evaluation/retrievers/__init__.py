"""Retrievers, engines and functions, asked in the way that works, with their postprocessors."""
