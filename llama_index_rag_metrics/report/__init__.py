"""Reports: what people look at. `model` is a result as plain data; one file renders each output.

Builders of reports take the parts from here; renderers import `model`, and nothing else.
"""

from llama_index_rag_metrics.report.model import (
    Answer,
    CallAnswer,
    Cell,
    Failure,
    Item,
    Listing,
    Place,
    Queries,
    QueryAnswers,
    Records,
    Report,
    ReportedItem,
    Row,
    Section,
    SliceKey,
    Statement,
    Table,
    Term,
    Tone,
    headline,
)

__all__ = [
    "Answer",
    "CallAnswer",
    "Cell",
    "Failure",
    "Item",
    "Listing",
    "Place",
    "Queries",
    "QueryAnswers",
    "Records",
    "Report",
    "ReportedItem",
    "Row",
    "Section",
    "SliceKey",
    "Statement",
    "Table",
    "Term",
    "Tone",
    "headline",
]
