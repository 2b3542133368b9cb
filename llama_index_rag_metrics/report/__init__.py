"""Reports: what people look at. `model` is a result as plain data; one file renders each output.

Builders of reports take the parts from here; renderers import `model`, and nothing else.
"""

from llama_index_rag_metrics.report.model import (
    Answer,
    Cell,
    Item,
    Listing,
    QueryAnswers,
    Records,
    Report,
    ReportedItem,
    Row,
    Section,
    Statement,
    Table,
    Tone,
    headline,
)

__all__ = [
    "Answer",
    "Cell",
    "Item",
    "Listing",
    "QueryAnswers",
    "Records",
    "Report",
    "ReportedItem",
    "Row",
    "Section",
    "Statement",
    "Table",
    "Tone",
    "headline",
]
