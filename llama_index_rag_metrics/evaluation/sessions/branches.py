"""Branches: what every step inside a retriever had in hand, and which step could lose it next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.instrumentation.span import active_span_id
from llama_index.core.schema import NodeWithScore

from llama_index_rag_metrics.evaluation.retrieved.nodes import copied
from llama_index_rag_metrics.evaluation.sessions.capturing import (
    RECORDER,
    CapturedSession,
    Retrieval,
    StepNames,
    as_call,
)
from llama_index_rag_metrics.rankings.run import Call, Ranking

ROOT = "the retriever itself"  # who asks the branches, of whatever class or name
_UNNAMED = "a recorded retrieval"
"""What `record_retrieval` recorded, without saying which tool asked."""


@dataclass(eq=False, slots=True)
class _Held:
    """Nodes in the hands of a step inside a retriever."""

    around: Sequence[Retrieval]  # the retrievals that the step is in, the innermost first
    held_by: str  # the retriever that returned them; "" for a postprocessor
    handed_to: str  # the step that gets them next
    nodes: Sequence[NodeWithScore]  # copies of the `originals`
    originals: Sequence[NodeWithScore] = ()
    began: int = 0  # when the first of their retrievals began, by its position among all
    n_hands: int = 0  # through how many hands they came, in and out of postprocessors
    is_used_up: bool = False  # whether a postprocessor had them since, and so lost some

    def survived(self) -> tuple[int, bool, int, int]:
        """How far they came: out of the inner retrievals first, then through postprocessors."""
        return -len(self.around), not self.is_used_up, self.n_hands, self.began


class CapturedBranches(CapturedSession):
    """The retrievals and postprocessors inside one retriever, however deep."""

    def __init__(self, names: StepNames, retriever: BaseRetriever) -> None:
        super().__init__(names=names)
        self._kind = type(retriever).__name__
        self._held: list[_Held] = []
        self._within: dict[int, list[Retrieval]] = {}

    def is_retrieving(self, span_ids: Iterable[str]) -> bool:
        """Never, so that what retrieves within a retrieval is recorded, too."""
        return False

    def add(self, retrieval: Retrieval, span_id: str | None = None) -> None:
        inner = None if span_id is not None else active_span_id.get()
        self._within[id(retrieval)] = self._around(span_id or inner, inner)
        super().add(retrieval, span_id)
        if span_id is None:
            self._keep(retrieval)

    def end(self, span_id: str, now: float, outcome: list[NodeWithScore] | BaseException) -> None:
        retrieval = self._open.get(span_id)
        super().end(span_id, now, outcome)
        if retrieval is not None:
            self._keep(retrieval)

    def postprocess(
        self,
        before: Sequence[NodeWithScore],
        after: Sequence[NodeWithScore],
        seconds: float,
        span_id: str = "",
        name: str = "",
    ) -> None:
        around = self._around(span_id, span_id)
        used = self._given(before, around)
        for held in used:
            held.is_used_up = True
        began = min((held.began for held in used), default=0)
        n_hands = max((held.n_hands for held in used), default=0)
        # a postprocessor may change nodes in place, which whoever had them before has as they were
        known = {node.node.node_id: node for held in self._held for node in held.nodes}
        intact = [known.get(node.node.node_id) or copied(node) for node in before]
        kept = [copied(node) for node in after]
        handed_to = self._next(around)
        self._held += [
            _Held(around, "", name, intact, (), began, n_hands + 1, is_used_up=True),
            _Held(around, "", handed_to, kept, list(after), began, n_hands + 2),
        ]

    def _given(self, before: Sequence[NodeWithScore], around: Sequence[Retrieval]) -> list[_Held]:
        """What a postprocessor's input was made of, as far as its objects tell; or all there is."""
        here = [held for held in self._held if held.around == around and not held.is_used_up]
        for object_of in (id, lambda node: id(node.node)):
            objects = set(map(object_of, before))
            used = [held for held in here if not objects.isdisjoint(map(object_of, held.originals))]
            if used:
                return used
        return here

    def branches(self, ranking_of: Callable[[Sequence[NodeWithScore]], Ranking]) -> list[Call]:
        """What each step of the last attempt had, as calls of whoever got it next, best last."""
        return [
            as_call(Retrieval("", held.handed_to, 0.0, held.held_by, list(held.nodes)), ranking_of)
            for held in sorted(self._held, key=_Held.survived)
            if self._counts(held.around)
        ]

    @property
    def started(self) -> dict[str, str]:
        """The retrievers inside, in the order in which they began, by name: their classes."""
        inside = (each for each in self.retrievals if not self._is_root(each))
        return {_name(each): _kind(each) or _name(each) for each in inside}

    @property
    def errors(self) -> list[str]:
        """The errors of retrievers inside, which those around them got over."""
        return [
            f"{_name(each)}: {each.error}"
            for each in self.retrievals
            if each.error and not self._is_root(each) and self._counts(self._within[id(each)])
        ]

    def _counts(self, around: Sequence[Retrieval]) -> bool:
        """Whether a step within these retrievals is of the last attempt."""
        attempts = [retrieval for retrieval in self.retrievals if self._is_root(retrieval)]
        return not attempts or [*around[-1:]] == attempts[-1:]

    def _is_root(self, retrieval: Retrieval) -> bool:
        return not self._within[id(retrieval)] and _kind(retrieval) == self._kind

    def _around(self, span_id: str | None, inner: str | None) -> list[Retrieval]:
        """The retrievals around a span, the innermost first; `inner` may itself be one."""
        spans = [inner or "", *RECORDER.around(span_id)]
        return [self._open[span] for span in spans if span in self._open]

    def _next(self, around: Sequence[Retrieval]) -> str:
        """Who gets what is returned within these retrievals."""
        return ROOT if not around or self._is_root(around[0]) else _name(around[0])

    def _keep(self, retrieval: Retrieval) -> None:
        if retrieval.nodes is None or self._is_root(retrieval):
            return
        around = self._within[id(retrieval)]
        nodes = (retrieval.nodes, retrieval.originals)
        began = list(self._within).index(id(retrieval))
        self._held.append(_Held(around, _name(retrieval), self._next(around), *nodes, began))


def _name(retrieval: Retrieval) -> str:
    return retrieval.retriever or retrieval.asked_by or _UNNAMED


def _kind(retrieval: Retrieval) -> str:
    """The class of a retriever, without the number of its name."""
    return retrieval.retriever.partition(" ")[0]
