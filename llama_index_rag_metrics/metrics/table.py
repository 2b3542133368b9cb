"""MetricTable: metrics by their bare names, with their definitions and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from llama_index_rag_metrics.errors import DuplicateMetric, InvalidInput, UnknownParameter
from llama_index_rag_metrics.metrics.base import NamedMetric, Variants

AnyMetric = TypeVar("AnyMetric", bound=NamedMetric)

# words and single groups: nothing can be matched in two ways, so that any text takes linear time
WRITTEN_NAME = re.compile(
    r"(?P<name>11pt_avg|[A-Za-z][\w\-]*(?: +[\w\-]+)*)"
    r"(?:\s*\((?P<parameters>[^()]*)\))?(?:\s*@\s*(?P<k>[^\s@]+))?"
)


@dataclass(frozen=True)
class MetricEntry:
    """One row of the table of metrics.

    Attributes:
        name: the bare name.
        metric_class: the class.
        preset: the parameters that the name stands for, such as {"use_granular_mrr": True}.
    """

    name: str
    metric_class: type[NamedMetric]
    preset: Mapping[str, object]

    @property
    def definition(self) -> str:
        """The first sentence of the class's documentation."""
        return (self.metric_class.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ")

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters that can still be given, by name: pydantic's field information."""
        fields = self.metric_class.model_fields
        return {
            name: field
            for name, field in fields.items()
            if name not in self.preset and not field.exclude
        }

    @property
    def needs(self) -> list[str]:
        """The fields that need a value, such as a reranker."""
        fields = self.metric_class.model_fields
        return [name for name, field in fields.items() if field.is_required()]

    def build(self, parameters: Mapping[str, object]) -> NamedMetric:
        """The metric with these parameters."""
        for name in parameters:
            if name not in self.parameters:
                near = get_close_matches(name, self.parameters, n=3, cutoff=0.5)
                raise UnknownParameter(f"{self.name}({name})", near or list(self.parameters))
        return self.metric_class(**{**self.preset, **parameters})


class MetricTable(Mapping[str, MetricEntry]):
    """Every metric by its bare name, in the order of reports."""

    def __init__(self, classes: Iterable[type[NamedMetric]]) -> None:
        self._entries: dict[str, MetricEntry] = {}
        for metric_class in classes:
            self.add(metric_class)

    def add(self, metric_class: type[AnyMetric]) -> type[AnyMetric]:
        """Put a metric class into the table, with its variants; it can then be called by name.

        A class of the same qualified name, as from a notebook cell run twice, is replaced.

        Raises:
            DuplicateMetric: another metric has the name.
            InvalidInput: the class has no name, or one that `metric()` couldn't read.
        """
        presets: Variants = {getattr(metric_class, "name", ""): {}, **metric_class.variants}
        for name in presets:
            match = WRITTEN_NAME.fullmatch(name.strip())
            if match is None or match["name"] != name:
                expected = "letters, digits and underscores, such as name = 'my_metric'"
                raise InvalidInput(f"name of {metric_class.__name__}", name, expected)
            known = self._entries.get(name)
            if known is not None and _identity(known.metric_class) != _identity(metric_class):
                raise DuplicateMetric(name)
        for name, preset in presets.items():
            self._entries[name] = MetricEntry(name, metric_class, dict(preset))
        return metric_class

    def remove(self, metric_class: type[NamedMetric]) -> None:
        """Take a metric class out of the table again."""
        for name in (metric_class.name, *metric_class.variants):
            if name in self._entries and self._entries[name].metric_class is metric_class:
                del self._entries[name]

    def __getitem__(self, name: str) -> MetricEntry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _identity(metric_class: type) -> tuple[str, str]:
    return metric_class.__module__, metric_class.__qualname__
