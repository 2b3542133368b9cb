"""Asking a pipeline stage by stage, and what the steps inside its retriever had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, count, repeat
from typing import Any, NamedTuple, TypeAlias

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.base import BaseIndex
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle

from llama_index_rag_metrics.decisions.stage_losses import APPROXIMATE, EXACT, OWN_STAGES
from llama_index_rag_metrics.evaluation.asking.query import (
    Asked,
    LocalAsker,
    Pipeline,
    checked_postprocessor,
)
from llama_index_rag_metrics.evaluation.evaluator import Plan
from llama_index_rag_metrics.evaluation.retrieved.nodes import copied, mode_note, of_mode
from llama_index_rag_metrics.evaluation.retrieved.run_matching import group_by_matcher
from llama_index_rag_metrics.evaluation.sessions.branches import ROOT, CapturedBranches
from llama_index_rag_metrics.evaluation.sessions.capturing import (
    RECORDER,
    CapturedSession,
    StepNames,
    capturing,
)
from llama_index_rag_metrics.evaluation.source import SessionRetriever, asked_name
from llama_index_rag_metrics.evaluation.who_asks import Query, check_filterable
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn, item_ids, names_of
from llama_index_rag_metrics.rankings.matching.matcher_names import BY_ID
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Ranking, Run, item_columns
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.report.whereabouts import INDEX, RETRIEVER
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error, register_secrets_of

Postprocessors: TypeAlias = "Sequence[BaseNodePostprocessor] | Mapping[str, BaseNodePostprocessor]"
CorpusLike: TypeAlias = "BaseIndex[Any] | Iterable[BaseNode | str]"

_STRAYS = (
    "inside retrievers belonged to no question, and so to no stage: in a thread of one's own, "
    "asyncio.to_thread hands on the context, and loop.run_in_executor doesn't"
)
_ONE_STAGE = (
    "what the program retrieved for a question, in however many calls, is one ranking here: "
    "evaluate() keeps its calls apart"
)


class _Outcome(NamedTuple):
    """The ranking and nodes after a stage, and the seconds of the stage alone."""

    ranking: Ranking
    seconds: float
    nodes: Sequence[NodeWithScore]


_MOST_NUMBERED = 20


class _Inside(NamedTuple):
    """What the steps inside a retriever had, who retrieved there, and what exact search found."""

    steps: Sequence[Call]
    started: Mapping[str, str]
    errors: Sequence[str]
    exact: Ranking | None


class StageAsker(LocalAsker):
    """Asks every query once; where queries were asked `before`, steps have the same names."""

    def __init__(
        self,
        retriever: BaseRetriever,
        plan: Plan,
        postprocessors: Mapping[str, BaseNodePostprocessor],
        exact: BaseRetriever | None,
        corpus: frozenset[str] | None,
        before: StageAsker | None = None,
    ) -> None:
        super().__init__(retriever, plan)
        self.postprocess = {
            stage: self.pipeline.postprocess(postprocessor)
            for stage, postprocessor in postprocessors.items()
        }
        self.outcomes: dict[str, dict[str, _Outcome]] = {
            stage: {} for stage in (RETRIEVER, *postprocessors)
        }
        self.exact = None
        if exact is not None:
            register_secrets_of(exact)
            if plan.filters is not None:
                check_filterable(exact)
            self.exact = Pipeline(exact, plan)
        self.corpus = corpus
        self._inside: dict[str, _Inside] = {}
        self._names: StepNames = StepNames() if before is None else before._names
        self._each_time: list[dict[str, _Inside]] = [] if before is None else before._each_time
        self._each_time.append(self._inside)
        self._strays = RECORDER.strays
        self._depth = 0

    @property
    def notes(self) -> list[str]:
        notes = [_ONE_STAGE] if isinstance(self.pipeline.retriever, SessionRetriever) else []
        if n := RECORDER.strays - self._strays:
            notes.append(f"{counted(n, 'retrieval', 'retrievals')} {_STRAYS}")
        if failed := [inside.errors for inside in self._inside.values() if inside.errors]:
            notes.append(
                f"a retriever inside failed on {questions(len(failed))}: what only it would have "
                f"found counts as never retrieved; {failed[0][0]}"
            )
        exactly = [inside.exact for inside in self._inside.values() if inside.exact is not None]
        if errors := [ranking.error for ranking in exactly if ranking.error is not None]:
            notes.append(f"exact search failed on {questions(len(errors))}: {errors[0]}")
        if 0 < (deepest := max((len(ranking.ids) for ranking in exactly), default=0)) < self._depth:
            notes.append(
                f"exact search returned up to {counted(deepest, 'passage', 'passages')} and the "
                f"retriever, or a branch of it, up to {self._depth:,}: let both return as many"
            )
        return notes

    def close(self) -> None:
        super().close()
        if self.exact is not None:
            self.exact.threads.close()

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
                nodes, seconds = await self._ask(query)
            total += seconds
            ranking = self.ranking(nodes, total)
            kept = [copied(node) for node in of_mode(nodes, self.mode)]
            outcomes[query.query_id] = _Outcome(ranking, seconds, kept)
            # what a later stage drops may be a label all the same
            names.update(names_of(nodes))
            notes |= dict.fromkeys(mode_note(nodes, self.mode))
            ids += ranking.ids
        notes |= {note: None for pipeline in self.postprocess.values() for note in pipeline.notes}
        notes |= dict.fromkeys(self.notes_on(query, nodes))
        ids += (item for step in self._inside[query.query_id].steps for item in step.ids)
        return Asked(ranking, names, dropped=ids, notes=[*self.pipeline.notes, *notes])

    async def _ask(self, query: Query) -> tuple[list[NodeWithScore], float]:
        """Ask the retriever, and keep what the steps inside it had."""
        session = CapturedBranches(self._names, self.pipeline.retriever)
        with capturing(session):
            nodes, seconds = await self.pipeline.ask(query)
        uncounted = partial(self.ranking, is_counted=False)
        steps = session.branches(uncounted)
        self._depth = max(self._depth, len(nodes), *(len(step.ids) for step in steps))
        exactly = None if self.exact is None else await self._ask_exactly(self.exact, query)
        self._inside[query.query_id] = _Inside(steps, session.started, session.errors, exactly)
        return nodes, seconds

    async def _ask_exactly(self, exact: Pipeline, query: Query) -> Ranking:
        try:
            with capturing(CapturedSession()):
                nodes, _ = await exact.ask(query)
        except Exception as error:  # noqa: BLE001 - any search, any error: counted in a note
            return Ranking(error=describe_error(error))
        return self.ranking(nodes, is_counted=False)

    @cached_property
    def _shown_names(self) -> dict[str, str]:
        """The names of steps inside the retriever, numbered in the order of the questions."""
        queries = self.plan.questions.queries
        known = [
            time[query_id] for time in self._each_time for query_id in queries if query_id in time
        ]
        kinds: dict[str, str] = {}
        for inside in known:
            kinds |= inside.started
        for step in (step for inside in known for step in inside.steps):
            kinds.setdefault(step.asked_by, step.asked_by.partition(" ")[0])
        kinds.pop(ROOT, None)
        taken = {*OWN_STAGES, EXACT, *self.outcomes}
        shown = {"": "", ROOT: _free(asked_name(self.pipeline.retriever), taken)}
        taken.add(shown[ROOT])
        n_of_kind, of_many = Counter(kinds.values()), dict[str, str]()
        for name, kind in kinds.items():
            shown[name] = of_many.get(kind) or _free(kind, taken)
            taken.add(shown[name])
            if n_of_kind[kind] > _MOST_NUMBERED:
                of_many[kind] = shown[name]
        return shown

    def _steps(self, query_id: str) -> list[Call]:
        """What had the labels of a query before the retriever's result, in order."""
        steps = []
        if self.corpus is not None:
            labels = self.plan.questions.relevance.get(query_id) or Relevance()
            known = [label for label in labels.grades if label in self.corpus]
            steps.append(Call(known, retriever=INDEX, asked_by=RETRIEVER))
        if (inside := self._inside.get(query_id)) is None:  # the retriever failed
            return steps
        shown = self._shown_names
        if inside.exact is not None and inside.exact.error is None:
            # what lies deeper than any search of the pipeline went isn't lost by an approximation
            columns: dict[str, Any] = {
                name: None if column is None else column[: self._depth]
                for name, column in item_columns(inside.exact).items()
            }
            steps.append(Call(**columns, retriever=EXACT, asked_by=APPROXIMATE))
        for step in inside.steps:
            held_by, handed_to = shown[step.retriever], shown[step.asked_by]
            steps.append(replace(step, retriever=held_by, asked_by=handed_to))
        return steps

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
        permissions, rankings = self.plan.permissions, dict(run)
        for query_id in self.plan.questions.queries:
            nodes: Sequence[NodeWithScore] = ()
            if (outcome := self.outcomes[stage].get(query_id)) is not None:
                concurrency, nodes = run[query_id].concurrency, outcome.nodes
                rankings[query_id] = replace(outcome.ranking, concurrency=concurrency)
            if stage == RETRIEVER:
                branches = self._steps(query_id)
                rankings[query_id] = replace(rankings[query_id], branches=branches)
            if permissions is not None:
                rankings[query_id] = permissions.mark(query_id, rankings[query_id], nodes)
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


def ids_of(corpus: CorpusLike, match_on: MatchOn) -> frozenset[str]:
    """The ids of all that can be retrieved."""
    expected = "an index that keeps its nodes, a list of nodes, or ids"
    if isinstance(corpus, BaseIndex):
        corpus = [*corpus.docstore.docs.values()]
    elif isinstance(corpus, (str, bytes)) or not isinstance(corpus, Iterable):
        raise InvalidInput("corpus", corpus, expected)
    items = [*corpus]
    if not items:
        remedy = "Where only its vector store has the nodes, give them, or their ids."
        raise InvalidInput("corpus", type(corpus), f"{expected}, with something in it", remedy)
    nodes = [NodeWithScore(node=item) for item in items if isinstance(item, BaseNode)]
    ids = [item for item in items if isinstance(item, str)]
    if wrong := [item for item in items if not isinstance(item, (str, BaseNode))]:
        raise InvalidInput("corpus", wrong[0], expected)
    return frozenset([*ids, *item_ids(nodes, match_on)])


def check_labels_are_ids(plan: Plan) -> None:
    by_matcher = group_by_matcher(plan.metrics, plan.options.matcher)
    others = [name for name in by_matcher if name != BY_ID]
    places = [each.metric_name for each in plan.metrics if "spans" in getattr(each, "needs", ())]
    if others or places:
        expected = "no corpus where passages are recognised by " + ", ".join(others or ["place"])
        raise InvalidInput("corpus", "a corpus", expected, "Which of them it has is known by ids.")
