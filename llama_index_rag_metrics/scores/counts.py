"""How many questions scores are of, and which ones belong together: slices and clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias

from llama_index_rag_metrics.files.conversations import CONVERSATION
from llama_index_rag_metrics.runtime.containers import IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import number_clusters

Reason: TypeAlias = Literal["unjudged", "no_relevant", "failed", "not asked"]


@dataclass(frozen=True)
class Counts:
    """How many queries the means are taken over, and how many are special.

    `failed` and `empty` are counted among all queries: those that also count as `no_relevant` or
    `unjudged` are left out of the means with them.

    Attributes:
        scored: those of all `queries` that the means are taken over.
        failed: the retriever failed; scored 0, unless `failed="exclude"` or less is better. Of
            several runs, in any of them.
        empty: nothing was retrieved, without an error; scored 0. Of several runs, in any of them.
        no_relevant: judged, but with nothing relevant; left out unless `no_relevant="zero"`.
        unjudged: without any relevance given; left out.
        not_asked: labelled, but not in the log that is scored, as traces are; left out.
    """

    queries: int = 0
    scored: int = 0
    failed: int = 0
    empty: int = 0
    no_relevant: int = 0
    unjudged: int = 0
    not_asked: int = 0

    @property
    def left_out(self) -> list[str]:
        """How many are left out of the means, and why, in words."""
        reasons = {
            "not asked": self.not_asked,
            "without labels": self.unjudged,
            "with nothing relevant": self.no_relevant,
        }
        return [f"{n:,} {reason}" for reason, n in reasons.items() if n]


def slice_of(value: object) -> str | None:
    """The slice of a value of metadata: values that print alike share one, as do 1 and 1.0."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None if value is None else str(value)


def unknown_key(argument: str, key: str, metadata: Mapping[str, Mapping[str, Any]]) -> InvalidInput:
    keys = sorted(set(map(str, chain.from_iterable(metadata.values()))))
    if keys:
        return InvalidInput(argument, key, f"a key of the questions' metadata: {keys}")
    remedy = "They have none: give RetrievalDataset(…, metadata=…), or other fields in its file."
    return InvalidInput(argument, key, "a key of the questions' metadata", remedy)


def clusters_of(
    key: str | None, query_ids: Sequence[str], metadata: Mapping[str, Mapping[str, Any]]
) -> IntArray | None:
    """(queries,) the number of each question's cluster, or conversation; None if all have none."""
    clusters = []
    for query_id in query_ids:
        name = slice_of(metadata.get(query_id, {}).get(key or CONVERSATION))
        clusters.append((name, query_id if name is None else ""))
    if key is not None and all(name is None for name, _ in clusters):
        raise unknown_key("clusters", key, metadata)
    if key is None and len(set(clusters)) == len(clusters):
        return None
    return number_clusters(clusters)
