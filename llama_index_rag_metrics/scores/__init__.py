"""Scores: query ids × metric names; what they mean together with what was retrieved."""
