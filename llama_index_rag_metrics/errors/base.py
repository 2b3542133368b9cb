"""The class that every error of this package shares."""

from __future__ import annotations


class RagMetricsError(Exception):
    """Base class of every error that this package raises on purpose.

    Examples:
        >>> from llama_index_rag_metrics import RagMetricsError, metric
        >>> try:
        ...     metric("ngcd@10")
        ... except RagMetricsError as error:
        ...     print(type(error).__name__)
        UnknownMetric
    """

    def __repr__(self) -> str:
        # what it was made of may hold a key; its message masks that
        return f"{type(self).__name__}({str(self)!r})"
