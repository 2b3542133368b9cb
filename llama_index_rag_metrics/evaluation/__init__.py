"""Evaluation: asks a retriever every question of a dataset and scores what it returns."""
