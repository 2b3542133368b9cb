"""Asking a pipeline stage by stage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, repeat
from time import perf_counter
from typing import NamedTuple, TypeAlias

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_rag_metrics.decisions.stage_losses import OWN_STAGES
from llama_index_rag_metrics.evaluation.asking.as_ask import Source, ask_captured, each_once
from llama_index_rag_metrics.evaluation.asking.ask_all import Answers, postprocessor_call
from llama_index_rag_metrics.evaluation.asking.plan import Plan, checked_postprocessor
from llama_index_rag_metrics.evaluation.asking.question import Answer, Question
from llama_index_rag_metrics.evaluation.asking.reading import AnswerReader
from llama_index_rag_metrics.evaluation.retrieved.nodes import as_nodes, copied
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


class _Outcome(NamedTuple):
    """The ranking after a stage, and the seconds of the stage alone."""

    ranking: Ranking
    seconds: float


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
        self.outcomes: dict[str, dict[str, _Outcome]] = {
            stage: {} for stage in (RETRIEVER, *postprocessors)
        }

    async def __call__(self, question: Question) -> Answer:
        begin = perf_counter()
        answer = await ask_captured(self._source, question, self._plan.timeout)
        if answer.error is not None:
            return answer
        notes = [*answer.notes]
        nodes = as_nodes(answer.items)
        if answer.calls is not None:
            nodes = each_once(node for call in answer.calls for node in call.nodes or ())
            notes.append(_ONE_STAGE)
        total = seconds = perf_counter() - begin
        self._keep(RETRIEVER, question, nodes, seconds, total)
        bundle = QueryBundle(question.query_str)
        for stage, call in self._calls.items():
            begin = perf_counter()
            own = [copied(node) for node in nodes]
            nodes = await within(self._plan.timeout, call(own, bundle))
            seconds = perf_counter() - begin
            total += seconds
            self._keep(stage, question, nodes, seconds, total)
            notes.extend(call.notes)
        return Answer(nodes, seconds=total, notes=notes)

    def _keep(
        self,
        stage: str,
        question: Question,
        nodes: Sequence[NodeWithScore],
        seconds: float,
        total: float,
    ) -> None:
        ranking = self._reader.filled(self._reader.ranking(nodes))
        # what a later stage drops may be a label all the same
        self._reader.labels.see(ranking.ids, names_of(nodes))
        outcome = _Outcome(replace(ranking, latency=total), seconds)
        self.outcomes[stage][question.query_id] = outcome

    def seconds_by_query_id(self) -> dict[str, dict[str, float]]:
        """Stage to the seconds that it took alone, by question."""
        seconds: dict[str, dict[str, float]] = {}
        for stage, outcomes in self.outcomes.items():
            asked = [name for name in self._plan.dataset.queries if name in outcomes]
            seconds[stage] = {query_id: outcomes[query_id].seconds for query_id in asked}
        return seconds

    def answers_after(self, stage: str, answers: Answers) -> Answers:
        """The answers after a stage; where it failed, those of the last stage."""
        rankings = dict(answers.rankings)
        for attempt, ranking in answers.rankings.items():
            outcome = self.outcomes[stage].get(attempt.query_id)
            if outcome is not None:
                concurrency = ranking.concurrency
                rankings[attempt] = replace(outcome.ranking, concurrency=concurrency)
        return replace(answers, rankings=rankings)


def named_stages(postprocessors: Postprocessors) -> dict[str, BaseNodePostprocessor]:
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
        named[_free(first, {*OWN_STAGES, *named})] = postprocessor
    return named


def _free(name: str, taken: Collection[str]) -> str:
    """The name, with a number where it is taken."""
    numbered = (f"{name} {number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)
