"""Scores by names of metrics and by metadata."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from llama_index_rag_metrics.runtime.errors import InvalidInput, NotScored


def name_among(name: str, names: Collection[str]) -> str:
    """The name of a metric that is among those that were scored."""
    if name not in names:
        raise NotScored(name, tuple(names))
    return name


def slice_of(value: object) -> str | None:
    """The slice of a value of metadata: values that print alike share one, as do 1 and 1.0."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None if value is None else str(value)


def unknown_key(argument: str, key: str, metadata: Mapping[str, Mapping[str, Any]]) -> InvalidInput:
    keys: set[str] = set()
    for row in metadata.values():
        keys.update(map(str, row))
    if keys:
        return InvalidInput(argument, key, f"a key of the questions' metadata: {sorted(keys)}")
    remedy = "They have none: score with metadata=, or with --dataset DATASET."
    return InvalidInput(argument, key, "a key of the questions' metadata", remedy)
