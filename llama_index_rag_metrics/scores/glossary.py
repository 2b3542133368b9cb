"""What the metrics of a report mean, in the metrics' own words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import cleandoc

from llama_index_rag_metrics.metrics.base import NamedMetric
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.report import Term
from llama_index_rag_metrics.runtime.errors import RagMetricsError

_SIGNS = "R: how many items are relevant to the query. P: precision. n: how many were retrieved."


def glossary(metrics: Iterable[str]) -> list[Term]:
    """The meaning of each metric that the package knows.

    >>> glossary(["mrr@10"])[0].meaning
    "1 / the rank of the first hit, else 0; granular: the mean of 1 / rank over the hits. Cut ..."
    """
    terms = []
    for name in metrics:
        try:
            metric = resolve(name)
        except (RagMetricsError, ImportError):
            continue
        if isinstance(metric, NamedMetric):
            terms.append(Term(name, " ".join(_meaning(metric))))
    return [*terms, Term("Signs", _SIGNS)] if terms else []


def _meaning(metric: NamedMetric) -> Iterator[str]:
    yield cleandoc(metric.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    cutoff = getattr(metric, "k", None)
    if cutoff is not None:
        yield f"Cut off at k = {cutoff}: what comes later doesn't count."
    for name in sorted(metric.model_fields_set - {"k"}):
        field = type(metric).model_fields[name]
        if field.description:
            yield f"{name} = {getattr(metric, name)}: {field.description}."
    low, high = metric.bounds
    yield f"Range {low:g} to {high:g}.".replace("inf", "∞").replace("-", "−")
