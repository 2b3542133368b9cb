"""Stages: a retriever alone and after each of its postprocessors, every query asked once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from typing_extensions import Unpack

from llama_index_rag_metrics.decisions.stage_asking import Postprocessors, StageAsker, named_stages
from llama_index_rag_metrics.decisions.stage_losses import (
    Change,
    StageChange,
    StageFlow,
    StageLosses,
    grouped_losses,
    losses_section,
    losses_statement,
)
from llama_index_rag_metrics.evaluation.asking.query import LocalAsker, prepare
from llama_index_rag_metrics.evaluation.asking.query_runner import QueryRunner
from llama_index_rag_metrics.evaluation.asking.run_options import (
    RunOptions,
    StageOptions,
    check_known,
    shows,
)
from llama_index_rag_metrics.evaluation.evaluator import Plan, run_evaluation, warn_of
from llama_index_rag_metrics.evaluation.results.evaluation_results import (
    EvaluationResults,
    curve_figures,
    ranking_metric,
    system_of,
)
from llama_index_rag_metrics.evaluation.source import Source, as_retriever, retrieval_depth
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn
from llama_index_rag_metrics.rankings.matching.matched import MatcherLike, as_matcher
from llama_index_rag_metrics.rankings.run import Latency, Ranking, Run
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.query_lines import wanted_item
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.whereabouts import RETRIEVER
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import synchronous
from llama_index_rag_metrics.scores.scoring.batches import Metrics
from llama_index_rag_metrics.stories.answers import query_answers
from llama_index_rag_metrics.stories.first_line import first_lines, with_failures
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.results_report import listed, systems_report


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
    def _losses(self) -> StageLosses:
        systems = [system_of(results, stage) for stage, results in self.items()]
        ranking = (metric for metric in self[RETRIEVER].scores if ranking_metric(metric))
        return StageLosses(systems, next(ranking, self._metric))

    @property
    def changes(self) -> tuple[StageChange, ...]:
        """Changes of relevant items' ranks from one scored stage to the next, query by query.

        They are of queries that neither stage failed on.
        """
        return tuple(self._losses.changes)

    @property
    def losses(self) -> tuple[StageChange, ...]:
        """Every relevant item that is missing at the end, with the one stage that lost it.

        That is the first stage after the last one that had it; where the first metric has a cutoff,
        what is beyond it is lost at the stage "cut" or "token budget".
        """
        return tuple(self._losses.losses)

    @property
    def flow(self) -> list[StageFlow]:
        """What each stage kept and lost, in order."""
        return self._losses.flow

    def lost(self, stage: str) -> list[StageChange]:
        """The relevant items that a stage lost for good, the best placed first.

        Raises:
            InvalidInput: there is no such stage.
        """
        if stage not in (known := self._losses.stages):
            raise InvalidInput("stage", stage, " or ".join(map(repr, known)))
        return dict(grouped_losses(self._losses)).get(stage, [])

    def gained(self, stage: str) -> list[StageChange]:
        """The relevant items that a stage brought in, the best placed first.

        Raises:
            InvalidInput: there is no such stage.
        """
        if stage not in self._results:
            raise InvalidInput("stage", stage, " or ".join(map(repr, self)))
        own = (change for change in self.changes if change.stage == stage)
        brought = (change for change in own if change.kind == "gained")
        return sorted(brought, key=lambda change: change.after or 0)

    def __repr__(self) -> str:
        return f"<StageResults of {' → '.join(self)}>"

    def report(self, *, full: bool = False) -> m.Report:
        """Where relevant items were lost, and each stage's scores and latency."""
        systems = [system_of(results, stage) for stage, results in self.items()]
        losses = self._losses
        report = systems_report(
            systems, figures=curve_figures(systems), stages=True, decision=self._decisions
        )
        summary, *sections = report.sections
        first, *others = summary.tables
        own = [_change_rows(self), _latency_rows(self)]
        if first.head == list(self):
            first = replace(first, parts=[*first.parts, *own])
        else:  # of many systems, tables have a row for each
            others.append(m.Table("Each stage", list(self), own, by_system=True))
        return replace(
            report,
            title=f"Stages: {listed(list(self), most=9)}",
            primary=self._metric,
            notes=[*report.notes, *losses.notes],
            sections=[replace(summary, tables=[first, *others]), losses_section(losses), *sections],
            listings=[
                _listing(systems, losses.metric, stage, lost)
                for stage, lost in grouped_losses(losses)
            ],
        )

    @property
    def _metric(self) -> str:
        """The metric that the decisions are about: the first."""
        return next(iter(self[RETRIEVER].scores), "")

    @cached_property
    def _decisions(self) -> list[m.Statement]:
        """Where passages were lost, and what failed."""
        systems = [system_of(results, stage) for stage, results in self.items()]
        lost = losses_statement(self._losses)
        if len(systems) == 1 or not lost:
            return [*lost, *first_lines(systems, self._metric, [])]
        distinct = {tuple(system.scores.failed): system for system in reversed(systems)}
        of_each = [*reversed(distinct.values())]
        return with_failures(lost, of_each, self._metric)


_MOVES: dict[Change, str] = {"raised": "relevant, moved up", "lowered": "relevant, moved down"}
_LISTED_LOSSES = 5


def _change_rows(stages: StageResults) -> list[m.Row]:
    counts = Counter((change.stage, change.kind) for change in stages.changes)
    rows = []
    for kind, label in _MOVES.items():
        numbers = [m.Cell.of(counts[stage, kind], "count") for stage in list(stages)[1:]]
        if numbers:
            rows.append(m.Row(label, [m.Cell(None, tone="quiet"), *numbers]))
    return rows


def _latency_rows(stages: StageResults) -> list[m.Row]:
    alone = stages.stage_latency.values()
    return [
        m.Row(
            f"this stage {name}",
            [m.Cell.of(getattr(latency, name, None), "seconds") for latency in alone],
        )
        for name in ("p50", "p95")
    ]


def _listing(
    systems: Sequence[System], metric: str, stage: str, lost: Sequence[StageChange]
) -> m.Listing:
    shown, queries = lost[:_LISTED_LOSSES], []
    for query_id in dict.fromkeys(change.query_id for change in shown):
        story = query_answers(query_id, systems, metric, stages=True)
        items = {item.id: item for need in story.wanted for item in need}
        remarks = [
            # what failed has no story
            plain(str(change))
            if story.answers[-1].error
            else wanted_item(story, items[change.item], len(systems) - 1)
            for change in shown
            if change.query_id == query_id
        ]
        queries.append(m.QueryAnswers(query_id, story.text, remarks=remarks))
    return m.Listing(f"Lost at {stage}: {len(lost):,}", queries, more=len(lost) - len(shown))


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

    Every relevant passage that is missing at the end gets the one stage that lost it, by the first
    metric. `aevaluate_stages` is awaited; `evaluate_stages` isn't. If a stage fails on a query,
    that stage and those after it have failed on it.

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
        >>> [(stage.stage, stage.kept, stage.lost) for stage in stages.flow]
        [('retriever', 1, 0), ('cutoff', 0, 1)]
    """
    check_known(aevaluate_stages, options)
    named = named_stages(postprocessors)
    run_options = RunOptions.of(
        options,
        workers=workers,
        show_progress=show_progress,
        match_on=match_on,
        matcher=as_matcher(matcher),
    )
    plan = Plan.of(dataset, resolve(metrics), run_options)
    prepared = await prepare(plan.computed, plan.questions, run_options.cache)
    source = as_retriever(retriever, retrieval_depth(plan.metrics))
    asker = StageAsker(source, plan, named)
    by_id = replace(plan, options=replace(run_options, matcher=None))
    (collected,) = await QueryRunner(asker, by_id).collect()
    warn_of([collected])
    stage_options = replace(run_options, show_progress=False, raise_on_error=False)
    results = {}
    for stage in asker.outcomes:
        results[stage] = evaluated = await run_evaluation(
            LocalAsker(source, plan, prepared),
            replace(plan, options=replace(stage_options, name=stage)),
            stored=[asker.rankings(stage, collected.run)],
        )
        evaluated.run.stage = stage
        notes = [*evaluated.scores.notes, *collected.notes]
        evaluated.scores = evaluated.scores.replace(notes=dict.fromkeys(notes))
    return StageResults(results, asker.seconds_by_query_id())


evaluate_stages = synchronous(aevaluate_stages)
