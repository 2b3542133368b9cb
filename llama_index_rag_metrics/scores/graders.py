"""Who graded: what a report begins with where an LLM did, not people."""

from __future__ import annotations

from collections.abc import Iterable

from llama_index_rag_metrics.metrics.texts import TextMetric

GRADED = "Graded by "
"""What each such sentence begins with."""

_OF_LABELS = (
    GRADED + "{model}, not by people; only retrieved passages were graded, so recall is too high"
)
_OF_METRIC = GRADED + "{model}, not by people: {metric} is from {low:g} to {high:g}"


def graders_of_labels(labels: Iterable[object]) -> list[str]:
    """A sentence on each LLM that graded labels."""
    models = {getattr(relevance, "graded_by", "") for relevance in labels} - {""}
    return [_OF_LABELS.format(model=model) for model in sorted(models)]


def graders_of_metrics(metrics: Iterable[object]) -> list[str]:
    """A sentence on each metric whose scores are an LLM's grades."""
    sentences = []
    for metric in metrics:
        if isinstance(metric, TextMetric) and (model := metric.graded_by):
            low, high = metric.bounds
            name = metric.metric_name
            sentences.append(_OF_METRIC.format(model=model, metric=name, low=low, high=high))
    return sentences
