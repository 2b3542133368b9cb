"""Two retrievers, and what stages lost, as tests count it."""

from __future__ import annotations

from llama_index_rag_metrics import RetrievalDataset
from llama_index_rag_metrics.decisions.stages import StageResults
from support.retrievers import Scripted, node

Lost = dict[tuple[str, str], str]
"""Question and relevant passage to the stage that lost it."""

DATASET = RetrievalDataset(
    {"q1": "one", "q2": "two"}, {"q1": ["a", "c", "y", "z"], "q2": ["b", "n"]}
)


def two() -> tuple[Scripted, Scripted]:
    first = [node("a", score=0.9), node("x", score=0.8), node("y", score=0.3)]
    second = [node("x", score=0.9), node("c", score=0.8), node("y", score=0.3)]
    return (
        Scripted({"one": first, "two": ["b", "x"]}),
        Scripted({"one": second, "two": ["x", "c"]}),
    )


def lost_of(stages: StageResults) -> Lost:
    """Each loss, of which there is one for a passage."""
    lost = {(loss.query_id, loss.item): loss.stage for loss in stages.losses}
    assert len(lost) == len(stages.losses)
    return lost
