"""Labels, checked and moved to new nodes; what to judge next; questions by an LLM."""

from .agreeing import agreement
from .checking import LabelFindings, check_labels
from .moving import MovedLabels, move_labels
from .pooling import Pool, pool
from .question_generation import generate_question_context_pairs
from .review.review_page import write_review_page

__all__ = [
    "LabelFindings",
    "MovedLabels",
    "Pool",
    "agreement",
    "check_labels",
    "generate_question_context_pairs",
    "move_labels",
    "pool",
    "write_review_page",
]
