"""Values by the name of a metric: what was asked for by an alias is read by it."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any, TypeVar

from llama_index_rag_metrics.metrics.metric_names import metric
from llama_index_rag_metrics.runtime.errors import UnknownMetric

Value = TypeVar("Value")


def name_among(name: str, names: Collection[str]) -> str:
    """The one of these names that a name, perhaps another tool's, stands for.

    >>> name_among("map@10", ["mrr", "ap@10"])
    'ap@10'
    """
    if name in names:
        return name
    try:
        usual = metric(name).metric_name
    except (ValueError, TypeError):
        usual = name
    if usual not in names:
        raise UnknownMetric(name, get_close_matches(str(name), names) or tuple(names))
    return usual


class ByMetric(dict[str, Value]):
    """A dict whose values are also found by aliases of the names."""

    def __missing__(self, name: str) -> Value:
        try:
            return self[name_among(name, list(self))]
        except UnknownMetric as error:
            raise KeyError(str(error)) from None

    def __contains__(self, name: object) -> bool:
        return self.get(name, self) is not self

    def get(self, name: Any, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default
