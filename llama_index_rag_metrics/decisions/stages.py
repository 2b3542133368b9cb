"""Stages: a retriever alone and after each of its postprocessors, every query asked once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from typing_extensions import Unpack

from llama_index_rag_metrics.decisions.comparison.comparing import compare
from llama_index_rag_metrics.decisions.comparison.comparison_report import decisions
from llama_index_rag_metrics.decisions.stage_asking import (
    CorpusLike,
    Postprocessors,
    StageAsker,
    check_labels_are_ids,
    ids_of,
    named_stages,
)
from llama_index_rag_metrics.decisions.stage_losses import (
    BranchFlow,
    Change,
    StageChange,
    StageFlow,
    StageLosses,
    grouped_losses,
    losses_figure,
    losses_section,
    losses_statement,
)
from llama_index_rag_metrics.evaluation.asking.query import LocalAsker, prepare
from llama_index_rag_metrics.evaluation.asking.query_runner import Collected, QueryRunner
from llama_index_rag_metrics.evaluation.asking.run_options import (
    RunOptions,
    StageOptions,
    check_known,
    shows,
)
from llama_index_rag_metrics.evaluation.evaluator import (
    Plan,
    prepare_matchers,
    run_evaluation,
    warn_of,
)
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
from llama_index_rag_metrics.rankings.matching.matcher_names import MatcherLike, as_matcher
from llama_index_rag_metrics.rankings.run import Latency, Ranking, Run
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report import numbers
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.query_lines import wanted_item
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.whereabouts import RETRIEVER
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import synchronous
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.first_line import MEANS, first_lines, with_failures
from llama_index_rag_metrics.scores.scores_report import listed, systems_report
from llama_index_rag_metrics.scores.scoring.batches import Metrics
from llama_index_rag_metrics.scores.stories import query_answers
from llama_index_rag_metrics.scores.systems import System

_ALPHA = 0.05


class StageResults(Reportable, Mapping[str, EvaluationResults]):
    """The results of every stage, by its name, in order; `compare` takes them, too.

    A stage's results, and the latencies of its run, are those of the pipeline up to it.

    Attributes:
        seconds: stage to the seconds that it took on each query it finished; if queries were asked
            several times, the first time.

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
        times = zip(*(system.repeats or [system] for system in systems), strict=True)
        runs = [
            [system._replace(name=stage) for stage, system in zip(self, time, strict=True)]
            for time in times
        ]
        ranking = (metric for metric in self[RETRIEVER].scores if ranking_metric(metric))
        return StageLosses(runs, next(ranking, self._metric))

    @property
    def changes(self) -> tuple[StageChange, ...]:
        """Changes of relevant items' ranks from one scored stage to the next, query by query.

        They are of queries that neither stage failed on, of every time that these were asked.
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
        """What each stage kept and lost, in order: those inside the retriever come first."""
        return self._losses.flow

    @property
    def branches(self) -> list[BranchFlow]:
        """The retrievers that the retriever asks, with the relevant items that they returned."""
        return self._losses.branches

    @property
    def scores(self) -> Scores:
        """The scores of the whole pipeline, and "lost at …" for every stage, for gates.

        Such a score is the share of a query's relevant items that the stage lost; less is better.
        """
        return self._losses.joined(self[next(reversed(self._results))].scores)

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
            systems,
            figures={"losses": lambda _: losses_figure(losses), **curve_figures(systems)},
            stages=True,
            decision=self._decisions,
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
        """Where passages were lost, what each stage changed, with 95 % for all, and what failed."""
        systems = [system_of(results, stage) for stage, results in self.items()]
        lost = losses_statement(self._losses)
        if len(systems) == 1:
            return [*lost, *first_lines(systems, self._metric, [])]
        distinct = {tuple(system.scores.failed): system for system in reversed(systems)}
        of_each = [*reversed(distinct.values())]
        columns = {system.name: system.by_query(self._metric) for system in systems}
        known = [*pairwise(name for name, column in columns.items() if column)]
        changing = sum(columns[before] != columns[after] for before, after in known)
        confidence = 1 - _ALPHA / max(changing, 1)
        verdicts = [*lost, *(self._verdict(*pair, confidence) for pair in known)]
        unknown = m.Statement(f"{self._metric} has no value for any question.", "alarm")
        return with_failures(verdicts, of_each, self._metric) or [unknown]

    def _verdict(self, previous: str, stage: str, confidence: float) -> m.Statement:
        """Whether a stage is better than the one before, and how much longer a question takes."""
        two = {name: self[name] for name in (previous, stage)}
        compared = compare(two, previous, metrics=[self._metric], confidence=confidence)
        verdict = decisions(compared)[0]._replace(evidence=MEANS)
        before, after = (results.run.latency for results in two.values())
        if before is None or after is None:
            return verdict
        median = f"{numbers.seconds(after.p50)} instead of {numbers.seconds(before.p50)}"
        return verdict._replace(text=f"{verdict.text} A question takes {median} (median).")


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
    times = Counter((change.query_id, str(change)) for change in lost)
    often = {key: f" ({n:,} times)" if n > 1 else "" for key, n in times.items()}
    distinct = {(change.query_id, str(change)): change for change in lost}
    shown = [*distinct.values()][:_LISTED_LOSSES]
    n_shown = sum(times[change.query_id, str(change)] for change in shown)
    queries = []
    for query_id in dict.fromkeys(change.query_id for change in shown):
        story = query_answers(query_id, systems, metric, stages=True)
        items = {item.id: item for need in story.wanted for item in need}
        remarks = [
            plain(str(change)) + often[query_id, str(change)]
            # what failed has no story, and that of repeats is of the first
            if story.answers[-1].error or systems[-1].repeats
            else wanted_item(story, items[change.item], len(systems) - 1)
            for change in shown
            if change.query_id == query_id
        ]
        queries.append(m.QueryAnswers(query_id, story.text, remarks=remarks))
    return m.Listing(f"Lost at {stage}: {len(lost):,}", queries, more=len(lost) - n_shown)


@shows(StageOptions)
async def aevaluate_stages(
    retriever: Source,
    postprocessors: Postprocessors,
    dataset: Any,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    corpus: CorpusLike | None = None,
    compare_exact: Source | None = None,
    match_on: MatchOn = "node_id",
    matcher: MatcherLike | None = None,
    workers: int = WORKERS,
    show_progress: bool = False,
    **options: Unpack[StageOptions],
) -> StageResults:
    """Evaluate a retriever alone and after each postprocessor, asking every query once.

    Every relevant passage that is missing at the end gets the one stage that lost it, by the first
    metric. What a fusion, router, recursive or auto-merging retriever, an engine or a function of
    your own asks of other retrievers and postprocessors is seen through LlamaIndex's events: such
    steps are stages, too. `aevaluate_stages` is awaited; `evaluate_stages` isn't. If a stage fails
    on a query, that stage and those after it have failed on it.

    Args:
        retriever, dataset, metrics, match_on, matcher, workers, show_progress: as of `evaluate`.
        postprocessors: LlamaIndex's node postprocessors in the order in which they are applied, or
            name to postprocessor; unnamed ones are called by their class. Empty for a retriever
            that has all its stages inside.
        corpus: what the retriever can find: an index that keeps its nodes, nodes, or ids. Passages
            that aren't there are lost at the stage "index". Labels have to be ids.
        compare_exact: the same search, but exact, such as a flat index, or Qdrant's with
            `exact=True`: what it finds and the retriever doesn't is lost at the stage "approximate
            search".

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
    in_corpus = None if corpus is None else ids_of(corpus, match_on)
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
    if in_corpus is not None:
        check_labels_are_ids(plan)
    depth = retrieval_depth(plan.metrics)
    source = as_retriever(retriever, depth)
    exact = None if compare_exact is None else as_retriever(compare_exact, depth)
    once = replace(plan, options=replace(run_options, repeats=1))
    askers, collected = list[StageAsker](), list[Collected]()
    for _ in range(run_options.repeats):
        before = askers[-1] if askers else None
        askers.append(StageAsker(source, once, named, exact, in_corpus, before))
        collected += await QueryRunner(askers[-1], once).collect()
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
    for stage in askers[0].outcomes:
        results[stage] = evaluated = await run_evaluation(
            LocalAsker(source, plan, prepared),
            replace(plan, options=replace(stage_options, name=stage)),
            stored=[
                asker.rankings(stage, each.run)
                for asker, each in zip(askers, collected, strict=True)
            ],
        )
        evaluated.run.stage = stage
        notes = [*evaluated.scores.notes, *(note for each in collected for note in each.notes)]
        evaluated.scores = evaluated.scores.replace(notes=dict.fromkeys(notes))
    return StageResults(results, askers[0].seconds_by_query_id())


evaluate_stages = synchronous(aevaluate_stages)
