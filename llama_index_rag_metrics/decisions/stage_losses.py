"""Where a pipeline loses relevant passages: each that is missing at the end has one stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.report.whereabouts import (
    BELOW,
    BUDGET,
    CUT,
    NEVER,
    OVER,
    RETRIEVER,
    Whereabouts,
    best_place,
    where_found,
)
from llama_index_rag_metrics.stories.answers import placed_answers
from llama_index_rag_metrics.stories.label_view import System

OWN_STAGES = (RETRIEVER, CUT, BUDGET)
"""The names that no step of a user has."""

LOSSES_TITLE = "Where relevant passages are lost"

Change: TypeAlias = Literal["gained", "lost", "raised", "lowered"]


@dataclass(frozen=True, slots=True, repr=False)
class StageChange(Sentence):
    """The change of one relevant item of one query by a stage, or its loss.

    Attributes:
        stage: the stage.
        previous: the stage that had it before; "" for none.
        query_id: the query.
        item: the id of the relevant item.
        grade: its grade, 1 or more.
        before, after: its ranks there and in this stage, None where it wasn't there. Where the
            first metric asks for one of a group, of the best placed one of the group.
        failed: whether it is lost because the stage failed.

    Examples:
        >>> from llama_index_rag_metrics import StageChange
        >>> print(StageChange("reranked", "retrieved", "q1", "d2", 1.0, before=2, after=None))
        d2: relevant, retrieved at 2, dropped by reranked
    """

    stage: str
    previous: str
    query_id: str
    item: str
    grade: float
    before: int | None
    after: int | None
    failed: bool = False

    @property
    def kind(self) -> Change:
        """Whether the item came in, was lost, or moved up or down."""
        if self.after is None:
            return "lost"
        if self.before is None:
            return "gained"
        return "raised" if self.after < self.before else "lowered"

    def __str__(self) -> str:
        was = "not retrieved" if self.before is None else f"retrieved at {self.before}"
        if self.failed:
            what = f"{was}, lost as {self.stage} failed" if self.before else f"{self.stage} failed"
        elif self.after is None and self.before is None:
            what = was
        elif self.after is None:
            what = f"{was}, dropped by {self.stage}"
        elif self.before is None:
            what = f"{was}, put at {self.after} by {self.stage}"
        else:
            what = f"{was}, moved to {self.after} by {self.stage}"
        return f"{self.item}: relevant, {what}"


class StageFlow(NamedTuple):
    """What a stage does with the relevant passages.

    Attributes:
        kept: how many are there after it.
        lost: how many of those that are missing at the end it lost for good; each is lost once.
        gained: how many it brought in that the stage before didn't have.
    """

    stage: str
    kept: int
    lost: int
    gained: int


class _Fate(NamedTuple):
    """One relevant passage, or group, of one question: which stages had it, and how it was lost."""

    had: Sequence[bool]
    loss: StageChange | None


class StageLosses:
    """The fates of all relevant passages, by a metric."""

    def __init__(self, systems: Sequence[System], metric: str) -> None:
        self.systems, self.metric = systems, metric
        self.scored = [system.name for system in systems]
        self.changes: list[StageChange] = []
        self.n_unknown = 0
        self._fates: list[_Fate] = []
        self._ends: set[str] = set()
        story_of = placed_answers(systems, metric, stages=True)
        scores = systems[-1].scores
        for query_id in scores.query_ids:
            if query_id not in scores.excluded:
                self._follow(query_id, story_of(query_id))

    def _follow(self, query_id: str, story: m.QueryAnswers) -> None:
        answers = story.answers
        if any(answer.found is None and answer.error is None for answer in answers):
            self.n_unknown += 1
            return
        if story.cutoff is not None:
            self._ends.add(CUT if story.cutoff.unit == "items" else BUDGET)
        for need in story.wanted:
            if not any(item.grade for item in need):
                continue
            self.changes += self._changes(query_id, answers, need)
            had = [best_place(answer, need) is not None for answer in answers]
            self._fates.append(_Fate(had, self._loss(query_id, story, need)))

    def _changes(
        self, query_id: str, answers: Sequence[m.Answer], need: Sequence[m.Item]
    ) -> Iterator[StageChange]:
        for (previous, before), (stage, after) in pairwise(zip(self.scored, answers, strict=True)):
            was, now = best_place(before, need), best_place(after, need)
            rank_then, rank_now = (None if place is None else place.rank for place in (was, now))
            if rank_then != rank_now and not (before.error or after.error):
                item = _best_item(before if now is None else after, need)
                of = (query_id, item.id, item.grade)
                yield StageChange(stage, previous, *of, rank_then, rank_now)

    def _loss(
        self, query_id: str, story: m.QueryAnswers, need: Sequence[m.Item]
    ) -> StageChange | None:
        """The loss of a need that isn't met at the end, at the stage after the last with it."""
        place = self._lost_place(story, need)
        if not place.loss:
            return None
        previous, rank = place.before or ("", None)
        having = [answer for answer in story.answers if best_place(answer, need)]
        item = _best_item(having[-1], need) if having else need[0]
        failed = place.loss == "failed"
        return StageChange(place.stage, previous, query_id, item.id, item.grade, rank, None, failed)

    def _lost_place(self, story: m.QueryAnswers, need: Sequence[m.Item]) -> Whereabouts:
        answers = story.answers
        failing = next((n for n, answer in enumerate(answers) if answer.error is not None), None)
        if failing is None:
            return where_found(story, len(answers) - 1, need)
        if failing == 0:
            return Whereabouts("", "failed", RETRIEVER)
        place = where_found(story._replace(cutoff=None), failing - 1, need)
        had = best_place(answers[failing - 1], need)
        if place.loss or had is None:
            return place
        before = (self.scored[failing - 1], had.rank)
        return Whereabouts("", "failed", self.scored[failing], before)

    @cached_property
    def losses(self) -> list[StageChange]:
        return [fate.loss for fate in self._fates if fate.loss is not None]

    @property
    def notes(self) -> list[str]:
        """What isn't counted."""
        if not self.n_unknown:
            return []
        return [f"stages leave out {questions(self.n_unknown)}, whose matcher failed"]

    @property
    def stages(self) -> list[str]:
        return [*self.scored, *sorted(self._ends)]

    @cached_property
    def flow(self) -> list[StageFlow]:
        """What each stage does, in order; all losses add up to what is missing at the end."""
        lost = Counter(loss.stage for loss in self.losses)
        gained = Counter(change.stage for change in self.changes if change.kind == "gained")
        return [
            StageFlow(stage, self._n_kept(stage), lost[stage], gained[stage])
            for stage in self.stages
        ]

    def _n_kept(self, stage: str) -> int:
        if stage in self._ends:
            return sum(fate.loss is None for fate in self._fates)
        number = self.scored.index(stage)
        return sum(fate.had[number] for fate in self._fates)

    @property
    def n_wanted(self) -> int:
        return len(self._fates)

    @property
    def of_all(self) -> str:
        return counted(self.n_wanted, "relevant passage", "relevant passages")


def _best_item(answer: m.Answer, need: Sequence[m.Item]) -> m.Item:
    """The best placed item of a need that an answer meets."""
    known = answer.found or {}
    return min((item for item in need if item.id in known), key=lambda item: known[item.id])


def losses_statement(losses: StageLosses) -> list[m.Statement]:
    """How many relevant passages are missing at the end, and where most were lost."""
    is_valid = not any(system.invalid(losses.metric) for system in losses.systems)
    lost = Counter((loss.stage, loss.failed) for loss in losses.losses)
    missing = lost.total()
    if not losses.n_wanted or not is_valid or lost[RETRIEVER, True] == losses.n_wanted:
        return []
    if not missing:
        return [m.Statement(f"None of {losses.of_all} is missing at the end.")]
    most = lost.most_common(_MOST_NAMED)
    parts = [
        f"{n:,} as {plain(stage)} failed"
        if failed
        else f"{n:,} {_LOST.get(stage) or f'lost at {plain(stage)}'}"
        for (stage, failed), n in most
    ]
    if others := missing - sum(n for _, n in most):
        parts.append(f"{others:,} at other stages")
    verb = "is" if missing == 1 else "are"
    text = f"{missing:,} of {losses.of_all} {verb} missing at the end: {', '.join(parts)}."
    return [m.Statement(text, evidence=LOSSES_TITLE)]


_MOST_NAMED = 3
_LOST = {RETRIEVER: NEVER, CUT: BELOW, BUDGET: OVER}


def losses_section(losses: StageLosses) -> m.Section:
    """The stages with what they kept, lost and brought in."""
    flow = losses.flow
    columns = {
        "kept": [m.Cell.of(each.kept, "count") for each in flow],
        "lost": [m.Cell.of(each.lost, "count", "alarm") for each in flow],
    }
    if any(each.gained for each in flow):
        columns["brought in"] = [m.Cell.of(each.gained, "count") for each in flow]
    rows = [
        m.Row(each.stage, [cells[n] for cells in columns.values()]) for n, each in enumerate(flow)
    ]
    remark = f"({losses.of_all})"
    title = "Relevant passages by stage"
    table = m.Table(title, [*columns], [rows], first="stage", remark=remark)
    return m.Section(LOSSES_TITLE, [table] if losses.n_wanted else [])


def grouped_losses(losses: StageLosses) -> Iterator[tuple[str, list[StageChange]]]:
    """The losses of each stage that has any, in order, those of the best placed first."""
    for stage in losses.stages:
        own = [loss for loss in losses.losses if loss.stage == stage]
        if own:
            yield stage, sorted(own, key=lambda loss: loss.before or 0)
