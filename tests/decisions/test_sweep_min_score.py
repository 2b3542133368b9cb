"""Sweeps vary the threshold on the score."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index_rag_metrics import RetrievalDataset, evaluate, sweep
from llama_index_rag_metrics.decisions.sweeps.sweep_result import Sweep
from llama_index_rag_metrics.runtime.errors import InvalidInput

DATASET = RetrievalDataset(
    {f"q{n}": str(n) for n in range(6)}, {f"q{n}": ["a"] if n % 2 else [] for n in range(6)}
)
METRICS = ["recall@1", "abstained", "returned@5"]
GRID: dict[str, Any] = {"boost": [0.0, 0.2], "min_score": [None, 0.4, 0.55]}


class Builder:
    """Builds retrievers, and counts what is built and asked."""

    def __init__(self) -> None:
        self.built: Counter[float] = Counter()
        self.asked: Counter[tuple[float, str]] = Counter()

    def __call__(self, boost: float) -> Any:
        self.built[boost] += 1

        def retrieve(query: str) -> list[NodeWithScore]:
            self.asked[boost, query] += 1
            return retrieved(query, boost)

        return retrieve


def retrieved(query: str, boost: float) -> list[NodeWithScore]:
    score = 0.5 if int(query) % 2 else 0.3
    return [NodeWithScore(node=TextNode(id_="a", text="Ants."), score=score + boost)]


@pytest.mark.parametrize("is_kept", [False, True])
def test_each_is_what_evaluate_says(tmp_path: Path, is_kept: bool) -> None:
    journal = tmp_path / "journals" if is_kept else None
    found = sweep(Builder(), GRID, DATASET, METRICS, journal=journal)
    assert len(found.configurations) == 6
    for each in found:
        boost, min_score = each.params["boost"], each.params["min_score"]
        wanted = evaluate(
            lambda query, boost=boost: retrieved(query, boost),
            DATASET,
            METRICS,
            min_score=min_score,
        )
        assert each.results is not None, each.error
        assert each.results.scores.per_query == wanted.scores.per_query
    if journal is not None:
        assert len(list(journal.glob("*.jsonl"))) == 6


def test_it_is_checked_before_anything_is_built() -> None:
    build = Builder()
    with pytest.raises(InvalidInput, match="min_score: expected a number"):
        sweep(build, {"boost": [0.0], "min_score": [0.1, math.nan]}, DATASET, METRICS)
    assert not build.built


def test_left_out_are_questions_that_some_configuration_has_a_value_for() -> None:
    # q0, q2, q4 and q5 have nothing relevant: of these every configuration has `abstained`
    dataset = RetrievalDataset(DATASET.queries, DATASET.relevance | {"q5": []})
    found = sweep(Builder(), {"boost": [0.0, 0.2]}, dataset, ["abstained", "recall@1"])
    assert not _left_out(found)
    assert found.report().lead.startswith("2 configurations, 4 questions")

    def build(failing: str) -> Any:
        def retrieve(query: str) -> list[NodeWithScore]:
            if query == failing:
                raise ConnectionError("busy")
            return retrieved(query, 0.0)

        return retrieve

    # of q1, q3 and q5 each configuration lacks another one
    found = sweep(build, {"failing": ["1", "3"]}, DATASET, ["recall@1"], failed="exclude")
    assert ", 1 question," in found.report().lead
    assert _left_out(found)[0].startswith("left out of ranks and bounds: 2 questions")


def _left_out(found: Sweep) -> list[str]:
    return [note for note in found.report().notes if note.startswith("left out")]
