"""Unknown and duplicate names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from llama_index_rag_metrics.errors.base import RagMetricsError
from llama_index_rag_metrics.wording import shorten


class UnknownName(RagMetricsError, ValueError):
    """An unknown name, with the nearest known ones."""

    kind: ClassVar[str] = "name"
    remedy: ClassVar[str] = ""

    def __init__(self, given: str, nearest: Sequence[str] = ()) -> None:
        super().__init__(given, tuple(nearest))
        self.given = given
        self.nearest = tuple(nearest)

    def __str__(self) -> str:
        guess = f" Did you mean {' or '.join(map(repr, self.nearest))}?" if self.nearest else ""
        return f"unknown {self.kind} {shorten(self.given)}.{guess} {self.remedy}".rstrip()


class UnknownMetric(UnknownName):
    """No metric has this name."""

    kind = "metric"
    remedy = "`rag-metrics metrics` lists every metric with its parameters."


class UnknownParameter(UnknownName):
    """The metric has no such parameter."""

    kind = "metric parameter"


class DuplicateMetric(RagMetricsError, ValueError):
    """Two metrics of one evaluation have the same name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def __str__(self) -> str:
        return (
            f"two metrics are called {self.args[0]!r}, and one would overwrite the other. "
            "Drop one, or give it other parameters: they are part of the name."
        )
