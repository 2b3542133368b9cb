"""Scores by names of metrics and by metadata; digests of rankings and labels."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from llama_index_rag_metrics.metrics.metric_names import metric
from llama_index_rag_metrics.rankings.relevance import RelevanceLike, as_relevance
from llama_index_rag_metrics.runtime.errors import InvalidInput, NotScored, UnknownMetric

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

Value = TypeVar("Value")

_DIGEST_DIGITS = 12


def name_among(name: str, names: Collection[str]) -> str:
    """The one of these names that a name, perhaps another tool's, stands for."""
    if name in names:
        return name
    try:
        target = metric(name)
    except (ValueError, TypeError):
        near = get_close_matches(str(name), names) or tuple(names)
        raise UnknownMetric(name, near) from None
    for candidate in names:
        if _stands_for(candidate, target):
            return candidate
    raise NotScored(name, tuple(names))


def _stands_for(name: str, wanted: BaseRetrievalMetric) -> bool:
    """Whether a name is that of the same metric with the same parameters."""
    try:
        named = metric(name)
    except (ValueError, TypeError, ImportError):  # of a metric that isn't the package's
        return False
    return type(named) is type(wanted) and named.model_dump() == wanted.model_dump()


def slice_of(value: object) -> str | None:
    """The slice of a value of metadata: values that print alike share one, as do 1 and 1.0."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None if value is None else str(value)


def rows_by(
    key: str, query_ids: Iterable[str], metadata: Mapping[str, Mapping[str, Any]], argument: str
) -> dict[str | None, list[int]]:
    """Positions of queries by the slice that they belong to; without one under None."""
    rows: dict[str | None, list[int]] = {}
    for row, query_id in enumerate(query_ids):
        rows.setdefault(slice_of(metadata.get(query_id, {}).get(key)), []).append(row)
    if set(rows) <= {None}:
        raise unknown_key(argument, key, metadata)
    return rows


def unknown_key(argument: str, key: str, metadata: Mapping[str, Mapping[str, Any]]) -> InvalidInput:
    keys: set[str] = set()
    for row in metadata.values():
        keys.update(map(str, row))
    if keys:
        return InvalidInput(argument, key, f"a key of the questions' metadata: {sorted(keys)}")
    remedy = "They have none: score with metadata=, or with --dataset DATASET."
    return InvalidInput(argument, key, "a key of the questions' metadata", remedy)


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


def ranking_digest(ids: Sequence[str]) -> str:
    """A short digest of the ids in their order."""
    texts = list(map(str, ids))
    joined = '","'.join(texts)
    is_plain = joined.isascii() and joined.isprintable() and "\\" not in joined
    if texts and is_plain and joined.count('"') == 2 * (len(texts) - 1):
        encoded = f'["{joined}"]'  # what json makes of it, in a third of the time
    else:
        encoded = json.dumps(texts, separators=(",", ":"))
    return sha256(encoded.encode("ascii")).hexdigest()[:_DIGEST_DIGITS]


def label_digest(labels: RelevanceLike) -> str:
    """A short digest of a query's labels."""
    judged = as_relevance(labels)
    grades = sorted((str(item), float(grade)) for item, grade in judged.grades.items())
    groups = sorted(sorted(map(str, group)) for group in judged.alternatives or ())
    encoded = json.dumps([grades, groups], separators=(",", ":"))
    return sha256(encoded.encode("ascii")).hexdigest()[:_DIGEST_DIGITS]


def of_queries(wanted: Collection[str], by_query: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a mapping that is about some queries."""
    return {query_id: by_query[query_id] for query_id in by_query if query_id in wanted}
