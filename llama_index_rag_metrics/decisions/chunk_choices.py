"""Which chunks of a document a perfect retriever would take: on a line, chosen exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Line:
    """(parts, 2) what is wanted of a document, without overlaps, and the chunks that have some."""

    wanted: IntArray
    chunks: IntArray

    def counts(self, chosen: Sequence[int]) -> tuple[int, int]:
        """How many wanted characters these chunks have, and how many characters in all."""
        union = merged(self.chunks[chosen])
        return length(shared(self.wanted, union)), length(union)

    def best(self, worth: float, price: float, costs: FloatArray | None = None) -> list[int]:
        """The chunks worth most by their wanted characters, less a price of others, less costs.

        A selection of which no chunk lies within another, by its starts, is ordered by its ends,
        too. So it is the best chain of chunks, each of which adds what is behind the one before.
        """
        start, end = self.chunks.T
        until_start, until_end = (self._wanted_before(place) for place in self.chunks.T)
        total, before = np.zeros(len(start)), np.full(len(start), -1)
        for chunk in range(len(start)):
            found = until_end[chunk] - np.maximum(until_start[chunk], until_end[:chunk])
            others = end[chunk] - np.maximum(start[chunk], end[:chunk]) - found
            follows = np.where(end[:chunk] <= end[chunk], total[:chunk], -math.inf)
            alone = until_end[chunk] - until_start[chunk]
            value = np.append(
                worth * found - price * others + follows,
                worth * alone - price * (end[chunk] - start[chunk] - alone),
            )
            nearest = int(value.argmax())
            total[chunk] = value[nearest] - (0.0 if costs is None else costs[chunk])
            before[chunk] = nearest if nearest < chunk else -1
        chain = []
        chunk = int(total.argmax()) if (total > 0).any() else -1
        while chunk >= 0:
            chain.append(chunk)
            chunk = int(before[chunk])
        return chain

    def fewest(self, tokens: FloatArray) -> list[int]:
        """The chunks that together have all that any has of the wanted, with the fewest tokens."""
        return self.best(1 + tokens.sum(), 0.0, tokens)

    def _wanted_before(self, place: IntArray) -> IntArray:
        first, last = self.wanted.T
        counts: IntArray = np.clip(place[:, np.newaxis] - first, 0, last - first).sum(axis=1)
        return counts


def best_overlap(lines: Sequence[Line]) -> float:
    """The highest |E∩T| / |E∪T| of any selection of chunks, found by Dinkelbach's method."""
    wanted = sum(length(line.wanted) for line in lines)
    best = 0.0
    while True:
        counts = [line.counts(line.best(1.0, best)) for line in lines]
        found, taken = (sum(column) for column in zip(*counts, strict=True))
        ratio = found / (wanted + taken - found)
        if ratio <= best * (1 + 1e-12):
            return best
        best = ratio


def merged(parts: IntArray) -> IntArray:
    """(parts, 2) the same characters without overlaps, in order.

    >>> merged(np.array([[4, 9], [0, 2], [8, 12]])).tolist()
    [[0, 2], [4, 12]]
    """
    apart: list[list[int]] = []
    for start, end in sorted(parts.tolist()):
        if apart and start <= apart[-1][1]:
            apart[-1][1] = max(apart[-1][1], end)
        else:
            apart.append([start, end])
    return np.array(apart, np.int64).reshape(-1, 2)


def shared(parts: IntArray, others: IntArray) -> IntArray:
    """(parts, 2) the characters that are in both.

    >>> shared(np.array([[0, 5], [8, 9]]), np.array([[3, 6], [4, 9]])).tolist()
    [[3, 5], [8, 9]]
    """
    start = np.maximum(parts[:, :1], others[:, 0]).ravel()
    end = np.minimum(parts[:, 1:], others[:, 1]).ravel()
    return merged(np.stack([start, end], axis=1)[start < end])


def length(parts: IntArray) -> int:
    """How many characters parts without overlaps have."""
    return int((parts[:, 1] - parts[:, 0]).sum())
