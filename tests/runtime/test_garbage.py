"""What isn't needed any more is collected, however often collection pauses."""

from __future__ import annotations

import gc
import weakref

import pytest

from llama_index_rag_metrics.runtime.lazy import collection_paused


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_garbage_of_the_caller_is_collected_between_pauses() -> None:
    # 300 lists that stay are a search of the youngest objects every few rounds (every 700 objects,
    # or 2,000 from Python 3.13 on), unless a pause puts what is young out of its reach
    alive: set[int] = set()
    kept: list[list[list[int]]] = []
    most = 0
    for number in range(400):
        with collection_paused():
            pass
        cycle = Cycle()
        alive.add(number)
        weakref.finalize(cycle, alive.discard, number)
        del cycle
        kept.append([[] for _ in range(300)])
        most = max(most, len(alive))
    assert most < 200


def test_what_is_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with collection_paused():
            pass
        assert before > 0
        assert gc.get_freeze_count() == pytest.approx(before, rel=0.01)
    finally:
        gc.unfreeze()


def test_a_caller_who_turned_collection_off_finds_it_off() -> None:
    gc.disable()
    try:
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_pauses_nest() -> None:
    with collection_paused():
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
