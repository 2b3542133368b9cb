"""Labels: calibrated, where a judge gave many and people few."""

from llama_index_rag_metrics.labels.calibrating import Calibrated, Calibration, calibrate

__all__ = ["Calibrated", "Calibration", "calibrate"]
