"""LlamaIndex's METRIC_REGISTRY, which `RetrieverEvaluator.from_metric_names` looks names up in."""

from __future__ import annotations

import warnings
from typing import Any

from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY

from llama_index_rag_metrics.runtime.errors import InvalidInput

from .base import NamedMetric
from .metric_names import METRICS, metric

USUAL_CUTOFFS = (1, 3, 5, 10, 20, 50, 100)
"""LlamaIndex looks names up in a plain dict, so each has to be in it beforehand."""

_registry: dict[str, Any] = METRIC_REGISTRY


class RegisteredName:
    """An entry of the registry: called, it makes the metric of its name; it may replace another."""

    def __init__(self, name: str, instead_of: Any = None) -> None:
        self.metric_name = name
        self.instead_of = instead_of

    def __call__(self) -> NamedMetric:
        return metric(self.metric_name)

    def __repr__(self) -> str:
        return f"metric({self.metric_name!r})"


def register(*metrics: type[NamedMetric] | str, replace: bool = False) -> None:
    """Add this package's names to LlamaIndex's registry: `f1`, `ndcg@10`, `granular_hit_rate`, …

    Importing the package does this once, with the cutoffs 1, 3, 5, 10, 20, 50 and 100. A name that
    exists already is left alone, so LlamaIndex's own `hit_rate` and `ndcg` stay LlamaIndex's
    unless `replace` is set; a warning says so of a name that is given.

    Args:
        metrics: classes of your own metrics, which are added to the table of metrics first; and
            names that LlamaIndex's evaluator should know besides the usual ones.
        replace: let ours replace LlamaIndex's own metrics of the same names: of those that are
            given, or of all where none is.

    Raises:
        InvalidInput: an argument is neither a metric class nor a name.
        UnknownMetric: no metric has that name.

    Examples:
        >>> from llama_index.core.evaluation import resolve_metrics
        >>> register("ndcg@7000")
        >>> resolve_metrics(["ndcg@7000"])[0]().metric_name
        'ndcg@7000'
    """
    names: list[str] = []
    for entry in metrics:
        if isinstance(entry, str):
            metric(entry)
            names.append(entry)
        elif isinstance(entry, type) and issubclass(entry, NamedMetric):
            METRICS.add(entry)
            names.append(entry.name)
        else:
            expected = "a metric class, such as a subclass of BinaryMetric, or the name of a metric"
            raise InvalidInput("register", entry, expected)
    left_alone = []
    texts = [entry for entry in metrics if isinstance(entry, str)]
    for name in dict.fromkeys((*_usual_names(), *texts)):
        present = _registry.get(name)
        if isinstance(present, RegisteredName):
            _registry[name] = RegisteredName(name, present.instead_of)
        elif present is None or (replace and (not names or name in names)):
            _registry[name] = RegisteredName(name, present)
        elif name in names:
            left_alone.append(name)
    if left_alone:
        warnings.warn(
            f"LlamaIndex's registry has {', '.join(left_alone)} already, which stays as it is: "
            "register(..., replace=True) replaces it.",
            stacklevel=2,
        )


def unregister() -> None:
    """Put LlamaIndex's registry back as it was before `register`.

    A name that other code has taken over in the meantime is left alone.

    Examples:
        >>> from llama_index_rag_metrics import register, unregister
        >>> register(replace=True)
        >>> unregister()
        >>> register()
    """
    for name, present in list(_registry.items()):
        if isinstance(present, RegisteredName):
            del _registry[name]
            if present.instead_of is not None:
                _registry[name] = present.instead_of


def _usual_names() -> list[str]:
    names: list[str] = []
    for name, entry in METRICS.items():
        if entry.needs:
            continue
        names.append(name)
        if "k" in entry.parameters:
            names += [f"{name}@{k}" for k in USUAL_CUTOFFS]
    return names
