"""Where relevant passages are lost, counted over all questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import MOST_ABREAST
from llama_index_rag_metrics.report.whereabouts import (
    DROPPED,
    LOSSES,
    MOVE,
    NEVER,
    OTHER_ID,
    REMEDY,
    UNMET,
    where_found,
)
from llama_index_rag_metrics.scores.stories import placed_answers
from llama_index_rag_metrics.scores.systems import System

MOST_QUESTIONS = 20_000
"""Of more questions it isn't looked up where their passages are."""


class Losses(NamedTuple):
    """What one system lost of the relevant passages, over the questions of one metric.

    Attributes:
        wanted: how many are relevant where it is known what came; of alternatives, one.
        by_loss: "never retrieved", "below the cutoff" and the others of `LOSSES` to how many were
            lost so; in this order, without those that don't occur.
        questions: how many questions there are, and
        without: how many of them got no relevant passage.
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
        """
        >>> str(Losses("bm25", 152, {"never retrieved": 73, "below the cutoff": 1}))
        '73 of 152 relevant passages were never retrieved, 1 is below the cutoff'
        """
        if not self.by_loss:
            many = f"all {self.wanted:,} relevant passages were found"
            return many if self.wanted > 1 else "the relevant passage was found"
        of = f"of {self.wanted:,} relevant passage{'' if self.wanted == 1 else 's'}"
        (loss, n), *others = self.by_loss.items()
        first = f"{n:,} {of} {_is(loss, n)} {loss}"
        return ", ".join([first, *(f"{n:,} {_is(loss, n)} {loss}" for loss, n in others)])


def _is(loss: str, n: int) -> str:
    return ("was", "were")[n > 1] if loss in (NEVER, DROPPED) else ("is", "are")[n > 1]


def losses(systems: Sequence[System], metric: str, *, stages: bool = False) -> list[Losses]:
    """What each system lost over all questions that the metric scores, in the order of systems.

    A failed question has no ranking, so its passages aren't counted. A system is left out where no
    ranking is known, or where its stored scores don't keep all that it may have lost; all are where
    there are more than 20,000 questions.

    >>> from llama_index_rag_metrics import RetrievalDataset, evaluate
    >>> from llama_index_rag_metrics.evaluation.results.results_report import system_of
    >>> dataset = RetrievalDataset({"q": "x?"}, {"q": ["a", "b"]})
    >>> results = evaluate(lambda query: ["c", "a"], dataset, ["recall@1"], name="bm25")
    >>> losses_line(losses([system_of(results)], "recall@1"))
    '1 of 2 relevant passages was never retrieved, 1 is below the cutoff.'
    """
    columns = [system.by_query(metric) for system in systems]
    if max(map(len, columns), default=0) > MOST_QUESTIONS:
        return []
    wanted, questions, without = ([0] * len(systems) for _ in range(3))
    unsure: set[int] = set()
    lost = [dict.fromkeys(LOSSES, 0) for _ in systems]
    story_of = placed_answers(systems, metric, stages=stages)
    for query_id in dict.fromkeys(query_id for column in columns for query_id in column):
        story = story_of(query_id)
        for number, column in enumerate(columns):
            if query_id not in column:
                continue
            places = [where_found(story, number, need) for need in story.wanted]
            passages = [place for place in places if place.words and place.loss != UNMET]
            wanted[number] += len(passages)
            questions[number] += bool(passages)
            without[number] += bool(passages) and all(place.loss for place in passages)
            for loss in filter(None, (place.loss for place in passages)):
                lost[number][loss] += 1
            if story.more and (number or all(place.loss for place in places)):
                unsure.add(number)
            # those that aren't kept were placed better
            wanted[number] += story.more if passages else 0
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
    parts = [str(each) if len(counted) == 1 else f"{each.system}: {each}" for each in counted]
    text = f"{'; '.join(parts)}."
    return text[0].upper() + text[1:] if len(counted) == 1 else text


def remedy(n: int) -> list[m.Statement]:
    """What to do about relevant passages that came under other ids, if there are any."""
    if not n:
        return []
    came = "1 relevant passage" if n == 1 else f"{n:,} relevant passages"
    return [m.Statement(f"{came} came {OTHER_ID}. {REMEDY}", "open", command=MOVE)]
