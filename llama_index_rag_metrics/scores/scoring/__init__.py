"""Scoring stored rankings: lists, mappings and tables."""
