"""Capturing what code retrieves: LlamaIndex's events, handed to the captures they belong to.

An event carries the tags of the code that sent it, and these name its captures. Spans are followed
for two reasons: what a retriever asks of its members is part of its own call, and a postprocessor
changes the call whose nodes it gets.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import Any, TypeAlias

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.dispatcher import active_instrument_tags, instrument_tags  # type: ignore[attr-defined]
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.instrumentation.span import active_span_id
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, NodeWithScore, TextNode
from pydantic import BaseModel

from llama_index_rag_metrics.files.records import plain_score
from llama_index_rag_metrics.rankings.run import Call, Ranking, has_order, item_columns
from llama_index_rag_metrics.rankings.span import node_span
from llama_index_rag_metrics.runtime.errors import InvalidInput, check_amount
from llama_index_rag_metrics.runtime.masking import describe_error

TAG = "rag_metrics.captures"  # the tag that names the captures an event belongs to

_numbers = count(1)

RetrieverOutput: TypeAlias = "Iterable[NodeWithScore | BaseNode | str]"

_RETURNED = "what the retriever returned"
REMEDY = (
    "Return ids as strings, or NodeWithScore(node=TextNode(id_=..., text=...), score=...), best "
    "first."
)


@dataclass(slots=True)
class CapturedRetrieval:
    """One outermost retrieval, with the postprocessors that could be seen."""

    query: str
    asked_by: str = ""
    nodes: list[NodeWithScore] | None = None  # copies; None as long as it runs
    seconds: float | None = None
    error: str | None = None


class CapturedSession:
    """What was retrieved while a capture was open, in the order in which it began."""

    def __init__(self) -> None:
        self.retrievals: list[CapturedRetrieval] = []
        self.key = str(next(_numbers))  # its name in the tags of events
        self._running: dict[str, tuple[CapturedRetrieval, float]] = {}

    @property
    def calls(self) -> tuple[Call, ...]:
        """The retrievals as calls, their nodes by node id."""
        return tuple(as_call(retrieval, _ranking_of) for retrieval in self.retrievals)

    def is_retrieving(self, span_ids: Iterable[str]) -> bool:
        """Whether one of these spans is a retrieval of this capture that hasn't ended."""
        return any(span_id in self._running for span_id in span_ids)

    def start(self, query: str, span_id: str) -> None:
        retrieval = CapturedRetrieval(query)
        self._running[span_id] = retrieval, perf_counter()
        self.retrievals.append(retrieval)

    def end(self, span_id: str, nodes: Sequence[NodeWithScore], error: str | None = None) -> None:
        """Record how a retrieval ended; other spans are left alone."""
        if span_id not in self._running:
            return
        retrieval, begin = self._running.pop(span_id)
        retrieval.seconds = perf_counter() - begin
        retrieval.error = error
        if error is None:
            retrieval.nodes = copies(nodes)

    def postprocess(self, before: set[str], after: Sequence[NodeWithScore], seconds: float) -> None:
        """Replace the nodes of the latest retrieval that has all that a postprocessor got."""
        for retrieval in reversed(self.retrievals):
            if before and before <= _node_ids(retrieval.nodes or ()):
                retrieval.nodes = copies(after)
                retrieval.seconds = (retrieval.seconds or 0.0) + seconds
                return


def _node_ids(nodes: Iterable[NodeWithScore]) -> set[str]:
    return {node.node.node_id for node in nodes}


def _ranking_of(nodes: Sequence[NodeWithScore]) -> Ranking:
    return Ranking([node.node.node_id for node in nodes], **columns_of(nodes))


def as_call(retrieval: CapturedRetrieval, rank: Callable[[list[NodeWithScore]], Ranking]) -> Call:
    error = retrieval.error
    if retrieval.nodes is None and error is None:
        error = "not finished"
    return Call(
        **item_columns(rank(retrieval.nodes or [])),
        latency=retrieval.seconds,
        error=error,
        query=retrieval.query,
        asked_by=retrieval.asked_by,
    )


_sessions: dict[str, CapturedSession] = {}
_parents: dict[str, str | None] = {}  # the spans that are open, each with the one around it
_inputs: dict[str, tuple[set[str], float]] = {}
"""The ids that the postprocessors of open spans got, and when they began."""
_lock = threading.Lock()


def _sessions_of(tags: Mapping[str, Any]) -> list[CapturedSession]:
    return [_sessions[key] for key in str(tags.get(TAG, "")).split() if key in _sessions]


def _around(span_id: str | None) -> Iterator[str]:
    """The spans around a span, the innermost first."""
    while span_id is not None and (parent := _parents.get(span_id)) is not None:
        yield parent
        span_id = parent


class CaptureEvents(BaseEventHandler):
    """Records the beginnings and ends of retrievals."""

    def handle(self, event: Any, **_: Any) -> None:
        span_id = event.span_id or ""
        if isinstance(event, RetrievalEndEvent):
            for session in _sessions_of(event.tags):
                session.end(span_id, event.nodes)
        elif isinstance(event, RetrievalStartEvent):
            query = event.str_or_query_bundle
            text = query if isinstance(query, str) else query.query_str
            for session in _sessions_of(event.tags):
                if not session.is_retrieving(_around(span_id)):
                    session.start(text, span_id)


class CaptureSpans(BaseSpanHandler[Any]):
    """Follows spans: which one is inside which, which fail, and what postprocessors return."""

    def new_span(
        self,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        parent_span_id: str | None = None,
        tags: Any = None,
        **_: Any,
    ) -> None:
        _parents[id_] = parent_span_id
        if isinstance(instance, BaseNodePostprocessor):
            nodes = bound_args.arguments.get("nodes") or ()
            _inputs[id_] = _node_ids(nodes), perf_counter()

    def prepare_to_exit_span(
        self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **_: Any
    ) -> None:
        if id_ in _inputs:
            ids, begin = _inputs.pop(id_)
            seconds = perf_counter() - begin
            for session in _sessions_of(active_instrument_tags.get()):
                if not session.is_retrieving(_around(id_)):
                    session.postprocess(ids, result, seconds)
        _parents.pop(id_, None)

    def prepare_to_drop_span(
        self, id_: str, bound_args: Any, instance: Any = None, err: Any = None, **_: Any
    ) -> None:
        error = describe_error(err or RuntimeError("dropped"))
        for session in _sessions_of(active_instrument_tags.get()):
            session.end(id_, (), error)
        _inputs.pop(id_, None)
        _parents.pop(id_, None)


_events, _spans = CaptureEvents(), CaptureSpans()


@contextmanager
def listening() -> Iterator[CapturedSession]:
    """Pass events to a new session; handlers are dear, and go with the last one to close."""
    session, root = CapturedSession(), get_dispatcher()
    with _lock:
        if not _sessions:
            root.add_event_handler(_events)
            root.add_span_handler(_spans)
        _sessions[session.key] = session
    try:
        yield session
    finally:
        with _lock:
            del _sessions[session.key]
            if not _sessions:
                # new lists: others may be walking along the old ones
                events, spans = root.event_handlers, root.span_handlers
                root.event_handlers = [handler for handler in events if handler is not _events]
                root.span_handlers = [handler for handler in spans if handler is not _spans]
                _parents.clear()
                _inputs.clear()


@contextmanager
def capture() -> Iterator[CapturedSession]:
    """Record every outermost retrieval that the code in the block makes.

    What counts is which code makes it: code that the block starts, in tasks, threads and workflow
    steps, and no other code that retrieves at the same time. Captures nest: what an inner one
    records, the outer one records, too.

    Examples:
        >>> with capture() as session:
        ...     record_retrieval("moons of Saturn", ["d3", "d1"])
        >>> [(call.query, list(call.ids)) for call in session.calls]
        [('moons of Saturn', ['d3', 'd1'])]
    """
    tags = active_instrument_tags.get()
    with listening() as session:
        keys = f"{tags.get(TAG, '')} {session.key}".strip()
        with instrument_tags({**tags, TAG: keys}):
            yield session


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
        asked_by: the tool that asked.
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
    message = None if error is None else describe_error(error)
    span_id = active_span_id.get()
    spans = [span_id or "", *_around(span_id)]
    for session in _sessions_of(active_instrument_tags.get()):
        if not session.is_retrieving(spans):
            retrieval = CapturedRetrieval(query, asked_by, copies(retrieved), latency, message)
            session.retrievals.append(retrieval)


def as_nodes(retrieved: Any, remedy: str = REMEDY) -> list[NodeWithScore]:
    if isinstance(retrieved, BaseModel) or not has_order(retrieved):  # an agent's answer is empty
        raise InvalidInput(_RETURNED, retrieved, "a list of nodes or ids", remedy)
    return list(map(_node, retrieved))


def _node(item: Any) -> NodeWithScore:
    if isinstance(item, NodeWithScore):
        return item
    if isinstance(item, BaseNode):
        return NodeWithScore(node=item)
    if isinstance(item, str):
        # metadata of its own: LlamaIndex before 0.14.20 drops nodes of the same text and metadata
        return NodeWithScore(node=TextNode(id_=item, text="", metadata={"id": item}))
    raise InvalidInput(_RETURNED, item, "nodes or ids", REMEDY)


def columns_of(nodes: Sequence[NodeWithScore]) -> dict[str, Any]:
    """Return the columns of a ranking that nodes know: scores, texts and spans."""
    scores, texts, spans = [], [], []
    for node in nodes:
        inner = node.node
        # get_content() looks through the metadata, which aren't part of the text
        text = inner.text if type(inner) is TextNode else inner.get_content()
        if not isinstance(text, str):
            expected = f"a text from get_content() of node {node.node_id!r}"
            raise InvalidInput(_RETURNED, text, expected)
        scores.append(plain_score(node.score))
        texts.append(text)
        spans.append(node_span(inner, text))
    return {"scores": scores, "texts": texts, "spans": spans}


def copies(nodes: Iterable[NodeWithScore]) -> list[NodeWithScore]:
    """Return copies whose texts and metadata may be changed; embeddings are shared."""
    copied = []
    for node in nodes:
        values = {}
        for name, value in vars(node.node).items():
            if isinstance(value, dict) or name.endswith("_resource"):
                values[name] = deepcopy(value)
        inner = node.node.model_copy(update=values)
        copied.append(node.model_copy(update={"node": inner}))
    return copied
