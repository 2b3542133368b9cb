"""Parts of Scores that nobody can write into, and plain ones of them for pickling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from llama_index_rag_metrics.judging import FloatArray


def frozen_column(column: Sequence[float] | FloatArray) -> FloatArray:
    """A copy that can't be written into."""
    scores = np.array(column, np.float64)
    scores.flags.writeable = False
    return scores


def frozen_rows(
    rows: Mapping[str, Mapping[str, Any]],
) -> MappingProxyType[str, MappingProxyType[str, Any]]:
    """Copies of rows that can't be written into."""
    return MappingProxyType({key: MappingProxyType(dict(row)) for key, row in rows.items()})


def thawed(value: Any) -> Any:
    """Mappings that can be pickled."""
    if isinstance(value, (dict, MappingProxyType)):
        return {key: thawed(part) for key, part in value.items()}
    return value
