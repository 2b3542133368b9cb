"""Stages: a retriever alone and after each of its postprocessors, every query asked once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.decisions.stage_asking import Postprocessors, StageAsk, named_stages
from llama_index_rag_metrics.decisions.stage_losses import LostPassage, StageFlow, StageLosses
from llama_index_rag_metrics.evaluation.as_ask import SourceLike, as_source, retrieval_depth
from llama_index_rag_metrics.evaluation.evaluating import Evaluation
from llama_index_rag_metrics.evaluation.evaluation_results import (
    EvaluationResults,
    curve_figures,
    ranking_metric,
    system_of,
)
from llama_index_rag_metrics.evaluation.plan import Plan
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn
from llama_index_rag_metrics.rankings.matching.matched import MatcherLike
from llama_index_rag_metrics.rankings.tokens import Tokenizer
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.query_lines import wanted_item
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.whereabouts import RETRIEVER
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import synchronous
from llama_index_rag_metrics.scores.scoring.batches import Failed, Metrics
from llama_index_rag_metrics.stories.answers import query_answers
from llama_index_rag_metrics.stories.first_line import first_lines, with_failures
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.results_report import listed, systems_report


class StageResults(Reportable, Mapping[str, EvaluationResults]):
    """The results of every stage, by its name, in order; `compare` takes them, too.

    A stage's results, and the latencies of its run, are those of the pipeline up to it.

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

    def __init__(self, results: Mapping[str, EvaluationResults]) -> None:
        self._results = dict(results)

    def __getitem__(self, stage: str) -> EvaluationResults:
        return self._results[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    @property
    def losses(self) -> tuple[LostPassage, ...]:
        """Every relevant item that is missing at the end, with the one stage that lost it.

        That is the first stage after the last one that had it; where the first metric has a cutoff,
        what is beyond it is lost at the stage "cut" or "token budget".
        """
        return tuple(self._losses.losses)

    @property
    def flow(self) -> list[StageFlow]:
        """What each stage kept and lost, in order."""
        return self._losses.flow

    def lost(self, stage: str) -> list[LostPassage]:
        """The relevant items that a stage lost for good, the best placed first.

        Raises:
            InvalidInput: there is no such stage.
        """
        stages = self._losses.stages
        if stage not in stages:
            raise InvalidInput("stage", stage, " or ".join(map(repr, stages)))
        return self._losses.lost(stage)

    def report(self, *, full: bool = False) -> m.Report:
        """Where relevant items were lost, and each stage's scores and latency."""
        losses = self._losses
        report = systems_report(
            self._systems,
            figures=curve_figures(self._systems),
            stages=True,
            decision=self._decision(),
        )
        means, *sections = report.sections
        return replace(
            report,
            title=f"Stages: {listed(list(self), most=9)}",
            primary=self._metric,
            notes=[*report.notes, *losses.notes],
            sections=[means, losses.section(), *sections],
            listings=[self._listing(stage) for stage in losses.stages],
        )

    def __repr__(self) -> str:
        return f"<StageResults of {' → '.join(self)}>"

    @cached_property
    def _systems(self) -> list[System]:
        return [system_of(results, stage) for stage, results in self.items()]

    @property
    def _metric(self) -> str:
        """The metric that the decisions are about: the first."""
        return next(iter(self[RETRIEVER].scores), "")

    @cached_property
    def _losses(self) -> StageLosses:
        metrics = [metric for metric in self[RETRIEVER].scores if ranking_metric(metric)]
        return StageLosses(self._systems, metrics[0] if metrics else self._metric)

    def _decision(self) -> list[m.Statement]:
        """Where passages were lost, and what failed."""
        statements = self._losses.statements()
        if len(self) == 1 or not statements:
            return [*statements, *first_lines(self._systems, self._metric, [])]
        # what failed at one stage has failed at those after it
        failed: dict[tuple[str, ...], System] = {}
        for system in self._systems:
            failed.setdefault(tuple(system.scores.failed), system)
        return with_failures(statements, [*failed.values()], self._metric)

    def _listing(self, stage: str) -> m.Listing:
        """What a stage lost, by question, with where each passage was before."""
        losses = self._losses.lost(stage)
        remarks: dict[str, tuple[str, list[str]]] = {}
        for loss in losses[:_LISTED_LOSSES]:
            story = query_answers(loss.query_id, self._systems, self._losses.metric, stages=True)
            items = {item.id: item for need in story.wanted for item in need}
            # what failed has no story
            text = plain(str(loss))
            if not story.answers[-1].error:
                text = wanted_item(story, items[loss.item], len(self) - 1)
            _, texts = remarks.setdefault(loss.query_id, (story.text, []))
            texts.append(text)
        questions = [
            m.QueryAnswers(query_id, text, remarks=texts)
            for query_id, (text, texts) in remarks.items()
        ]
        title = f"Lost at {stage}: {len(losses):,}"
        return m.Listing(title, questions, more=len(losses) - _LISTED_LOSSES)


_LISTED_LOSSES = 5


async def aevaluate_stages(
    retriever: SourceLike,
    postprocessors: Postprocessors,
    dataset: Any,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    match_on: MatchOn = "node_id",
    matcher: MatcherLike | None = None,
    workers: int = WORKERS,
    timeout: float | None = None,
    cache: Cache | str | Path | None = None,
    tokenizer: Tokenizer | None = None,
    failed: Failed = "zero",
    show_progress: bool = False,
    raise_on_error: bool = False,
) -> StageResults:
    """Evaluate a retriever alone and after each postprocessor, asking every query once.

    Every relevant passage that is missing at the end gets the one stage that lost it, by the first
    metric. `aevaluate_stages` is awaited; `evaluate_stages` isn't. If a stage fails on a query,
    that stage and those after it have failed on it.

    Args:
        retriever, dataset, metrics, match_on, matcher, workers, timeout, cache: as of `evaluate`.
        tokenizer, failed, show_progress, raise_on_error: the same.
        postprocessors: LlamaIndex's node postprocessors in the order in which they are applied, or
            name to postprocessor; unnamed ones are called by their class.

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
        >>> [tuple(stage) for stage in stages.flow]
        [('retriever', 1, 0), ('cutoff', 0, 1)]
    """
    options = {**locals()}
    del options["retriever"], options["postprocessors"]
    stages = named_stages(postprocessors)
    plan = Plan.of(**options)
    source = as_source(retriever, retrieval_depth(plan.metrics))
    results: dict[str, EvaluationResults] = {}
    with closing(plan.cache):
        evaluation = Evaluation(source, plan)
        ask = StageAsk(source, plan, evaluation.reader, stages)
        answers = await evaluation.answers(ask)
        for stage in ask.rankings:
            results[stage] = await evaluation.results(ask.answers_after(stage, answers), stage)
            results[stage].run.stage = stage
    return StageResults(results)


evaluate_stages = synchronous(aevaluate_stages)
