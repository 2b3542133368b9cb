"""The cache: nothing paid is asked twice."""
