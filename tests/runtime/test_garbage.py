"""What isn't needed any more is collected, however often collection pauses."""

from __future__ import annotations

import gc

from llama_index_rag_metrics.runtime.arrays import collection_paused


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
