"""Capturing what code retrieves: every outermost retrieval, in order, whoever makes it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter
from typing import Any
from uuid import uuid4

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.instrumentation.dispatcher import active_instrument_tags, instrument_tags  # type: ignore[attr-defined]
from llama_index.core.instrumentation.span import active_span_id
from llama_index.core.schema import NodeWithScore

from llama_index_rag_metrics.evaluation.retrieved.nodes import RetrieverOutput, as_nodes, copied
from llama_index_rag_metrics.evaluation.sessions.recording import RECORDER, TAG, Retrieval
from llama_index_rag_metrics.rankings.fusion import Combine, combine_calls
from llama_index_rag_metrics.rankings.matching.span_matcher import node_span
from llama_index_rag_metrics.rankings.run import Call, Ranking, item_columns
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.errors import CaptureDamaged, InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error


class StepNames:
    """The class of a retriever or postprocessor, numbered from the second one on that differs.

    Retrievers differ by what they read.
    """

    def __init__(self) -> None:
        # what is named is kept, so that nothing else has its id, or the id of what it reads
        self._known: dict[int, tuple[str, object]] = {}
        self._by_source: dict[tuple[type, Hashable], str] = {}
        self._lock = threading.RLock()

    def name_of(self, step: object) -> str:
        kind = type(step)
        with self._lock:
            if (known := self._known.get(id(step))) is not None:
                return known[0]
            key = (kind, self._source_key(step))
            number = 1 + sum(each[0] is kind for each in self._by_source)
            name = kind.__name__ if number == 1 else f"{kind.__name__} {number}"
            name = self._by_source.setdefault(key, name)
            self._known[id(step)] = (name, step)
            return name

    def _source_key(self, step: object) -> Hashable:
        """A key of a step among others of its class; each call may build the same one anew."""
        for name in ("_index", "_vector_store"):
            if (source := getattr(step, name, None)) is not None:
                return id(source)
        state = {
            name: value
            for name, value in sorted(getattr(step, "__dict__", {}).items())
            # each instance has these of its own
            if name != "callback_manager" and not (isinstance(value, (dict, list)) and not value)
        }
        keys = {name: _frozen(value) for name, value in state.items() if _is_plain(value)}
        asked = {
            name: tuple(map(self.name_of, retrievers))
            for name, value in state.items()
            if (retrievers := _retrievers_in(value))
        }
        if asked:  # it is known by whom it asks, whatever else was built anew with it
            return (*keys.items(), *asked.items())
        return tuple((name, keys.get(name, id(value))) for name, value in state.items())


@dataclass(eq=False, repr=False)
class CapturedSession:
    """What was retrieved while a capture was open.

    Attributes:
        retrievals: every outermost retrieval, in the order in which they began.
        context: the nodes from which the last answer was synthesized; None where none was.
        strays: how many retrievals of the process, meanwhile, belonged to no capture: of other
            code, or of this where no context was handed on, as in a bare `loop.run_in_executor`.
        key: the capture's name in the tags of events.
        faults: errors in recording.
        reranking: the inputs of rerankers at work, by span.
        on_call: called with the number of retrievals so far, whenever one begins.
        names: of retrievers and postprocessors.
    """

    retrievals: list[Retrieval] = field(default_factory=list)
    context: list[NodeWithScore] | None = None
    strays: int = 0
    key: str = field(default_factory=lambda: uuid4().hex)
    faults: list[Exception] = field(default_factory=list)
    reranking: dict[str, list[NodeWithScore]] = field(default_factory=dict)
    on_call: Callable[[int], None] | None = None
    names: StepNames = field(default_factory=StepNames)

    def __post_init__(self) -> None:
        self._open: dict[str, Retrieval] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Session: {counted(len(self.retrievals), 'retrieval', 'retrievals')}>"

    @property
    def calls(self) -> tuple[Call, ...]:
        """The retrievals as calls, their nodes by node id."""
        return tuple(as_call(retrieval) for retrieval in self.retrievals)

    def ranking(self, combine: Combine = "first_seen") -> Ranking:
        """What the calls add up to; see `combine_calls`."""
        context = None if self.context is None else items_of(self.context)
        return combine_calls(self.calls, combine, context)

    def is_retrieving(self, span_ids: Iterable[str]) -> bool:
        """Whether one of these spans is a retrieval of this capture that hasn't ended."""
        return any(span_id in self._open for span_id in span_ids)

    def add(self, retrieval: Retrieval, span_id: str | None = None) -> None:
        """Record a retrieval, which goes on until its span ends, if it has one."""
        if span_id is not None:
            self._open[span_id] = retrieval
        with self._lock:
            self.retrievals.append(retrieval)
            n_calls = len(self.retrievals)
        if self.on_call is not None:
            self.on_call(n_calls)

    def end(self, span_id: str, now: float, outcome: list[NodeWithScore] | BaseException) -> None:
        """Record the nodes, or the error, of a span that may be a retrieval."""
        if (retrieval := self._open.pop(span_id, None)) is None:
            return
        retrieval.seconds = now - retrieval.since
        if isinstance(outcome, BaseException):
            retrieval.error = describe_error(outcome)
        else:
            retrieval.keep_nodes(outcome)

    def postprocess(
        self,
        before: Sequence[NodeWithScore],
        after: Sequence[NodeWithScore],
        seconds: float,
        span_id: str = "",
        name: str = "",
    ) -> None:
        """Replace nodes in the latest retrieval that gave them: the very objects, or the ids."""
        done = [retrieval for retrieval in reversed(self.retrievals) if retrieval.nodes]
        objects, ids = set(map(id, before)), _node_ids(before)
        by_object = (each for each in done if objects <= set(map(id, each.originals)))
        by_id = (each for each in done if ids <= _node_ids(each.nodes or ()))
        retrieval = next(chain(by_object, by_id), None)
        if before and retrieval is not None:
            retrieval.keep_nodes(after)
            retrieval.seconds = (retrieval.seconds or 0.0) + seconds

    def synthesize(self, nodes: Sequence[NodeWithScore]) -> None:
        self.context = [copied(node) for node in nodes]

    def check(self) -> None:
        if self.faults:
            first = self.faults[0]
            raise CaptureDamaged(len(self.faults), describe_error(first)) from first


def _node_ids(nodes: Iterable[NodeWithScore]) -> set[str]:
    return {node.node.node_id for node in nodes}


_SCALARS = (str, int, float, bool, type(None))
_MOST_COMPARED = 100


def _is_plain(value: object) -> bool:
    """Whether it is known by what it says, such as a list of keywords, and not by which it is."""
    if not isinstance(value, (list, tuple, set, frozenset)):
        return isinstance(value, _SCALARS)
    return len(value) <= _MOST_COMPARED and all(isinstance(each, _SCALARS) for each in value)


def _frozen(value: Any) -> Hashable:
    if isinstance(value, (list, tuple)):
        return tuple(value)
    return frozenset(value) if isinstance(value, set) else value


def _retrievers_in(value: object) -> list[BaseRetriever]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, BaseRetriever)]


def items_of(nodes: Sequence[NodeWithScore]) -> Ranking:
    return Ranking(
        [node.node.node_id for node in nodes],
        [None if node.score is None else float(node.score) for node in nodes],
        [node.node.get_content() for node in nodes],
        spans=[node_span(node.node) for node in nodes],
    )


def as_call(
    retrieval: Retrieval, ranking_of: Callable[[Sequence[NodeWithScore]], Ranking] = items_of
) -> Call:
    ranking = ranking_of(retrieval.nodes or [])
    is_open = retrieval.nodes is None and retrieval.error is None
    return Call(
        **item_columns(ranking),
        latency=retrieval.seconds,
        error="not finished" if is_open else retrieval.error,
        query=retrieval.query,
        asked_by=retrieval.asked_by,
        retriever=retrieval.retriever,
    )


def capture() -> AbstractContextManager[CapturedSession]:
    """Record every outermost retrieval that the code in the block makes.

    What counts is which code makes it: code that the block starts, in tasks, threads and workflow
    steps, and no other code that retrieves at the same time. Captures nest: what an inner one
    records, the outer one records, too.

    Raises:
        CaptureDamaged: at the end of the block, if a retrieval couldn't be recorded.

    Examples:
        >>> with capture() as session:
        ...     record_retrieval("moons of Saturn", ["d3", "d1"])
        >>> [(call.query, list(call.ids)) for call in session.calls]
        [('moons of Saturn', ['d3', 'd1'])]
    """
    return capturing(CapturedSession())


@contextmanager
def capturing(session: CapturedSession) -> Iterator[CapturedSession]:
    tags = active_instrument_tags.get()
    strays = RECORDER.strays
    RECORDER.open(session)
    try:
        with instrument_tags({**tags, TAG: f"{tags.get(TAG, '')} {session.key}".strip()}):
            yield session
    finally:
        RECORDER.close(session)
        session.strays = RECORDER.strays - strays
    session.check()


def record_retrieval(
    query: str,
    nodes: RetrieverOutput,
    *,
    asked_by: str = "",
    latency: float | None = None,
    error: str | None = None,
) -> None:
    """Record a retrieval that sends no event, such as one by a vector database's own client.

    Outside of any capture it does nothing, so it may stay in the code.

    Args:
        query: what was asked.
        nodes: what came, best first: nodes, or ids.
        asked_by: the tool that asked; unless given, the one whose call this is in, where that can
            be seen.
        latency: seconds that it took.
        error: what went wrong; there are no nodes then.

    Raises:
        InvalidInput: an argument can't be used.

    Examples:
        >>> from llama_index_rag_metrics import capture, record_retrieval
        >>> with capture() as session:
        ...     record_retrieval("tallest moon volcano", ["d7", "d2"], asked_by="my_database")
        >>> [(call.query, call.ids) for call in session.calls]
        [('tallest moon volcano', ['d7', 'd2'])]
    """
    if not isinstance(query, str):
        raise InvalidInput("query", query, "the text that was asked")
    if latency is not None:
        expected = "seconds from 0 on, or None"
        check_amount("latency", latency, expected, lambda seconds: 0 <= seconds < math.inf)
    retrieved = as_nodes(nodes)
    error = None if error is None else describe_error(error)
    span_id = active_span_id.get()
    spans = [span_id or "", *RECORDER.around(span_id)]
    for session in RECORDER.sessions(active_instrument_tags.get()):
        if not session.is_retrieving(spans):
            by = asked_by or RECORDER.asked_by(span_id)
            retrieval = Retrieval(query, by, perf_counter(), seconds=latency, error=error)
            retrieval.keep_nodes(retrieved)
            session.add(retrieval)
    dict(active_instrument_tags.get())  # as an event does
