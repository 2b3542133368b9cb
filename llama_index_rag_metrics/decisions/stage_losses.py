"""Where a pipeline loses relevant passages: each that is missing at the end has one stage."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from llama_index_rag_metrics.evaluation.results.evaluation_results import ranking_metric
from llama_index_rag_metrics.metrics.metric_names import lost_at
from llama_index_rag_metrics.rankings.matching.matcher_names import BY_ID
from llama_index_rag_metrics.rankings.run import Call
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import counted, digits_of, questions
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.report.whereabouts import (
    BELOW,
    BUDGET,
    CUT,
    INDEX,
    NEVER,
    NOT_INDEXED,
    OVER,
    RETRIEVER,
    Whereabouts,
    best_place,
    where_found,
)
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import LazyMapping
from llama_index_rag_metrics.scores.scoring.score_rankings import score_rankings
from llama_index_rag_metrics.scores.stories import KeptAnswer, placed_answers
from llama_index_rag_metrics.scores.systems import System

EXACT, APPROXIMATE = "exact search", "approximate search"
"""Who has what exact search finds, and the stage that loses it."""

OWN_STAGES = (INDEX, RETRIEVER, APPROXIMATE, CUT, BUDGET)
"""The names that no step of a user has."""

LOSSES_TITLE = "Where relevant passages are lost"

Change: TypeAlias = Literal["gained", "lost", "raised", "lowered"]


@dataclass(frozen=True, slots=True, repr=False)
class StageChange(Sentence):
    """The change of one relevant item of one query by a stage, or its loss.

    Attributes:
        stage: the stage.
        previous: who had it before: the stage before, or a branch of the retriever; "" for nobody.
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
            what = "not in the index" if self.stage == INDEX else was
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
        failed: how many of these because it failed on the question.
        gained: how many it brought in that the stage before didn't have.
        reachable: the mean of the first metric if what follows were perfect: only relevant
            passages, the best grade first. None where that isn't known, as of metrics of tokens,
            places or groups.
    """

    stage: str
    kept: int
    lost: int
    failed: int
    gained: int
    reachable: float | None


class BranchFlow(NamedTuple):
    """A retriever inside the retriever: how many relevant passages it returned, and it alone."""

    branch: str
    found: int
    alone: int


class _Fate(NamedTuple):
    """One relevant passage, or group, of one question that was asked once."""

    asked: tuple[int, str]
    need: Sequence[m.Item]
    inside: str
    had: Sequence[bool]
    held: Sequence[m.Held]
    loss: StageChange | None


class StageLosses:
    """The fates of all relevant passages, by a metric, each time that the questions were asked."""

    def __init__(self, runs: Sequence[Sequence[System]], metric: str) -> None:
        self.runs, self.metric = runs, metric
        self.scored = [system.name for system in runs[0]]
        self.changes: list[StageChange] = []
        self.n_unknown = 0
        self._known: dict[str, None] = {}
        self._fates: list[_Fate] = []
        self._ends: set[str] = set()
        for time, systems in enumerate(runs):
            self._follow(time, systems)

    def _follow(self, time: int, systems: Sequence[System]) -> None:
        story_of = placed_answers(systems, self.metric, stages=True)
        scores = systems[-1].scores
        for query_id in (each for each in scores.query_ids if each not in scores.excluded):
            story = story_of(query_id)
            if any(answer.found is None and answer.error is None for answer in story.answers):
                self.n_unknown += 1
                continue
            self._known[query_id] = None
            if story.cutoff is not None:
                self._ends.add(CUT if story.cutoff.unit == "items" else BUDGET)
            for need in story.wanted:
                if any(item.grade for item in need):
                    self._fates.append(self._fate((time, query_id), story, need))

    def _fate(self, asked: tuple[int, str], story: m.QueryAnswers, need: Sequence[m.Item]) -> _Fate:
        first, *_ = answers = story.answers
        places = [best_place(answer, need) for answer in answers]
        self.changes += self._changes(asked[1], answers, need)
        held = [each for item in need for each in first.held.get(item.id, ())]
        # of a retriever that failed, it is known what it was given
        known = story._replace(answers=[first._replace(found=first.found or {})])
        inside = "" if places[0] is not None else where_found(known, 0, need).stage
        had = [place is not None for place in places]
        return _Fate(asked, need, inside, had, held, self._loss(asked[1], story, need, inside))

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
        self, query_id: str, story: m.QueryAnswers, need: Sequence[m.Item], inside: str
    ) -> StageChange | None:
        """The loss of a need that isn't met at the end, at the stage after the last with it."""
        answers = story.answers
        failing = next((n for n, answer in enumerate(answers) if answer.error is not None), None)
        if failing is None:
            place = where_found(story, len(answers) - 1, need)
        elif failing == 0:
            place = Whereabouts("", NOT_INDEXED if inside == INDEX else "failed", inside)
        else:
            place = where_found(story._replace(cutoff=None), failing - 1, need)
            if not place.loss:
                had = best_place(answers[failing - 1], need)
                assert had is not None
                before = (self.scored[failing - 1], had.rank)
                place = Whereabouts("", "failed", self.scored[failing], before)
        if not place.loss:
            return None
        previous, rank = place.before or ("", None)
        item = next(
            (_best_item(answer, need) for answer in reversed(answers) if best_place(answer, need)),
            max(need, key=lambda item: [*answers[0].held.get(item.id, ())][-1:]),
        )
        failed = place.loss == "failed"
        return StageChange(place.stage, previous, query_id, item.id, item.grade, rank, None, failed)

    @cached_property
    def losses(self) -> list[StageChange]:
        return [fate.loss for fate in self._fates if fate.loss is not None]

    @cached_property
    def inside(self) -> list[str]:
        """The stages inside the retriever, in order; of a plain one, itself."""
        from_end: dict[str, int] = {}
        for steps in self._steps.values():
            for distance, name in enumerate(dict.fromkeys(step.asked_by for step in steps[::-1])):
                from_end[name] = max(distance, from_end.get(name, 0))
        own = {step.retriever for steps in self._steps.values() for step in steps}
        known = {INDEX: INDEX in own, RETRIEVER: True, APPROXIMATE: EXACT in own}
        further = sorted(from_end.keys() - known, key=lambda name: (-from_end[name], name))
        return [*(name for name, is_there in known.items() if is_there), *further]

    @cached_property
    def _steps(self) -> dict[tuple[int, str], Sequence[Call]]:
        """What was in the hands of the steps inside the retriever, of each question asked."""
        return {
            (time, query_id): ranking.branches or ()
            for time, systems in enumerate(self.runs)
            for query_id, ranking in systems[0].run.items()
        }

    @property
    def notes(self) -> Iterator[str]:
        """What isn't counted, and what was lost at the retriever as far as is known."""
        if n := self.n_unknown:
            yield f"stages leave out {questions(n)}, whose matcher failed"
        own = {INDEX, EXACT}
        seen = {asked for asked, steps in self._steps.items() if {s.retriever for s in steps} - own}
        never = {
            fate.asked
            for fate in self._fates
            if fate.loss and fate.loss.stage == RETRIEVER and not fate.loss.failed
        }
        if seen and (unseen := {query_id for _, query_id in never - seen}):
            yield (
                f"no step inside the retriever was seen on {questions(len(unseen))}, as behind a "
                "cache: what counts as never retrieved may have been lost there"
            )

    @property
    def stages(self) -> list[str]:
        return [*self.inside, *self.scored[1:], *sorted(self._ends)]

    @cached_property
    def flow(self) -> list[StageFlow]:
        """What each stage does, in order; all losses add up to what is missing at the end."""
        lost = Counter(loss.stage for loss in self.losses)
        failed = Counter(loss.stage for loss in self.losses if loss.failed)
        gained = Counter(change.stage for change in self.changes if change.kind == "gained")
        kept_by = {stage: self._kept(stage) for stage in self.stages}
        for before, stage in pairwise(self.inside[self.inside.index(RETRIEVER) :]):
            gained[stage] = len(kept_by[stage]) - len(kept_by[before]) + lost[stage]
        return [
            StageFlow(
                stage, len(kept), lost[stage], failed[stage], gained[stage], self._reachable(kept)
            )
            for stage, kept in kept_by.items()
        ]

    def _kept(self, stage: str) -> list[_Fate]:
        inside = self.inside
        if stage in self._ends:
            return [fate for fate in self._fates if fate.loss is None]
        if stage in inside:
            number = inside.index(stage)
            before = {"", *inside[number + 1 :]}
            kept = [fate for fate in self._fates if fate.inside in before]
            return [fate for fate in kept if stage == INDEX or self._since(fate) <= number]
        number = self.scored.index(stage)
        return [fate for fate in self._fates if fate.had[number]]

    def _since(self, fate: _Fate) -> int:
        """The stage inside the retriever that brought it in: the first, if a branch returned it."""
        steps = [step for step in self._steps[fate.asked] if step.retriever not in {INDEX, EXACT}]
        leaves = {step.retriever for step in steps} - {"", *(step.asked_by for step in steps)}
        held = [each for each in fate.held if each.rank and each.held_by != INDEX]
        if not leaves or not {EXACT, *leaves}.isdisjoint(each.held_by for each in held):
            return 0
        return (
            min((self.inside.index(each.handed_to) for each in held), default=len(self.inside)) - 1
        )

    @property
    def n_wanted(self) -> int:
        return len(self._fates)

    @property
    def of_all(self) -> str:
        return counted(self.n_wanted, "relevant passage", "relevant passages")

    @property
    def n_asked(self) -> int:
        return len({fate.asked for fate in self._fates})

    def _reachable(self, kept: Sequence[_Fate]) -> float | None:
        """The mean of the metric over rankings of what is kept alone, the best grade first."""
        metric = ranking_metric(self.metric)
        if metric is None or metric.lower_is_better or not metric.recognises or metric.needs:
            return None
        if metric.passes is not None or any(len(fate.need) > 1 for fate in self._fates):
            return None
        parameters = metric.model_dump(exclude={"match"}, exclude_none=True)
        plain = type(metric).model_validate({**parameters, "match": BY_ID})
        rankings: dict[tuple[int, str], list[str]] = {fate.asked: [] for fate in self._fates}
        for fate in sorted(kept, key=lambda fate: -fate.need[0].grade):
            rankings[fate.asked].append(fate.need[0].id)
        labels = [systems[-1].judged_by(self.metric).relevance for systems in self.runs]
        relevance = [labels[time][query_id] for time, query_id in rankings]
        n = sum(len(systems[-1].by_query(self.metric)) for systems in self.runs)
        if not n or not rankings:
            return None
        best = score_rankings(relevance, list(rankings.values()), [plain])
        return math.fsum(best[plain.metric_name].tolist()) / n

    @property
    def branches(self) -> list[BranchFlow]:
        """The retrievers inside the retriever that ask no other one, and what they returned."""
        steps = self._steps.values()
        known = dict.fromkeys(step.retriever for of_question in steps for step in of_question)
        others = {"", INDEX, EXACT, *self.inside}
        leaves = [name for name in known if name not in others]
        found: Counter[str] = Counter()
        alone: Counter[str] = Counter()
        for fate in self._fates:
            own = {each.held_by for each in fate.held}.intersection(leaves)
            found.update(own)
            alone.update(own if len(own) == 1 else ())
        return [BranchFlow(name, found[name], alone[name]) for name in leaves]

    def columns(self) -> dict[str, dict[str, float]]:
        """Each "lost at …" to query id to the share of its passages lost there; 0 of none."""
        wanted = Counter(fate.asked[1] for fate in self._fates)
        lost: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for loss in self.losses:
            lost[loss.stage][loss.query_id] += 1
        return {
            lost_at(stage): {
                query_id: lost[stage][query_id] / (wanted[query_id] or 1)
                for query_id in self._known
            }
            for stage in self.stages
        }

    def joined(self, scores: Scores) -> Scores:
        """The scores with a column for the losses of each stage, and these beside what was kept."""
        held: defaultdict[str, dict[str, tuple[str, int, str]]] = defaultdict(dict)
        for loss in self.losses:
            if loss.stage not in self._ends and not loss.failed:
                held[loss.query_id][loss.item] = (loss.previous, loss.before or 0, loss.stage)

        def with_losses(rows: Mapping[str, KeptAnswer], query_id: str) -> KeptAnswer:
            return {**rows[query_id], "held": held[query_id]} if held[query_id] else rows[query_id]

        columns = self.columns()
        answers = {
            reading: LazyMapping(rows, partial(with_losses, rows))
            for reading, rows in scores.answers.items()
        }
        joined = scores.join(columns, order=[*scores, *columns])
        told = [f"{', '.join(columns)}: {note}" for note in self.notes]
        return joined.replace(answers=answers, notes=[*joined.notes, *told])


def _best_item(answer: m.Answer, need: Sequence[m.Item]) -> m.Item:
    """The best placed item of a need that an answer meets."""
    known = answer.found or {}
    return min((item for item in need if item.id in known), key=lambda item: known[item.id])


def losses_statement(losses: StageLosses) -> list[m.Statement]:
    """How many relevant passages are missing at the end, and where most were lost."""
    is_valid = not any(system.invalid(losses.metric) for system in losses.runs[0])
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
_LOST = {INDEX: NOT_INDEXED, RETRIEVER: NEVER, CUT: BELOW, BUDGET: OVER}


def losses_section(losses: StageLosses) -> m.Section:
    """The stages with what they kept, lost and brought in, and the branches of the retriever."""
    flow, digits = losses.flow, digits_of(losses.n_asked)
    columns = {
        "kept": [m.Cell.of(each.kept, "count") for each in flow],
        "lost": [m.Cell.of(each.lost, "count", "alarm") for each in flow],
        "of these, failed": [m.Cell.of(each.failed, "count", "alarm") for each in flow],
        "brought in": [m.Cell.of(each.gained, "count") for each in flow],
        f"{losses.metric} if the rest were perfect": [
            m.Cell.of(each.reachable, "score")._replace(digits=digits) for each in flow
        ],
    }
    head = [name for name, cells in columns.items() if any(cell.value for cell in cells)]
    head = [*dict.fromkeys(["kept", "lost", *head])]
    rows = [m.Row(each.stage, [columns[name][n] for name in head]) for n, each in enumerate(flow)]
    times = f", asked {len(losses.runs)} times" if len(losses.runs) > 1 else ""
    remark = f"({losses.of_all}{times})"
    tables = [m.Table("Relevant passages by stage", head, [rows], first="stage", remark=remark)]
    of_branches = [
        m.Row(each.branch, [m.Cell.of(each.found, "count"), m.Cell.of(each.alone, "count")])
        for each in losses.branches
    ]
    if of_branches:
        head = ["relevant", "by it alone"]
        tables.append(m.Table("Branches of the retriever", head, [of_branches], first="branch"))
    return m.Section(LOSSES_TITLE, tables if losses.n_wanted else [])


def losses_figure(losses: StageLosses) -> Figure | None:
    """What is kept after each stage, and what it lost."""
    if not losses.n_wanted:
        return None
    series = [
        Series(
            f"{each.stage}: {each.lost:,} lost" if each.lost else each.stage,
            0,
            [each.kept, each.kept + each.lost],
            [],
            remarks=[f"{each.kept:,} kept"],
        )
        for each in losses.flow
    ]
    return Figure(
        "flow",
        Axis(f"of {losses.of_all}", ends=(0, losses.n_wanted), is_count=True),
        Axis(),
        series,
    )


def grouped_losses(losses: StageLosses) -> Iterator[tuple[str, list[StageChange]]]:
    """The losses of each stage that has any, in order, those of the best placed first."""
    for stage in losses.stages:
        own = [loss for loss in losses.losses if loss.stage == stage]
        if own:
            yield stage, sorted(own, key=lambda loss: loss.before or 0)
