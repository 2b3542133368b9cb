"""Where a pipeline loses relevant passages: each that is missing at the end has one stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from llama_index_rag_metrics.decisions.result_columns import Column, table_of
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as one_line
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
"""The names that no stage of a user has."""

_ENDS = {"items": CUT, "tokens": BUDGET}

LOSSES_TITLE = "Where relevant passages are lost"

_MOST_NAMED = 3
_LOST_PASSAGES = {
    "never": "{passage}: relevant, not retrieved",
    "dropped": "{passage}: relevant, retrieved at {rank}, dropped by {stage}",
    "never, failed": "{passage}: relevant, {stage} failed",
    "failed": "{passage}: relevant, retrieved at {rank}, lost as {stage} failed",
}
_FAILURES = {"dropped": "failed", "never": "never, failed"}
_DROPPED = "{n:,} lost at {stage}"
_FAILED = "{n:,} as {stage} failed"
_CAUSES = {RETRIEVER: f"{{n:,}} {NEVER}", CUT: f"{{n:,}} {BELOW}", BUDGET: f"{{n:,}} {OVER}"}
_MISSING = {
    "none": "None of {passages} is missing at the end.",
    "one": "1 of {passages} is missing at the end: {causes}.",
    "some": "{n:,} of {passages} are missing at the end: {causes}.",
}


@dataclass(frozen=True, slots=True, repr=False)
class LostPassage(Sentence):
    """A relevant passage of a question that is missing at the end, with the stage that lost it.

    Attributes:
        stage: the first stage after the last one that had it.
        item: the id of the passage; of a group, that of its best placed passage.
        grade: its grade, 1 or more.
        rank: where the stage before had it; None where none did.
        failed: whether it is lost because the stage failed.

    Examples:
        >>> print(LostPassage("reranked", "q1", "d2", 1.0, rank=2))
        d2: relevant, retrieved at 2, dropped by reranked
    """

    stage: str
    query_id: str
    item: str
    grade: float
    rank: int | None = None
    failed: bool = False

    def __str__(self) -> str:
        kind = "dropped"
        if self.rank is None:
            kind = "never"
        if self.failed:
            kind = _FAILURES[kind]
        return _LOST_PASSAGES[kind].format(passage=self.item, rank=self.rank, stage=self.stage)


class StageFlow(NamedTuple):
    """What a stage does with the relevant passages.

    Attributes:
        kept: how many are there after it.
        lost: how many of those that are missing at the end it lost for good; each is lost once.
    """

    stage: str
    kept: int
    lost: int


class StageLosses:
    """All relevant passages and where they were lost, as a metric sees them.

    Attributes:
        losses: those that are missing at the end.
        n_wanted: how many relevant passages there are.
        n_unknown: how many questions aren't counted, since their matcher failed.
    """

    def __init__(self, systems: Sequence[System], metric: str) -> None:
        self.systems, self.metric = systems, metric
        self.losses: list[LostPassage] = []
        self.n_wanted = self.n_unknown = 0
        self._kept: Counter[str] = Counter()
        self._end = ""
        story_of = placed_answers(systems, metric, stages=True)
        scores = systems[-1].scores
        for query_id in scores.query_ids:
            if query_id not in scores.excluded:
                self._count(story_of(query_id))

    def _count(self, story: m.QueryAnswers) -> None:
        if any(answer.found is None and answer.error is None for answer in story.answers):
            self.n_unknown += 1
            return
        if story.cutoff is not None:
            self._end = _ENDS[story.cutoff.unit]
        for need in story.wanted:
            if not any(item.grade for item in need):
                continue
            self.n_wanted += 1
            item, rank = need[0], None
            for answer in story.answers:
                if best_place(answer, need) is not None:
                    self._kept[answer.system] += 1
                    item = _best_item(answer, need)
            place = _whereabouts(story, need)
            if not place.loss:
                continue
            if place.before is not None:
                rank = place.before[1]
            failed = place.loss == "failed"
            loss = LostPassage(place.stage, story.query_id, item.id, item.grade, rank, failed)
            self.losses.append(loss)

    @property
    def stages(self) -> list[str]:
        """The stages in order, with the end that the metric sets."""
        names = [system.name for system in self.systems]
        if self._end:
            names.append(self._end)
        return names

    @property
    def flow(self) -> list[StageFlow]:
        """What each stage does, in order; all losses add up to what is missing at the end."""
        losses = Counter(loss.stage for loss in self.losses)
        counts = {**self._kept, self._end: self.n_wanted - len(self.losses)}
        return [StageFlow(stage, counts.get(stage, 0), losses[stage]) for stage in self.stages]

    def lost(self, stage: str) -> list[LostPassage]:
        """The passages that a stage lost for good, the best placed first."""
        losses = [loss for loss in self.losses if loss.stage == stage]
        return sorted(losses, key=lambda loss: loss.rank or 0)

    @property
    def notes(self) -> list[str]:
        """What isn't counted."""
        if not self.n_unknown:
            return []
        return [f"stages leave out {questions(self.n_unknown)}, whose matcher failed"]

    def statements(self) -> list[m.Statement]:
        """How many relevant passages are missing at the end, and where most were lost."""
        counts = Counter((loss.stage, loss.failed) for loss in self.losses)
        is_valid = not any(system.invalid(self.metric) for system in self.systems)
        if not self.n_wanted or not is_valid or counts[RETRIEVER, True] == self.n_wanted:
            return []
        if not self.losses:
            return [m.Statement(_MISSING["none"].format(passages=self._passages))]
        n, causes = len(self.losses), []
        for (stage, failed), n_of_stage in counts.most_common(_MOST_NAMED):
            causes.append(_cause(stage, n_of_stage, failed=failed))
            n -= n_of_stage
        if n:
            causes.append(f"{n:,} at other stages")
        kind = "some"
        if len(self.losses) == 1:
            kind = "one"
        text = _MISSING[kind].format(
            n=len(self.losses), passages=self._passages, causes=", ".join(causes)
        )
        return [m.Statement(text, evidence=LOSSES_TITLE)]

    def section(self) -> m.Section:
        """The stages with what they kept and lost."""
        table = table_of("Relevant passages by stage", self.flow, _COLUMNS, label=_STAGE)
        if not self.n_wanted:
            return m.Section(LOSSES_TITLE, [])
        return m.Section(LOSSES_TITLE, [replace(table, remark=f"({self._passages})")])

    @property
    def _passages(self) -> str:
        return counted(self.n_wanted, "relevant passage", "relevant passages")


_STAGE: Column[StageFlow] = Column("stage", lambda flow: flow.stage)
_COLUMNS: Sequence[Column[StageFlow]] = (
    Column("kept", lambda flow: m.Cell.of(flow.kept, "count")),
    Column("lost", lambda flow: m.Cell.of(flow.lost, "count", "alarm")),
)


def _cause(stage: str, n: int, *, failed: bool) -> str:
    template = _CAUSES.get(stage, _DROPPED)
    if failed:
        template = _FAILED
    return template.format(n=n, stage=one_line(stage))


def _whereabouts(story: m.QueryAnswers, need: Sequence[m.Item]) -> Whereabouts:
    """Where the last stage has a need, or how it was lost; a stage that fails loses what it got."""
    answers = story.answers
    failing = [number for number, answer in enumerate(answers) if answer.error is not None]
    if not failing:
        return where_found(story, len(answers) - 1, need)
    if failing[0] == 0:
        return Whereabouts("", "failed", RETRIEVER)
    last = failing[0] - 1
    place = where_found(story._replace(cutoff=None), last, need)
    best = best_place(answers[last], need)
    if place.loss or best is None:
        return place
    return Whereabouts(
        "", "failed", answers[last + 1].system, before=(answers[last].system, best.rank)
    )


def _best_item(answer: m.Answer, need: Sequence[m.Item]) -> m.Item:
    """The best placed item of a need that an answer meets."""
    places = answer.found or {}
    return min((item for item in need if item.id in places), key=lambda item: places[item.id])
