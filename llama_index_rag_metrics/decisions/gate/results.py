"""What a gate judges: results of an evaluation, bare scores, or what `calibrate` made of both."""

from __future__ import annotations

from typing import TypeAlias

from llama_index_rag_metrics.decisions.calibration import Calibration
from llama_index_rag_metrics.evaluation import EvaluationResults
from llama_index_rag_metrics.scores import Scores

Results: TypeAlias = "EvaluationResults | Scores | Calibration"


def scores_of(results: Results) -> Scores:
    """The scores of some results; where they were calibrated, people's."""
    if isinstance(results, Calibration):
        return results.human
    return results if isinstance(results, Scores) else results.scores


def judge_of(results: Results) -> Scores | None:
    """A judge's scores, where results were calibrated."""
    return results.judge if isinstance(results, Calibration) else None
