"""The results of an evaluation, their curves and their report."""
