"""Lists of ids, compared by 64-bit hashes: which repeat an earlier one, and which are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.runtime.arrays import BoolArray, IntArray

Keys: TypeAlias = npt.NDArray[np.uint64]
Halves: TypeAlias = npt.NDArray[np.uint32]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd number, by which a list's position is spread over 64 bits."""

_FEW = 32
"""Up to this many wanted members are looked for one by one; more are looked up by key."""

_MOST_FILLED = 2
"""Rows of unequal length may take this many times the space of their members."""


@dataclass(eq=False)
class HashedLists:
    """Lists of hashes, flat."""

    value: Keys
    counts: IntArray

    @cached_property
    def begin(self) -> IntArray:
        """(lists,) the position of each list's first member."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def longest(self) -> int:
        return int(self.counts.max(initial=0))

    @cached_property
    def half(self) -> Halves:
        return self.value.astype(np.uint32)

    @cached_property
    def rows(self) -> Halves | None:
        """(lists, longest) the lower halves, a list a row; None where most of it would be empty."""
        n_lists, longest = len(self.counts), self.longest
        if n_lists * longest == len(self.value):
            return self.half.reshape(n_lists, longest)
        if n_lists * longest > _MOST_FILLED * len(self.value):
            return None
        place = np.arange(longest, dtype=np.uint32)
        rows = np.tile(place, (n_lists, 1))
        rows[place < self.counts[:, np.newaxis]] = self.half
        return rows

    @cached_property
    def key(self) -> Keys:
        """(items,) a hash of each member together with its list."""
        spread = np.arange(len(self.counts), dtype=np.uint64) * _SPREAD
        return np.asarray(np.repeat(spread, self.counts) ^ self.value, np.uint64)

    def repeats(self) -> tuple[IntArray, IntArray]:
        """The members that agree with an earlier one of their list, and an earlier one of each."""
        if self.rows is None:
            order = np.argsort(self.key, kind="stable")
            is_again = self.key[order[1:]] == self.key[order[:-1]]
            return order[1:][is_again], order[:-1][is_again]
        # only the lists in which two halves agree are sorted by whole hashes
        in_order = np.sort(self.rows, axis=1)
        lists = np.flatnonzero((in_order[:, 1:] == in_order[:, :-1]).any(axis=1))
        begin, count = self.begin[lists, np.newaxis], self.counts[lists, np.newaxis]
        place = np.minimum(np.arange(self.longest), count - 1)
        value = self.value[begin + place]
        order = np.argsort(value, axis=1, kind="stable")
        value = np.take_along_axis(value, order, axis=1)
        is_again = (value[:, 1:] == value[:, :-1]) & (order[:, 1:] < count)
        position = begin + order
        return position[:, 1:][is_again], position[:, :-1][is_again]

    def find(self, wanted: HashedLists) -> tuple[IntArray, IntArray]:
        """The positions of the members that are wanted in their list, and of each one's equal."""
        if self.rows is None or wanted.longest > _FEW or not len(self.value):
            return self._find_by_key(wanted)
        members, equals = [np.array([], np.int64)], [np.array([], np.int64)]
        for nth in range(wanted.longest):
            has_nth: BoolArray = wanted.counts > nth
            sought = np.where(has_nth, wanted.begin + nth, 0)
            agrees = self.rows == wanted.half[sought][:, np.newaxis]
            row, place = np.divmod(np.flatnonzero(agrees), self.longest)
            is_there = has_nth[row] & (place < self.counts[row])
            member, equal = (self.begin[row] + place)[is_there], sought[row[is_there]]
            is_equal = self.value[member] == wanted.value[equal]
            members.append(member[is_equal])
            equals.append(equal[is_equal])
        member, equal = np.concatenate(members), np.concatenate(equals)
        order = np.argsort(member)
        return member[order], equal[order]

    def _find_by_key(self, wanted: HashedLists) -> tuple[IntArray, IntArray]:
        order = np.argsort(wanted.key)
        place = np.searchsorted(wanted.key, self.key, sorter=order)
        place[place == len(order)] = 0
        if not len(order):
            return place[:0], place[:0]
        equal = order[place]
        member = np.flatnonzero(wanted.key[equal] == self.key)
        return member, equal[member]
