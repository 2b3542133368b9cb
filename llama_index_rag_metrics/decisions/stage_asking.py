"""Asking a pipeline stage by stage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, repeat
from typing import NamedTuple, TypeAlias

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_rag_metrics.decisions.stage_losses import OWN_STAGES
from llama_index_rag_metrics.evaluation.asking.query import Asked, LocalAsker, checked_postprocessor
from llama_index_rag_metrics.evaluation.evaluator import Plan
from llama_index_rag_metrics.evaluation.retrieved.nodes import copied
from llama_index_rag_metrics.evaluation.source import SessionRetriever
from llama_index_rag_metrics.evaluation.who_asks import Query
from llama_index_rag_metrics.rankings.matching.id_matcher import names_of
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.whereabouts import RETRIEVER
from llama_index_rag_metrics.runtime.errors import InvalidInput

Postprocessors: TypeAlias = "Sequence[BaseNodePostprocessor] | Mapping[str, BaseNodePostprocessor]"

_ONE_STAGE = (
    "what the program retrieved for a question, in however many calls, is one ranking here: "
    "evaluate() keeps its calls apart"
)


class _Outcome(NamedTuple):
    """The ranking and nodes after a stage, and the seconds of the stage alone."""

    ranking: Ranking
    seconds: float
    nodes: Sequence[NodeWithScore]


class StageAsker(LocalAsker):
    """Asks every query once, and keeps what was there after each stage."""

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

    async def retrieve(self, query: Query) -> Asked:
        nodes: list[NodeWithScore] = []
        ranking = Ranking()
        names: set[tuple[str, str]] = set()
        ids: list[str] = []
        notes: dict[str, None] = {}
        total = 0.0
        for stage, outcomes in self.outcomes.items():
            if stage in self.postprocess:
                nodes = [copied(node) for node in nodes]
                nodes, seconds = await self.postprocess[stage](nodes, QueryBundle(query.query_str))
            else:
                nodes, seconds = await self.pipeline.ask(query)
            total += seconds
            ranking = self.ranking(nodes, total)
            kept = [copied(node) for node in nodes]
            outcomes[query.query_id] = _Outcome(ranking, seconds, kept)
            # what a later stage drops may be a label all the same
            names.update(names_of(nodes))
            ids += ranking.ids
        notes |= {note: None for pipeline in self.postprocess.values() for note in pipeline.notes}
        notes |= dict.fromkeys(self.notes_on(query, nodes))
        return Asked(ranking, names, dropped=ids, notes=[*self.pipeline.notes, *notes])

    def seconds_by_query_id(self) -> dict[str, dict[str, float]]:
        return {
            stage: {
                query_id: outcomes[query_id].seconds
                for query_id in self.plan.questions.queries
                if query_id in outcomes
            }
            for stage, outcomes in self.outcomes.items()
        }

    def rankings(self, stage: str, run: Run) -> dict[str, Ranking]:
        """Query id to the ranking after a stage; that of the last stage, where it failed."""
        rankings = dict(run)
        for query_id in self.plan.questions.queries:
            if (outcome := self.outcomes[stage].get(query_id)) is not None:
                concurrency = run[query_id].concurrency
                rankings[query_id] = replace(outcome.ranking, concurrency=concurrency)
        return rankings


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
