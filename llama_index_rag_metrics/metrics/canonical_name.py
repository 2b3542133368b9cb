"""How a metric is spelled: the name that `metric()` reads back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llama_index_rag_metrics.metrics.base import NamedMetric


def format_name(metric: NamedMetric) -> str:
    """The name of a metric with its parameters: `name[(param=value, ...)][@k]`.

    A parameter at its default isn't named, nor is a field that is excluded from dumps: a service,
    a model. `metric()` reads the name back.
    """
    fields = type(metric).model_fields
    changed = {
        field: value
        for field, value in metric
        if not fields[field].exclude
        and (fields[field].is_required() or value != fields[field].get_default())
    }
    k, tokens = changed.pop("k", None), changed.pop("tokens", None)
    name = metric.name
    for variant, preset in metric.variants.items():
        if all(getattr(metric, field) == value for field, value in preset.items()):
            name = variant
            changed = {field: value for field, value in changed.items() if field not in preset}
            break
    parameters = ", ".join(f"{field}={_format_value(value)}" for field, value in changed.items())
    return name + (f"({parameters})" if parameters else "") + _format_cutoff(k, tokens)


def _format_cutoff(k: object, tokens: object) -> str:
    if tokens:
        return f"@{tokens}tokens"
    return f"@{k}" if k else ""


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)
