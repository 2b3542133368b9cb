"""Our names in LlamaIndex's METRIC_REGISTRY, for its own `RetrieverEvaluator.from_metric_names`."""

from __future__ import annotations

from typing import Any, TypeGuard

from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY

from llama_index_rag_metrics.metrics import NamedMetric
from llama_index_rag_metrics.naming import METRICS, metric

USUAL_CUTOFFS = (1, 3, 5, 10, 20, 50, 100)

_registry: dict[str, Any] = METRIC_REGISTRY


class RegisteredName:
    """What stands in the registry: called without arguments it makes the metric of its name.

    Args:
        name: the metric's name.
        instead_of: what stood there before, or None.
    """

    def __init__(self, name: str, instead_of: Any = None) -> None:
        self.metric_name = name
        self.instead_of = instead_of

    def __call__(self) -> NamedMetric:
        return metric(self.metric_name)

    def __repr__(self) -> str:
        return f"metric({self.metric_name!r})"


def register(*metric_classes: type[NamedMetric], replace: bool = False) -> None:
    """Add our names to LlamaIndex's registry: `f1`, `ndcg@10`, `granular_hit_rate`, …

    Importing the package does this once. A name that is there already is left alone, so
    LlamaIndex's own `hit_rate` and `ndcg` stay LlamaIndex's, unless they are to be replaced.

    Args:
        metric_classes: metrics of your own, added to the table of metrics first.
        replace: let ours answer to LlamaIndex's own names as well.

    Examples:
        >>> from llama_index.core.evaluation import resolve_metrics
        >>> resolve_metrics(["ndcg@10"])[0]().metric_name
        'ndcg@10'
    """
    for metric_class in metric_classes:
        METRICS.add(metric_class)
    for name in _names():
        held = _registry.get(name)
        if _is_ours(held):
            _registry[name] = RegisteredName(name, held.instead_of)
        elif held is None or replace:
            _registry[name] = RegisteredName(name, held)


def unregister() -> None:
    """Put LlamaIndex's registry back as it was before `register`.

    A name that somebody else has taken over in the meantime is left to them.
    """
    for name, held in list(_registry.items()):
        if not _is_ours(held):
            continue
        if held.instead_of is None:
            del _registry[name]
        else:
            _registry[name] = held.instead_of


def _is_ours(held: object) -> TypeGuard[RegisteredName]:
    """By name: after a reload of this module, what it registered before is of another class."""
    kind = type(held)
    return (kind.__module__, kind.__qualname__) == (__name__, RegisteredName.__qualname__)


def _names() -> list[str]:
    names: list[str] = []
    for name, entry in METRICS.items():
        if entry.needs:
            continue
        names.append(name)
        if "k" in entry.parameters:
            names.extend(f"{name}@{k}" for k in USUAL_CUTOFFS)
    return names
