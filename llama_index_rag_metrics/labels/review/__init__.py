"""Review by people: the page in which they judge a pool, what they said, and how far they agree."""

from llama_index_rag_metrics.labels.review.review_items import (
    SCALES,
    Choice,
    ItemKey,
    ReviewItem,
    ReviewPool,
    Scale,
)
from llama_index_rag_metrics.labels.review.review_judgements import (
    Judgement,
    MergedJudgements,
    read_judgements,
    read_reviews,
    write_reviews,
)
from llama_index_rag_metrics.labels.review.review_page import write_review_page
from llama_index_rag_metrics.labels.review.reviewers import (
    Disagreement,
    ReviewerAgreement,
    ScaleAgreement,
    compare_reviewers,
)

__all__ = [
    "SCALES",
    "Choice",
    "Disagreement",
    "ItemKey",
    "Judgement",
    "MergedJudgements",
    "ReviewItem",
    "ReviewPool",
    "ReviewerAgreement",
    "Scale",
    "ScaleAgreement",
    "compare_reviewers",
    "read_judgements",
    "read_reviews",
    "write_review_page",
    "write_reviews",
]
