"""What follows from scores: comparisons, sweeps, the gate, calibration."""
