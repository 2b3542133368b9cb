"""Stages: a retriever alone and after each of its postprocessors, every query asked once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise, repeat, starmap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import QueryBundle
from typing_extensions import Unpack

from llama_index_rag_metrics.decisions.comparison.comparing import compare
from llama_index_rag_metrics.decisions.comparison.comparison_report import decisions
from llama_index_rag_metrics.evaluation.asking.pipeline import checked_postprocessor
from llama_index_rag_metrics.evaluation.asking.query import Asked, LocalAsker, prepare
from llama_index_rag_metrics.evaluation.asking.query_runner import QueryRunner
from llama_index_rag_metrics.evaluation.asking.run_options import (
    RunOptions,
    StageOptions,
    check_known,
    shows,
)
from llama_index_rag_metrics.evaluation.results.curves import curve_figures
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.evaluation.results.results_report import system_of
from llama_index_rag_metrics.evaluation.retrieved.nodes import copied, mode_note, of_mode
from llama_index_rag_metrics.evaluation.run_evaluation import (
    Plan,
    prepare_matchers,
    run_evaluation,
    warn_of,
)
from llama_index_rag_metrics.evaluation.source import (
    SessionRetriever,
    Source,
    as_retriever,
    retrieval_depth,
)
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn, names_of
from llama_index_rag_metrics.rankings.matching.matcher_names import MatcherLike, as_matcher
from llama_index_rag_metrics.rankings.run import Latency, Ranking, Run
from llama_index_rag_metrics.report import numbers
from llama_index_rag_metrics.report.model import (
    Cell,
    Listing,
    QueryAnswers,
    Report,
    Row,
    Statement,
    Table,
    Tone,
)
from llama_index_rag_metrics.report.query_lines import wanted_item
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import synchronous
from llama_index_rag_metrics.scores.first_line import MEANS, with_failures
from llama_index_rag_metrics.scores.reading import Reading
from llama_index_rag_metrics.scores.scores_report import listed, systems_report
from llama_index_rag_metrics.scores.scoring.batches import Metrics
from llama_index_rag_metrics.scores.stories import query_answers
from llama_index_rag_metrics.scores.systems import System

if TYPE_CHECKING:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore

Change: TypeAlias = Literal["gained", "lost", "raised", "lowered"]


@dataclass(frozen=True, slots=True, repr=False)
class StageChange(Sentence):
    """The change of one relevant item of one query by a stage.

    Attributes:
        stage, previous: the stage, and the one before it.
        query_id: the query.
        item: the id of the relevant item.
        grade: its grade, 1 or more.
        before, after: its ranks in the previous stage and in this one, None where it wasn't there.
            Where the first metric asks for one of a group, of the best placed one of the group.

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

    @property
    def kind(self) -> Change:
        """Whether the item came in, was dropped, or moved up or down."""
        if self.before is None:
            return "gained"
        if self.after is None:
            return "lost"
        return "raised" if self.after < self.before else "lowered"

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.item}: relevant, not retrieved, put at {self.after} by {self.stage}"
        done = "dropped" if self.after is None else f"moved to {self.after}"
        return f"{self.item}: relevant, retrieved at {self.before}, {done} by {self.stage}"


Postprocessors: TypeAlias = "Sequence[BaseNodePostprocessor] | Mapping[str, BaseNodePostprocessor]"

RETRIEVER = "retriever"
"""The name of the first stage."""

_ALPHA = 0.05
_NOWHERE = (None, "")


class StageResults(Reportable, Mapping[str, EvaluationResults]):
    """The results of every stage, by its name, in order; `compare` takes them, too.

    A stage's results, and the latencies of its run, are those of the pipeline up to it.

    Attributes:
        seconds: stage to the seconds that it took on each query it finished.

    Examples:
        >>> from llama_index_rag_metrics import evaluate_stages
        >>> dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d1"]}}
        >>> from llama_index.core.postprocessor import SimilarityPostprocessor
        >>> stages = evaluate_stages(
        ...     lambda query: ["d2", "d1"], [SimilarityPostprocessor()], dataset, ["mrr"]
        ... )
        >>> list(stages)
        ['retriever', 'SimilarityPostprocessor']
    """

    def __init__(
        self, results: Mapping[str, EvaluationResults], seconds: Mapping[str, Mapping[str, float]]
    ) -> None:
        self._results = dict(results)
        self.seconds = {stage: dict(by_query) for stage, by_query in seconds.items()}

    def __getitem__(self, stage: str) -> EvaluationResults:
        return self._results[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    @property
    def stage_latency(self) -> dict[str, Latency | None]:
        """Stage to the percentiles of the seconds that it took alone, without those before it."""
        latencies = {}
        for stage, seconds in self.seconds.items():
            run = self[stage].run
            alone = {
                query_id: Ranking(latency=latency, concurrency=run[query_id].concurrency)
                for query_id, latency in seconds.items()
            }
            latencies[stage] = Run(alone).latency
        return latencies

    @cached_property
    def changes(self) -> tuple[StageChange, ...]:
        """Changes of relevant items' ranks, in the order of stages and queries.

        They are of queries that neither stage failed on.
        """
        return tuple(chain.from_iterable(starmap(self._changes, pairwise(self))))

    def _changes(self, previous: str, stage: str) -> Iterator[StageChange]:
        before, after = self[previous], self[stage]
        earlier, later = (
            system_of(results).judged_by(next(iter(results.matched_by), ""))
            for results in (before, after)
        )
        failed = {**before.run.failed, **after.run.failed}
        reading = Reading.of(self._metric)
        for query_id, judged in earlier.relevance.items():
            if query_id in failed or query_id not in later.run:
                continue
            ranks = [
                {item: rank for rank, item in enumerate(dict.fromkeys(run[query_id].ids), 1)}
                for run in (earlier.run, later.run)
            ]
            for need in reading.wanted(judged, {}, None):
                grades = {item.id: item.grade for item in need if item.grade > 0}
                (was, before_it), (now, after_it) = (
                    min(
                        ((rank_of[item], item) for item in grades if item in rank_of),
                        default=_NOWHERE,
                    )
                    for rank_of in ranks
                )
                if was != now:
                    item = before_it if now is None else after_it
                    yield StageChange(stage, previous, query_id, item, grades[item], was, now)

    def lost(self, stage: str) -> list[StageChange]:
        """The relevant items that a stage dropped, the best placed first."""
        return sorted(self._of(stage, "lost"), key=lambda change: change.before or 0)

    def gained(self, stage: str) -> list[StageChange]:
        """The relevant items that a stage brought in, the best placed first."""
        return sorted(self._of(stage, "gained"), key=lambda change: change.after or 0)

    def _of(self, stage: str, kind: Change) -> list[StageChange]:
        if stage not in self._results:
            raise InvalidInput("stage", stage, " or ".join(map(repr, self)))
        return [change for change in self.changes if change.stage == stage and change.kind == kind]

    def __repr__(self) -> str:
        return f"<StageResults of {' → '.join(self)}>"

    def report(self, *, full: bool = False) -> Report:
        """Each stage's scores, gains, losses and latency, and the relevant items that were lost."""
        systems = [system_of(results, stage) for stage, results in self.items()]
        report = systems_report(
            systems,
            figures=curve_figures(systems),
            stages=True,
            decision=self._decisions,
        )
        summary, *sections = report.sections
        *means, last = summary.tables
        own = [_change_rows(self), _latency_rows(self)]
        if last.head == list(self):
            tables = [*means, replace(last, parts=[*last.parts, *own])]
        else:  # of many systems, tables have a row for each
            tables = [*means, last, Table("Each stage", list(self), own, by_system=True)]
        return replace(
            report,
            title=f"Stages: {listed(list(self), most=9)}",
            primary=self._metric,
            sections=[replace(summary, tables=tables), *sections],
            listings=[_lost(self, systems, number) for number in range(1, len(systems))],
        )

    @property
    def _metric(self) -> str:
        """The metric that the decisions are about: the first."""
        return next(iter(self[RETRIEVER].scores), "")

    @cached_property
    def _decisions(self) -> list[Statement]:
        """Each stage against the one before, and what failed.

        The more stages change a score, the more confidence each comparison has, so that all of them
        hold together with 95 %.
        """
        systems = [system_of(results, stage) for stage, results in self.items()]
        distinct = {tuple(system.scores.failed): system for system in reversed(systems)}
        of_each = [*reversed(distinct.values())]
        columns = {system.name: system.by_query(self._metric) for system in systems}
        known = [*pairwise(name for name, column in columns.items() if column)]
        changing = sum(columns[before] != columns[after] for before, after in known)
        confidence = 1 - _ALPHA / max(changing, 1)
        verdicts = [self._verdict(*pair, confidence) for pair in known]
        unknown = Statement(f"{self._metric} has no value for any question.", "alarm")
        return with_failures(verdicts, of_each, self._metric) or [unknown]

    def _verdict(self, previous: str, stage: str, confidence: float) -> Statement:
        """Whether a stage is better than the one before, and how much longer a question takes."""
        two = {name: self[name] for name in (previous, stage)}
        compared = compare(two, previous, metrics=[self._metric], confidence=confidence)
        verdict = decisions(compared)[0]._replace(evidence=MEANS)
        before, after = (results.run.latency for results in two.values())
        if before is None or after is None:
            return verdict
        median = f"{numbers.seconds(after.p50)} instead of {numbers.seconds(before.p50)}"
        return verdict._replace(text=f"{verdict.text} A question takes {median} (median).")


_CHANGES: dict[Change, tuple[str, Tone]] = {
    "gained": ("relevant, brought in", "normal"),
    "lost": ("relevant, dropped", "alarm"),
    "raised": ("relevant, moved up", "normal"),
    "lowered": ("relevant, moved down", "normal"),
}
_LISTED_LOSSES = 10


def _change_rows(stages: StageResults) -> list[Row]:
    counts = Counter((change.stage, change.kind) for change in stages.changes)
    rows = []
    for kind, (label, tone) in _CHANGES.items():
        numbers = [Cell.of(counts[stage, kind], "count", tone) for stage in list(stages)[1:]]
        rows.append(Row(label, [Cell(None, tone="quiet"), *numbers]))
    return rows


def _latency_rows(stages: StageResults) -> list[Row]:
    alone = stages.stage_latency.values()
    return [
        Row(
            f"this stage {name}",
            [Cell.of(getattr(latency, name, None), "seconds") for latency in alone],
        )
        for name in ("p50", "p95")
    ]


def _lost(stages: StageResults, systems: Sequence[System], number: int) -> Listing:
    stage = systems[number].name
    results, lost = stages[stage], stages.lost(stage)
    metric = next(iter(results.matched_by), next(iter(results.scores), ""))
    queries = []
    for change in lost[:_LISTED_LOSSES]:
        story = query_answers(change.query_id, systems[: number + 1], metric, stages=True)
        wanted = (item for need in story.wanted for item in need if item.id == change.item)
        remarks = [wanted_item(story, item, number) for item in wanted]
        queries.append(QueryAnswers(change.query_id, story.text, remarks=remarks))
    return Listing(f"Lost by {stage}: {len(lost):,}", queries, more=len(lost) - len(queries))


@shows(StageOptions)
async def aevaluate_stages(
    retriever: Source,
    postprocessors: Postprocessors,
    dataset: Any,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    match_on: MatchOn = "node_id",
    matcher: MatcherLike | None = None,
    workers: int = WORKERS,
    show_progress: bool = False,
    **options: Unpack[StageOptions],
) -> StageResults:
    """Evaluate a retriever alone and after each postprocessor, asking every query once.

    `aevaluate_stages` is awaited; `evaluate_stages` isn't. If a stage fails on a query, that stage
    and those after it have failed on it.

    Args:
        retriever, dataset, metrics, match_on, matcher, workers, show_progress: as of `evaluate`.
        postprocessors: LlamaIndex's node postprocessors in the order in which they are applied, or
            name to postprocessor; unnamed ones are called by their class.

    The further arguments are those of `StageOptions`.

    Raises:
        InvalidInput: an argument can't be used.
        RetrievalFailed: with `raise_on_error`.

    Examples:
        >>> from llama_index.core.postprocessor import SimilarityPostprocessor
        >>> from llama_index.core.schema import NodeWithScore, TextNode
        >>> def retrieve(query):
        ...     return [NodeWithScore(node=TextNode(id_=name, text=name), score=score)
        ...             for name, score in [("d1", 0.9), ("d2", 0.2)]]
        >>> dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d2"]}}
        >>> cutoff = SimilarityPostprocessor(similarity_cutoff=0.5)
        >>> stages = evaluate_stages(retrieve, {"cutoff": cutoff}, dataset, ["mrr"])
        >>> [results.scores.means["mrr"] for results in stages.values()]
        [0.5, 0.0]
        >>> print(stages.lost("cutoff")[0])
        d2: relevant, retrieved at 2, dropped by cutoff
    """
    check_known(aevaluate_stages, options)
    named = _named(postprocessors)
    run_options = RunOptions.of(
        options,
        workers=workers,
        show_progress=show_progress,
        match_on=match_on,
        matcher=as_matcher(matcher),
        ignore_identical_ids=False,
    )
    plan = Plan.of(dataset, resolve(metrics), run_options)
    prepared = await prepare(plan.computed, plan.questions, run_options.cache)
    await prepare_matchers(plan)
    source = as_retriever(retriever, retrieval_depth(plan.metrics))
    asker = _StageAsker(source, plan, named)
    collected = await QueryRunner(asker, plan).collect()
    warn_of(collected)
    stage_options = replace(
        run_options,
        show_progress=False,
        raise_on_error=False,
        ignore_identical_ids=options.get("ignore_identical_ids", False),
        latency="load",
        latency_sample=None,
    )
    results = {}
    for stage in asker.outcomes:
        results[stage] = evaluated = await run_evaluation(
            LocalAsker(source, plan, prepared),
            replace(plan, options=replace(stage_options, name=stage)),
            stored=asker.rankings(stage, collected.run),
        )
        evaluated.run.stage = stage
        notes = [*evaluated.scores.notes, *collected.notes]
        evaluated.scores = evaluated.scores.replace(notes=notes)
    return StageResults(results, asker.seconds_by_query_id())


evaluate_stages = synchronous(aevaluate_stages)


_ONE_STAGE = (
    "all that the program retrieved for a question is one stage here: evaluate() keeps its calls "
    "apart; for the stages of its tools, evaluate their retriever and postprocessors"
)


class _Outcome(NamedTuple):
    """The ranking and nodes after a stage, and the seconds of the stage alone."""

    ranking: Ranking
    seconds: float
    nodes: Sequence[NodeWithScore]


class _StageAsker(LocalAsker):
    """Asks every query once; `outcomes` are those of each stage by query, where it didn't fail."""

    def __init__(
        self,
        retriever: BaseRetriever,
        plan: Plan,
        postprocessors: Mapping[str, BaseNodePostprocessor],
    ) -> None:
        super().__init__(retriever, plan)
        self.postprocess = {
            stage: self.pipeline.postprocess(postprocessor)
            for stage, postprocessor in postprocessors.items()
        }
        self.outcomes: dict[str, dict[str, _Outcome]] = {
            stage: {} for stage in (RETRIEVER, *postprocessors)
        }

    @property
    def notes(self) -> list[str]:
        return [_ONE_STAGE] if isinstance(self.pipeline.retriever, SessionRetriever) else []

    async def retrieve(self, query: str) -> Asked:
        nodes: list[NodeWithScore] = []
        ranking = Ranking()
        names: set[tuple[str, str]] = set()
        ids: list[str] = []
        notes: dict[str, None] = {}
        total = 0.0
        for stage, outcomes in self.outcomes.items():
            if stage in self.postprocess:
                nodes = [copied(node) for node in nodes]
                nodes, seconds = await self.postprocess[stage](nodes, QueryBundle(query))
            else:
                nodes, seconds = await self.pipeline.ask(query)
            total += seconds
            ranking = self.ranking(nodes, total)
            kept = [copied(node) for node in of_mode(nodes, self.mode)]
            outcomes[query] = _Outcome(ranking, seconds, kept)
            # what a later stage drops may be a label all the same
            names.update(names_of(nodes))
            notes |= dict.fromkeys(mode_note(nodes, self.mode))
            ids += ranking.ids
        notes |= {note: None for pipeline in self.postprocess.values() for note in pipeline.notes}
        return Asked(ranking, names, dropped=ids, notes=[*self.pipeline.notes, *notes])

    def seconds_by_query_id(self) -> dict[str, dict[str, float]]:
        queries = self.plan.questions.queries.items()
        return {
            stage: {
                query_id: outcomes[query].seconds
                for query_id, query in queries
                if query in outcomes
            }
            for stage, outcomes in self.outcomes.items()
        }

    def rankings(self, stage: str, run: Run) -> dict[str, Ranking]:
        """Query id to the ranking after a stage; that of the last stage, where it failed."""
        permissions, rankings = self.plan.permissions, dict(run)
        for query_id, query in self.plan.questions.queries.items():
            nodes: Sequence[NodeWithScore] = ()
            if (outcome := self.outcomes[stage].get(query)) is not None:
                concurrency, nodes = run[query_id].concurrency, outcome.nodes
                rankings[query_id] = replace(outcome.ranking, concurrency=concurrency)
            if permissions is not None:
                rankings[query_id] = permissions.mark(query_id, rankings[query_id], nodes)
        return rankings


def _named(postprocessors: Postprocessors) -> dict[str, BaseNodePostprocessor]:
    """The postprocessors by name; repeated classes are numbered from the second on."""
    if not isinstance(postprocessors, (Mapping, Sequence)):
        expected = "a list of LlamaIndex's node postprocessors, or a mapping of names to them"
        remedy = "They stand before the dataset."
        raise InvalidInput("postprocessors", postprocessors, expected, remedy)
    named: dict[str, BaseNodePostprocessor] = {}
    by_name = postprocessors if isinstance(postprocessors, Mapping) else None
    pairs = zip(repeat(""), postprocessors) if by_name is None else by_name.items()
    for name, given in pairs:
        postprocessor = checked_postprocessor("postprocessors", given)
        first = name or type(postprocessor).__name__
        names = (first, *(f"{first} {number}" for number in range(2, len(postprocessors) + 2)))
        named[next(free for free in names if free not in {RETRIEVER, *named})] = postprocessor
    if not named:
        remedy = "evaluate() evaluates a retriever alone."
        raise InvalidInput("postprocessors", postprocessors, "at least one postprocessor", remedy)
    return named
