"""Judging: a ranking and its relevance become hits at ranks. No metric ever sees an id."""
