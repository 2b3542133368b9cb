"""A question's story: what a metric wants, where each system found or lost it; their reports."""
