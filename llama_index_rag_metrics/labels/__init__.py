"""Labels: checked against what can be retrieved today, and moved to it; what to judge next.

People judge it in a page. Where a judge gave many labels and people few, they are calibrated.
"""

from llama_index_rag_metrics.labels.calibration.calibrate import Calibrated, Calibration, calibrate
from llama_index_rag_metrics.labels.checking.check import check_labels
from llama_index_rag_metrics.labels.checking.findings import Coverage, Finding, LabelFindings
from llama_index_rag_metrics.labels.judge.agreement import Agreement, agreement
from llama_index_rag_metrics.labels.judge.check import acheck_judge, check_judge
from llama_index_rag_metrics.labels.judge.result import GradeChange, JudgeCheck, SelfPreference
from llama_index_rag_metrics.labels.moving.move import move_labels
from llama_index_rag_metrics.labels.moving.moves import Move, MovedLabels
from llama_index_rag_metrics.labels.pooling.choose import pool
from llama_index_rag_metrics.labels.pooling.result import PairOutlook, Pool, PoolItem
from llama_index_rag_metrics.labels.remembering import remember_texts
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
    "Pool",
    "PoolItem",
    "ReviewerAgreement",
    "SelfPreference",
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
