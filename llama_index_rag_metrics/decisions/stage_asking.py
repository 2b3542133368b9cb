"""Asking a pipeline stage by stage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TypeAlias

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_rag_metrics.decisions.stage_losses import OWN_STAGES
from llama_index_rag_metrics.evaluation.as_ask import Source, ask_captured, postprocessor_call
from llama_index_rag_metrics.evaluation.ask_all import Answers
from llama_index_rag_metrics.evaluation.plan import Plan, checked_postprocessor
from llama_index_rag_metrics.evaluation.question import Answer, Question, copied
from llama_index_rag_metrics.evaluation.reading import AnswerReader
from llama_index_rag_metrics.rankings.matching.id_matcher import names_of
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report.whereabouts import RETRIEVER
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import within

Postprocessors: TypeAlias = "Sequence[BaseNodePostprocessor] | Mapping[str, BaseNodePostprocessor]"

_ONE_STAGE = (
    "what the program retrieved for a question, in however many calls, is one ranking here: "
    "evaluate() keeps its calls apart"
)


class StageAsk:
    """Asks every question once, and keeps what was there after each stage."""

    def __init__(
        self,
        source: Source,
        plan: Plan,
        reader: AnswerReader,
        postprocessors: Mapping[str, BaseNodePostprocessor],
    ) -> None:
        self._source, self._plan, self._reader = source, plan, reader
        self._calls = {
            stage: postprocessor_call(postprocessor)
            for stage, postprocessor in postprocessors.items()
        }
        self.rankings: dict[str, dict[str, Ranking]] = {
            stage: {} for stage in (RETRIEVER, *postprocessors)
        }

    async def __call__(self, question: Question) -> Answer:
        begin = perf_counter()
        answer = await ask_captured(self._source, question, self._plan.timeout)
        if answer.error is not None:
            return answer
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


def named_stages(postprocessors: Postprocessors) -> dict[str, BaseNodePostprocessor]:
    """The postprocessors by name; repeated classes are numbered from the second on."""
    if not isinstance(postprocessors, (Mapping, Sequence)):
        expected = "a list of LlamaIndex's node postprocessors, or a mapping of names to them"
        remedy = "They stand before the dataset."
        raise InvalidInput("postprocessors", postprocessors, expected, remedy)
    if isinstance(postprocessors, Mapping):
        pairs = list(postprocessors.items())
    else:
        pairs = [("", postprocessor) for postprocessor in postprocessors]
    stages: dict[str, BaseNodePostprocessor] = {}
    for name, component in pairs:
        postprocessor = checked_postprocessor("postprocessors", component)
        stage = _free_name(name or type(postprocessor).__name__, {*OWN_STAGES, *stages})
        stages[stage] = postprocessor
    return stages


def _free_name(name: str, taken: Collection[str]) -> str:
    """The name, with a number where it is taken."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free
