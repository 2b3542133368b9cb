"""Where a pipeline loses relevant passages: each that is missing at the end has one stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from llama_index_rag_metrics.report.escape import terminal as one_line
from llama_index_rag_metrics.report.model import Cell, Item, QueryAnswers, Row, Table
from llama_index_rag_metrics.report.numbers import counted
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
from llama_index_rag_metrics.stories.answers import query_answers
from llama_index_rag_metrics.stories.label_view import System

OWN_STAGES = (RETRIEVER, CUT, BUDGET)
"""The names that no stage of a user has."""

_ENDS = {"items": CUT, "tokens": BUDGET}
_DROPPED = "{passage}: relevant, retrieved at {rank}, dropped by {stage}"
_NEVER = "{passage}: relevant, not retrieved"
_FAILED = "{passage}: relevant, retrieved at {rank}, lost as {stage} failed"
_NEVER_AS_FAILED = "{passage}: relevant, {stage} failed"
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
        rank: where the stage before had it; None where none did.
        failed: whether it is lost because the stage failed.
    """

    stage: str
    query_id: str
    item: str
    grade: float
    rank: int | None = None
    failed: bool = False

    def __str__(self) -> str:
        template = _NEVER if self.rank is None else _DROPPED
        if self.failed:
            template = _NEVER_AS_FAILED if self.rank is None else _FAILED
        return template.format(passage=self.item, rank=self.rank, stage=self.stage)


class StageFlow(NamedTuple):
    """How many relevant passages are there after a stage, and how many it lost for good."""

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
        self.metric = metric
        self.stages = [system.name for system in systems]
        self.losses: list[LostPassage] = []
        self.n_wanted = self.n_unknown = 0
        self._kept: Counter[str] = Counter()
        scores = systems[-1].scores
        ends: dict[str, None] = {}
        for query_id in scores.query_ids:
            if query_id not in scores.excluded:
                story = query_answers(query_id, systems, metric, stages=True, brief=True)
                self._count(story)
                if story.cutoff is not None:
                    ends[_ENDS[story.cutoff.unit]] = None
        self.stages += ends
        self._kept.update(dict.fromkeys(ends, self.n_wanted - len(self.losses)))

    def _count(self, story: QueryAnswers) -> None:
        if any(answer.found is None and answer.error is None for answer in story.answers):
            self.n_unknown += 1
            return
        for need in story.wanted:
            if not any(item.grade for item in need):
                continue
            self.n_wanted += 1
            best_item = need[0]
            for answer in story.answers:
                places = answer.found or {}
                items = [item for item in need if item.id in places]
                if items:
                    self._kept[answer.system] += 1
                    best_item = min(items, key=lambda item: places[item.id])
            place, failed = _whereabouts(story, need)
            if place.loss:
                rank = None if place.before is None else place.before[1]
                loss = LostPassage(
                    place.stage, story.query_id, best_item.id, best_item.grade, rank, failed
                )
                self.losses.append(loss)

    @property
    def flow(self) -> list[StageFlow]:
        """What each stage does, in order; all losses add up to what is missing at the end."""
        losses = Counter(loss.stage for loss in self.losses)
        return [StageFlow(stage, self._kept[stage], losses[stage]) for stage in self.stages]

    def sentence(self) -> str:
        """How many relevant passages are missing at the end, and where; "" where there are none."""
        counts = Counter((loss.stage, loss.failed) for loss in self.losses)
        n = len(self.losses)
        if not self.n_wanted or counts[RETRIEVER, True] == self.n_wanted:
            return ""
        causes = []
        for (stage, failed), n_of_stage in counts.most_common():
            template = _CAUSES.get(stage, "{n:,} lost at {stage}")
            if failed:
                template = "{n:,} as {stage} failed"
            causes.append(template.format(n=n_of_stage, stage=one_line(stage)))
        kind = ("none", "one", "some")[min(n, 2)]
        return _MISSING[kind].format(n=n, passages=self.passages, causes=", ".join(causes))

    def table(self) -> Table:
        """The stages with what they kept and lost."""
        rows = []
        for flow in self.flow:
            cells = [Cell.of(flow.kept, "count"), Cell.of(flow.lost, "count", "alarm")]
            rows.append(Row(flow.stage, cells))
        title, remark = "Relevant passages by stage", f"({self.passages})"
        return Table(title, ("kept", "lost"), [rows], "stage", remark=remark)

    @property
    def passages(self) -> str:
        return counted(self.n_wanted, "relevant passage", "relevant passages")


def _whereabouts(story: QueryAnswers, need: Sequence[Item]) -> tuple[Whereabouts, bool]:
    """Where the last stage has a need, or how it was lost, and whether as a stage failed.

    A stage that fails loses what it got.
    """
    answers = story.answers
    failed_at = next((n for n, answer in enumerate(answers) if answer.error is not None), None)
    if failed_at is None:
        return where_found(story, len(answers) - 1, need), False
    if failed_at == 0:
        return Whereabouts("", "failed", RETRIEVER), True
    place = where_found(story._replace(cutoff=None), failed_at - 1, need)
    best = best_place(answers[failed_at - 1], need)
    if place.loss or best is None:
        return place, False
    stage, source = answers[failed_at].system, (answers[failed_at - 1].system, best.rank)
    return Whereabouts("", "failed", stage, source), True
