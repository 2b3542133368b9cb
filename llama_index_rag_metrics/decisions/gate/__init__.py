"""The gate: from numbers to a verdict on a change, against a stored baseline."""
