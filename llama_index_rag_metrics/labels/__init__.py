"""Labels: checked against what can be retrieved today, and moved to it; what to judge next.

People judge it in a page. Where a judge gave many labels and people few, they are calibrated.
"""

from llama_index_rag_metrics.decisions.calibration import Calibrated, Calibration, calibrate
from llama_index_rag_metrics.labels.checking import check_labels, remember_texts
from llama_index_rag_metrics.labels.judge_agreement import Agreement, agreement
from llama_index_rag_metrics.labels.judge_checking import (
    GradeChange,
    JudgeCheck,
    PlaceEffect,
    acheck_judge,
    check_judge,
)
from llama_index_rag_metrics.labels.label_findings import Coverage, Finding, LabelFindings
from llama_index_rag_metrics.labels.label_pool import PairOutlook, Pool, PoolItem
from llama_index_rag_metrics.labels.moving import Move, MovedLabels, move_labels
from llama_index_rag_metrics.labels.pooling import pool
from llama_index_rag_metrics.labels.review import (
    ReviewerAgreement,
    compare_reviewers,
    read_judgements,
    write_review_page,
)

__all__ = [
    "Agreement",
    "Calibrated",
    "Calibration",
    "Coverage",
    "Finding",
    "GradeChange",
    "JudgeCheck",
    "LabelFindings",
    "Move",
    "MovedLabels",
    "PairOutlook",
    "PlaceEffect",
    "Pool",
    "PoolItem",
    "ReviewerAgreement",
    "acheck_judge",
    "agreement",
    "calibrate",
    "check_judge",
    "check_labels",
    "compare_reviewers",
    "move_labels",
    "pool",
    "read_judgements",
    "remember_texts",
    "write_review_page",
]
