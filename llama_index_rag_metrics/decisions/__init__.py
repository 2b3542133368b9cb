"""What follows from scores: comparisons, sweeps, stages, the gate."""
