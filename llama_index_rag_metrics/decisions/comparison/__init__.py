"""Several systems beside a baseline, paired by question; one interval decides."""
