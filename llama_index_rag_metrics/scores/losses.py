"""Where relevant passages are lost, counted over all questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report import whereabouts as w
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import MOST_ABREAST
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.scores.stories import placed_answers
from llama_index_rag_metrics.scores.systems import System

MOST_QUESTIONS = 20_000  # of more questions it isn't looked up where their passages are


class Losses(NamedTuple):
    """What one system lost of the relevant passages, over the questions of one metric."""

    system: str
    wanted: int  # how many are relevant where it is known what came; of alternatives, one
    by_loss: Mapping[str, int]  # how many were lost in each of the ways of `LOSSES` that occur
    questions: int = 0  # how many questions there are, and
    without: int = 0  # how many of them got no relevant passage
    min_score: float | None = None  # below which passages are left out, where that is known

    @property
    def lost(self) -> int:
        return sum(self.by_loss.values())

    def __str__(self) -> str:
        if not self.by_loss:
            many = f"all {self.wanted:,} relevant passages were found"
            return many if self.wanted > 1 else "the relevant passage was found"
        of = f"of {self.wanted:,} relevant passage{'' if self.wanted == 1 else 's'}"
        above = w.reaching(self.min_score)
        named = {f"{loss}{above * (loss == w.NEVER)}": n for loss, n in self.by_loss.items()}
        (loss, n), *others = named.items()
        first = f"{n:,} {of} {_is(loss, n)} {loss}"
        return ", ".join([first, *(f"{n:,} {_is(loss, n)} {loss}" for loss, n in others)])


def _is(loss: str, n: int) -> str:
    return ("was", "were")[n > 1] if loss.startswith((w.NEVER, w.DROPPED)) else ("is", "are")[n > 1]


def losses(systems: Sequence[System], metric: str, *, stages: bool = False) -> list[Losses]:
    """What each system lost over the metric's questions, if these aren't many and it is known."""
    columns = [system.by_query(metric) for system in systems]
    if max(map(len, columns), default=0) > MOST_QUESTIONS:
        return []
    tallies = [Counter[str]() for _ in systems]
    story_of = placed_answers(systems, metric, stages=stages)
    for query_id in dict.fromkeys(query_id for column in columns for query_id in column):
        story = story_of(query_id)
        for number, (column, tally) in enumerate(zip(columns, tallies, strict=True)):
            if query_id not in column:
                continue
            places = [w.where_found(story, number, need) for need in story.wanted]
            if story.more and (number or all(place.loss for place in places)):
                tally["unsure"] += 1
            if lost := [place.loss for place in places if place.words and place.loss != w.UNMET]:
                # those that aren't kept were placed better
                tally["wanted"] += len(lost) + story.more
                tally["questions"] += 1
                tally["without"] += all(lost)
                tally.update(filter(None, lost))
    return [
        Losses(
            plain(system.name),
            tally["wanted"],
            {loss: tally[loss] for loss in w.LOSSES if tally[loss]},
            tally["questions"],
            tally["without"],
            system.run.min_score,
        )
        for system, tally in zip(systems, tallies, strict=True)
        if tally["wanted"] and not tally["unsure"]
    ]


def losses_line(known: Sequence[Losses]) -> str:
    """What each system lost, in one sentence; "" where nobody knows, or where systems are many."""
    if not known or len(known) > MOST_ABREAST:
        return ""
    if len(known) > 1:
        return f"{'; '.join(f'{each.system}: {each}' for each in known)}."
    text = f"{known[0]}."
    return text[0].upper() + text[1:]


def remedy(n: int) -> list[m.Statement]:
    """What to do about relevant passages that came under other ids, if there are any."""
    came = f"{counted(n, 'relevant passage', 'relevant passages')} came {w.OTHER_ID}. {w.REMEDY}"
    return [m.Statement(came, "open", command=w.MOVE)] if n else []
