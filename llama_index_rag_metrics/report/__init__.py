"""Reports: what people look at. `model` is a result as plain data; one file renders each output."""

from llama_index_rag_metrics.report.model import (
    Cell,
    Listing,
    Records,
    Report,
    Row,
    Section,
    Statement,
    Table,
    Tone,
    headline,
)

__all__ = [
    "Cell",
    "Listing",
    "Records",
    "Report",
    "Row",
    "Section",
    "Statement",
    "Table",
    "Tone",
    "headline",
]
