"""Where wanted passages are lost, counted over all questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import MOST_ABREAST
from llama_index_rag_metrics.report.query_lines import LOSSES, where_found
from llama_index_rag_metrics.scores.systems import System, query_answers

MOVE = "rag-metrics labels move dataset.json storage/ -o moved.json"
"""Moves labels to the nodes of a new index."""


class Losses(NamedTuple):
    """What one system lost of the passages that are wanted, over the questions of one metric.

    Attributes:
        wanted: how many passages are wanted where it is known what came; of alternatives, one.
        by_loss: "never retrieved", "below the cutoff" and the others of `LOSSES` to how many were
            lost so; in this order, without those that don't occur.
        questions: how many questions there are, and
        without: how many of them got none of what they want.
    """

    system: str
    wanted: int
    by_loss: Mapping[str, int]
    questions: int = 0
    without: int = 0

    @property
    def lost(self) -> int:
        return sum(self.by_loss.values())

    def __str__(self) -> str:
        parts = ", ".join(f"{n:,} {loss}" for loss, n in self.by_loss.items())
        return f"of {self.wanted:,} expected passages: {parts or 'none'}"


def losses(systems: Sequence[System], metric: str, *, stages: bool = False) -> list[Losses]:
    """What each system lost over all questions that the metric scores, in the order of systems.

    A failed question has no ranking, so its passages aren't counted. A system is left out where no
    ranking is known, or where its stored scores don't keep all that it may have lost.

    >>> from llama_index_rag_metrics import RetrievalDataset, evaluate
    >>> from llama_index_rag_metrics.evaluation.results.results_report import system_of
    >>> dataset = RetrievalDataset({"q": "x?"}, {"q": ["a", "b"]})
    >>> results = evaluate(lambda query: ["c", "a"], dataset, ["recall@1"], name="bm25")
    >>> losses_line(losses([system_of(results)], "recall@1"))
    'Lost of 2 expected passages: 1 never retrieved, 1 below the cutoff.'
    """
    columns = [system.by_query(metric) for system in systems]
    wanted, questions, without = ([0] * len(systems) for _ in range(3))
    unsure: set[int] = set()
    lost = [dict.fromkeys(LOSSES, 0) for _ in systems]
    for query_id in dict.fromkeys(query_id for column in columns for query_id in column):
        story = query_answers(query_id, systems, metric, stages=stages)
        for number, column in enumerate(columns):
            if query_id not in column:
                continue
            places = [where_found(story, number, need) for need in story.wanted]
            wanted[number] += sum(bool(place.words) for place in places)
            questions[number] += any(place.words for place in places)
            without[number] += bool(places) and all(place.loss for place in places)
            for loss in filter(None, (place.loss for place in places)):
                lost[number][loss] += 1
            if story.more and (number or all(place.loss for place in places)):
                unsure.add(number)
            # those that aren't kept were placed better
            wanted[number] += story.more
    return [
        Losses(
            plain(system.name),
            wanted[number],
            {loss: n for loss, n in lost[number].items() if n},
            questions[number],
            without[number],
        )
        for number, system in enumerate(systems)
        if wanted[number] and number not in unsure
    ]


def losses_line(counted: Sequence[Losses]) -> str:
    """What each system lost, in one sentence; "" where nobody knows, or where systems are many."""
    if not counted or len(counted) > MOST_ABREAST:
        return ""
    if len(counted) == 1:
        return f"Lost {counted[0]}."
    return f"Lost by {'; by '.join(f'{each.system}, {each}' for each in counted)}."


def remedy(n: int) -> list[m.Statement]:
    """What to do about expected passages that came under other ids, if there are any."""
    if not n:
        return []
    came = "1 expected passage" if n == 1 else f"{n:,} expected passages"
    text = f"{came} came under another id. Evaluate with matcher='text', or move the labels:"
    return [m.Statement(text, "open", command=MOVE)]
