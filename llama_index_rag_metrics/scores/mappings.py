"""The mappings that scores hold, by metric, lazy and frozen; and queries by their metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from llama_index_rag_metrics.metrics.metric_names import metric
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
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
        wanted = metric(name)
    except (ValueError, TypeError):
        near = get_close_matches(str(name), names) or tuple(names)
        raise UnknownMetric(name, near) from None
    for candidate in names:
        if _stands_for(candidate, wanted):
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
    known = sorted({str(key) for row in metadata.values() for key in row})
    if known:
        return InvalidInput(argument, key, f"a key of the questions' metadata: {known}")
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


class LazyMapping(Mapping[str, Value]):
    """A mapping that can't be written into, each value worked out when it is asked for."""

    def __init__(self, keys: Iterable[str], value_of: Callable[[str], Value]) -> None:
        self._keys = dict.fromkeys(keys)
        self._value_of = value_of

    def select(self, keys: Collection[str]) -> LazyMapping[Value]:
        """The values of some of the keys only."""
        return LazyMapping(filter(keys.__contains__, self), self._value_of)

    def __getitem__(self, key: str) -> Value:
        if key not in self._keys:
            raise KeyError(key)
        return self._value_of(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def lazy_digests(query_ids: Sequence[str], rankings: Sequence[Sequence[str]]) -> LazyMapping[str]:
    """The digest of each query's ids, by which the gate detects an unchanged system.

    Nothing is copied: the ids are those of a `Run`, which don't change.
    """
    ids = dict(zip(query_ids, rankings, strict=True))
    return LazyMapping(ids, cache(lambda query_id: ranking_digest(ids[query_id])))


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


def label_digests(relevance: Mapping[str, RelevanceLike]) -> LazyMapping[str]:
    """The digest of each query's labels: their grades, and their groups or facets."""
    return LazyMapping(relevance, cache(lambda query_id: label_digest(relevance[query_id])))


def label_digest(labels: RelevanceLike) -> str:
    """A short digest of a query's labels."""
    judged = Relevance(labels)
    grades = sorted((str(item), float(grade)) for item, grade in judged.grades.items())
    groups = sorted(sorted(map(str, group)) for group in judged.alternatives or ())
    encoded = json.dumps([grades, groups], separators=(",", ":"))
    return sha256(encoded.encode("ascii")).hexdigest()[:_DIGEST_DIGITS]


def of_queries(wanted: Collection[str], by_query: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a mapping that is about some queries; a lazy one stays lazy."""
    if isinstance(by_query, LazyMapping):
        return by_query.select(wanted)
    return {query_id: by_query[query_id] for query_id in by_query if query_id in wanted}


def frozen(mapping: Mapping[str, Any], depth: int = 1) -> Mapping[str, Any]:
    """A copy of so many levels that can't be written into; a lazy mapping stays lazy."""
    if isinstance(mapping, LazyMapping):
        return mapping
    parts = dict(mapping)
    if depth > 1:
        parts = {key: frozen(part, depth - 1) for key, part in parts.items()}
    return MappingProxyType(parts)


def thawed(value: Any) -> Any:
    """Nested mappings as dicts, for pickling."""
    if isinstance(value, Mapping):
        return {key: thawed(part) for key, part in value.items()}
    return value
