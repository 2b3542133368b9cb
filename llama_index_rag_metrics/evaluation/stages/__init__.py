"""Stages: a retriever alone and after each of its postprocessors."""
