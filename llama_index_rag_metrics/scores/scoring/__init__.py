"""Scoring stored rankings: lists and mappings, tables, and files of any size."""
