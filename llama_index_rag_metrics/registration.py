"""Our names in LlamaIndex's METRIC_REGISTRY, for its own `RetrieverEvaluator.from_metric_names`."""

from __future__ import annotations

from typing import Any

from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY

from llama_index_rag_metrics.metrics import NamedMetric
from llama_index_rag_metrics.naming import METRICS, metric

USUAL_CUTOFFS = (1, 3, 5, 10, 20, 50, 100)

_registry: dict[str, Any] = METRIC_REGISTRY
_ours: dict[str, RegisteredName] = {}
_theirs: dict[str, Any] = {}


class RegisteredName:
    """What stands in the registry: called without arguments it makes the metric of its name."""

    def __init__(self, name: str) -> None:
        self.metric_name = name

    def __call__(self) -> NamedMetric:
        return metric(self.metric_name)

    def __repr__(self) -> str:
        return f"metric({self.metric_name!r})"


def register(*metric_classes: type[NamedMetric], replace: bool = False) -> None:
    """Add our names to LlamaIndex's registry: `f1`, `ndcg@10`, `granular_hit_rate`, …

    Importing the package does this once. A name that is there already is left alone, so LlamaIndex's
    own `hit_rate` and `ndcg` stay LlamaIndex's, unless they are to be replaced.

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
        if held is None or (replace and held is not _ours.get(name)):
            if held is not None:
                _theirs[name] = held
            _registry[name] = _ours[name] = RegisteredName(name)


def unregister() -> None:
    """Put LlamaIndex's registry back as it was before `register`.

    A name that somebody else has taken over in the meantime is left to them.
    """
    for name, registered in _ours.items():
        if _registry.get(name) is registered:
            del _registry[name]
            if name in _theirs:
                _registry[name] = _theirs[name]
    _ours.clear()
    _theirs.clear()


def _names() -> list[str]:
    names: list[str] = []
    for name, entry in METRICS.items():
        if any(field.is_required() for field in entry.parameters.values()):
            continue
        names.append(name)
        if "k" in entry.parameters:
            names.extend(f"{name}@{k}" for k in USUAL_CUTOFFS)
    return names
