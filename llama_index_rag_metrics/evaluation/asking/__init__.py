"""Asking the queries of a dataset, several at once, and keeping what came back."""
