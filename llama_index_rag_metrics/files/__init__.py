"""Datasets, runs and qrels in and out of files; what a format can't hold is an error."""
