"""Lists of ids as 64-bit hashes: which members repeat an earlier one, and which are wanted.

Both are told for many lists at once, by the way that suits their sizes. Ids of one hash may differ:
whoever has the ids compares them.

Tables of slots built by hand stand here for their speed alone, which `benchmarks/large_files.py`
measures on Arrow columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.runtime.arrays import IntArray

Keys: TypeAlias = npt.NDArray[np.uint64]
Halves: TypeAlias = npt.NDArray[np.uint32]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd number, by which a list's position is spread over 64 bits."""

_FEW = 32
"""Up to this many wanted members are looked for one by one; more are looked for in slots."""

_SHORT = 1024
"""Among this many members, two lower halves of a hash seldom agree by chance."""

_NONE = np.array([], np.int64)

_MOST_FILLED = 2
"""Rows of unequal length may take this many times the space of their members."""

_SLOTS = 4
"""Slots for every wanted key: with more, fewer share one, and less of it fits the cache."""


@dataclass(eq=False)
class HashedLists:
    """Lists of hashes, flat.

    Attributes:
        value: (items,) the hash of each member.
        counts: (lists,) how many members each list has.
    """

    value: Keys
    counts: IntArray

    @cached_property
    def half(self) -> Halves:
        """(items,) the lower half of each hash."""
        return self.value.astype(np.uint32)

    @cached_property
    def rows(self) -> Halves | None:
        """(lists, longest) the lower halves, a list a row; None where most of it would be empty.

        Short rows are filled up with numbers that differ.
        """
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
        key: Keys = np.repeat(spread, self.counts) ^ self.value
        return key

    @cached_property
    def begin(self) -> IntArray:
        """(lists,) the position of each list's first member."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def longest(self) -> int:
        return int(self.counts.max(initial=0))

    def repeats(self) -> tuple[IntArray, IntArray] | None:
        """The members that agree with an earlier one of their list, and an earlier one of each."""
        rows = self.rows if self.longest <= _SHORT else None
        if rows is not None and not _agree(np.sort(rows).reshape(-1)):
            return None
        if not _agree(np.sort(self.key)):
            return None
        order = np.argsort(self.key, kind="stable")
        again = np.flatnonzero(self.key[order[1:]] == self.key[order[:-1]])
        return order[again + 1], order[again]

    def find(self, wanted: HashedLists) -> tuple[IntArray, IntArray]:
        """The members that agree with a wanted one of the same list: their positions, in order.

        Args:
            wanted: as many lists, none of which repeats a member.

        Returns:
            The positions, and the position in `wanted` of what each agrees with.
        """
        rows = self.rows if wanted.longest <= _FEW else None
        return self._by_slots(wanted) if rows is None else self._by_comparing(rows, wanted)

    def _by_comparing(self, rows: Halves, wanted: HashedLists) -> tuple[IntArray, IntArray]:
        """Every list's members are compared with its first wanted one, its second, and so on."""
        agrees = np.zeros(rows.shape, np.bool_)
        for nth in range(wanted.longest):
            sought = np.where(wanted.counts > nth, wanted.begin + nth, 0)
            agrees |= rows == wanted.half[sought][:, np.newaxis]
        row, place = np.divmod(np.flatnonzero(agrees), max(1, self.longest))
        is_there = place < self.counts[row]
        row, position = row[is_there], (self.begin[row] + place)[is_there]
        which = np.full(len(position), -1)
        for nth in range(wanted.longest):
            sought = np.where(wanted.counts > nth, wanted.begin + nth, 0)[row]
            agree = (self.value[position] == wanted.value[sought]) & (wanted.counts > nth)[row]
            which[agree] = sought[agree]
        return position[which >= 0], which[which >= 0]

    def _by_slots(self, wanted: HashedLists) -> tuple[IntArray, IntArray]:
        """Every wanted key is put into the slot that its upper bits say, where it is looked up.

        Where several want one slot, the last has it, and the others are looked for again, by other
        bits, among the keys of such slots. A slot knows the lower half of its key, which makes it
        small.
        """
        key, keys = self.key, wanted.key
        ats, whiches = [_NONE], [_NONE]
        places, looked_for = None, np.arange(len(keys))
        while len(looked_for):
            bits = (_SLOTS * len(looked_for)).bit_length()
            slot, slot_wanted = _upper(key, bits), _upper(keys, bits)
            lower, lower_wanted = key.astype(np.uint32), keys.astype(np.uint32)
            holds, owner = np.zeros(1 << bits, np.uint32), np.zeros(1 << bits, np.int32)
            holds[slot_wanted], owner[slot_wanted] = lower_wanted, looked_for
            is_wanted = holds.take(slot, mode="clip") == lower
            hits = np.flatnonzero(is_wanted)
            ats.append(hits if places is None else places[hits])
            whiches.append(owner[slot[hits]].astype(np.int64))
            outdone = holds[slot_wanted] != lower_wanted
            contested = np.zeros(1 << bits, np.bool_)
            contested[slot_wanted[outdone]] = True
            again = np.flatnonzero(contested.take(slot, mode="clip") > is_wanted)
            places, looked_for = again if places is None else places[again], looked_for[outdone]
            key, keys = key[again] * _SPREAD, keys[outdone] * _SPREAD
        position, which = np.concatenate(ats), np.concatenate(whiches)
        order = np.argsort(position)
        return position[order], which[order]


def _agree(ordered: Keys | Halves) -> bool:
    """Whether any two neighbours are the same."""
    return bool((ordered[1:] == ordered[:-1]).any())


def _upper(key: Keys, bits: int) -> IntArray:
    upper: IntArray = (key >> np.uint64(64 - bits)).view(np.int64)
    return upper
