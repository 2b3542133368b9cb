"""Datasets, Runs and Relevance in and out of files: one module a format.

A reader returns a `DatasetContent`, a writer takes one; what a format can't hold is an error, never
a silent loss. Reading errors carry the file, the line and what was expected there. `runs` reads
and writes runs and qrels by themselves.
"""
