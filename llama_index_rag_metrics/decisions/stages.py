"""Stages: a retriever alone and after each of its postprocessors, every query asked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_rag_metrics.evaluation.as_ask import (
    SourceLike,
    as_source,
    ask_captured,
    postprocessor_call,
    retrieval_depth,
)
from llama_index_rag_metrics.evaluation.ask_all import Answers
from llama_index_rag_metrics.evaluation.evaluating import Evaluation
from llama_index_rag_metrics.evaluation.evaluation_results import (
    EvaluationResults,
    curve_figures,
    ranking_metric,
    system_of,
)
from llama_index_rag_metrics.evaluation.plan import Plan, checked_postprocessor
from llama_index_rag_metrics.evaluation.question import Answer, Question, copied
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.rankings.judging.beside import Tokenizer
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn, names_of
from llama_index_rag_metrics.rankings.matching.matched import MatcherLike
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as one_line
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.report.query_lines import wanted_item
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.whereabouts import RETRIEVER
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import WORKERS, synchronous, within
from llama_index_rag_metrics.scores.batches import Failed, Metrics
from llama_index_rag_metrics.stories.answers import query_answers
from llama_index_rag_metrics.stories.first_line import first_lines, with_failures
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.results_report import listed, systems_report

from .stage_losses import OWN_STAGES, LostPassage, StageFlow, StageLosses

Postprocessors: TypeAlias = "Sequence[BaseNodePostprocessor] | Mapping[str, BaseNodePostprocessor]"

LOSSES = "Where relevant passages are lost"
_LISTED_LOSSES = 5
_ONE_STAGE = (
    "what the program retrieved for a question, in however many calls, is one ranking here: "
    "evaluate() keeps its calls apart"
)


class StageResults(Reportable, dict[str, EvaluationResults]):
    """The results of every stage, by its name, in order; `compare` takes them, too.

    A stage's results, and the latencies of its run, are those of the pipeline up to it.

    Examples:
        >>> dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d2"]}}
        >>> stages = evaluate_stages(lambda query: ["d1"], [], dataset, ["recall"])
        >>> print(stages.losses[0])
        d2: relevant, not retrieved
    """

    @property
    def losses(self) -> tuple[LostPassage, ...]:
        """Every relevant passage that is missing at the end, with the one stage that lost it.

        What is beyond the cutoff of the first metric is lost at "cut" or "token budget".
        """
        return tuple(self._losses.losses)

    @property
    def flow(self) -> list[StageFlow]:
        """What each stage kept and lost, in order."""
        return self._losses.flow

    def lost(self, stage: str) -> list[LostPassage]:
        """The relevant passages that a stage lost for good, the best placed first.

        Raises:
            InvalidInput: there is no such stage.
        """
        stages = self._losses.stages
        if stage not in stages:
            raise InvalidInput("stage", stage, " or ".join(map(repr, stages)))
        losses = [loss for loss in self.losses if loss.stage == stage]
        return sorted(losses, key=lambda loss: loss.rank or 0)

    def report(self, *, full: bool = False) -> m.Report:
        """Where relevant passages were lost, and each stage's scores and latency."""
        report = systems_report(
            self._systems,
            figures=curve_figures(self._systems),
            stages=True,
            decision=self._decision(),
        )
        means, *sections = report.sections
        if self._losses.n_wanted:
            sections.insert(0, m.Section(LOSSES, [self._losses.table()]))
        notes = list(report.notes)
        if self._losses.n_unknown:
            left_out = questions(self._losses.n_unknown)
            notes.append(f"stages leave out {left_out}, whose matcher failed")
        return replace(
            report,
            title=f"Stages: {listed(list(self), most=9)}",
            primary=self._metric,
            notes=notes,
            sections=[means, *sections],
            listings=[self._listing(stage) for stage in self._losses.stages],
        )

    def __repr__(self) -> str:
        return f"<StageResults of {' → '.join(self)}>"

    @cached_property
    def _systems(self) -> list[System]:
        return [system_of(results, stage) for stage, results in self.items()]

    @property
    def _metric(self) -> str:
        return next(iter(self[RETRIEVER].scores), "")

    @cached_property
    def _losses(self) -> StageLosses:
        metrics = [metric for metric in self[RETRIEVER].scores if ranking_metric(metric)]
        return StageLosses(self._systems, [*metrics, self._metric][0])

    def _decision(self) -> list[m.Statement]:
        """Where passages were lost, and what failed."""
        sentence = self._losses.sentence()
        if any(system.invalid(self._losses.metric) for system in self._systems):
            sentence = ""
        statements = [m.Statement(sentence, evidence=LOSSES)] if sentence else []
        if len(self) == 1 or not statements:
            return [*statements, *first_lines(self._systems, self._metric, [])]
        # what failed at one stage has failed at those after it
        failed: dict[tuple[str, ...], System] = {}
        for system in self._systems:
            failed.setdefault(tuple(system.scores.failed), system)
        return with_failures(statements, [*failed.values()], self._metric)

    def _listing(self, stage: str) -> m.Listing:
        """What a stage lost, by question, with where each passage was before."""
        losses = self.lost(stage)
        listed: dict[str, m.QueryAnswers] = {}
        for loss in losses[:_LISTED_LOSSES]:
            story = query_answers(loss.query_id, self._systems, self._losses.metric, stages=True)
            items = {item.id: item for item in chain(*story.wanted)}
            # what failed has no story
            text = one_line(str(loss))
            if not story.answers[-1].error:
                text = wanted_item(story, items[loss.item], len(self) - 1)
            question = listed.get(loss.query_id, m.QueryAnswers(loss.query_id, story.text))
            listed[loss.query_id] = question._replace(remarks=[*question.remarks, text])
        title = f"Lost at {stage}: {len(losses):,}"
        return m.Listing(title, list(listed.values()), more=len(losses) - _LISTED_LOSSES)


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
    stages = _named_stages(postprocessors)
    plan = Plan.of(**options)
    source = as_source(retriever, retrieval_depth(plan.metrics))
    results: dict[str, EvaluationResults] = {}
    with plan.cache:
        evaluation = Evaluation(source, plan)
        ask = _StageAsk(evaluation, plan, stages)
        answers = await evaluation.answers(ask)
        for stage in ask.rankings:
            results[stage] = await evaluation.results(ask.answers_after(stage, answers), stage)
    return StageResults(results)


evaluate_stages = synchronous(aevaluate_stages)


class _StageAsk:
    """Asks every question once, and keeps what was there after each stage."""

    def __init__(
        self, evaluation: Evaluation, plan: Plan, stages: Mapping[str, BaseNodePostprocessor]
    ) -> None:
        self._source, self._plan, self._reader = evaluation.source, plan, evaluation.reader
        self._calls = {name: postprocessor_call(stages[name]) for name in stages}
        self.rankings: dict[str, dict[str, Ranking]] = {RETRIEVER: {}}
        self.rankings |= {name: {} for name in stages}

    async def __call__(self, question: Question) -> Answer:
        begin = perf_counter()
        answer = await ask_captured(self._source, question, self._plan.timeout)
        notes = [*answer.notes]
        nodes = answer.nodes()
        if answer.calls is not None:
            notes.append(_ONE_STAGE)
        seconds = perf_counter() - begin
        self._keep(RETRIEVER, question, nodes, seconds)
        bundle = QueryBundle(question.query_str)
        for stage, call in self._calls.items():
            begin = perf_counter()
            copies = [copied(node) for node in nodes]
            nodes = await within(self._plan.timeout, call(copies, bundle))
            seconds += perf_counter() - begin
            self._keep(stage, question, nodes, seconds)
            notes.extend(call.notes)
        return Answer(nodes, seconds=seconds, notes=notes)

    def _keep(
        self, stage: str, question: Question, nodes: Sequence[NodeWithScore], seconds: float
    ) -> None:
        """Keep the ranking after a stage, with the seconds of the pipeline up to it."""
        ranking = self._reader.filled(self._reader.ranking(nodes))
        # what a later stage drops may be a label all the same
        self._reader.labels.see(ranking.ids, names_of(nodes))
        self.rankings[stage][question.query_id] = replace(ranking, latency=seconds)

    def answers_after(self, stage: str, answers: Answers) -> Answers:
        """The answers after a stage; where it failed, those of the last stage."""
        rankings = dict(answers.rankings)
        for attempt, answer in answers.rankings.items():
            ranking = self.rankings[stage].get(attempt.query_id)
            if ranking is not None:
                rankings[attempt] = replace(ranking, concurrency=answer.concurrency)
        return replace(answers, rankings=rankings)


def _named_stages(postprocessors: Postprocessors) -> dict[str, BaseNodePostprocessor]:
    """The postprocessors by name; repeated classes are numbered from the second on."""
    if isinstance(postprocessors, Mapping):
        pairs = list(postprocessors.items())
    elif isinstance(postprocessors, Sequence):
        pairs = [(type(postprocessor).__name__, postprocessor) for postprocessor in postprocessors]
    else:
        expected = "a list of LlamaIndex's node postprocessors, or a mapping of names to them"
        remedy = "They stand before the dataset."
        raise InvalidInput("postprocessors", postprocessors, expected, remedy)
    stages: dict[str, BaseNodePostprocessor] = {}
    for name, postprocessor in pairs:
        stage, number = name, 1
        while stage in stages or stage in OWN_STAGES:
            number += 1
            stage = f"{name} {number}"
        stages[stage] = checked_postprocessor("postprocessors", postprocessor)
    return stages
