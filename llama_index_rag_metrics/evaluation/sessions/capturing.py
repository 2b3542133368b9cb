"""Capturing what code retrieves: LlamaIndex's events, handed to the captures they belong to."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from inspect import BoundArguments
from itertools import chain
from time import perf_counter
from typing import Any, NamedTuple
from uuid import uuid4

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.dispatcher import active_instrument_tags, instrument_tags  # type: ignore[attr-defined]
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.instrumentation.events.synthesis import SynthesizeEndEvent
from llama_index.core.instrumentation.span import active_span_id
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore
from llama_index.core.workflow import Event

from llama_index_rag_metrics.evaluation.retrieved.nodes import RetrieverOutput, as_nodes, copied
from llama_index_rag_metrics.files.runs.run_records import plain_score
from llama_index_rag_metrics.rankings.matching.places import node_span
from llama_index_rag_metrics.rankings.run import Call, Ranking, combine_calls, item_columns
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.errors import InvalidInput, capture_damaged
from llama_index_rag_metrics.runtime.masking import describe_error

# the tag that names the captures an event belongs to, the outermost first
TAG = "rag_metrics.captures"
_UUID = 37  # the length of the end of a span's id, by which spans of the same name differ


@dataclass(slots=True)
class Retrieval:
    """One outermost retrieval, with the postprocessors that could be seen."""

    query: str
    asked_by: str  # the tool or the workflow step, where that is known
    since: float  # the start by `perf_counter`
    retriever: str = ""
    nodes: list[NodeWithScore] | None = None  # copies of the `originals`; None as long as it runs
    seconds: float | None = None
    error: str | None = None
    originals: Sequence[NodeWithScore] = ()  # which the code that retrieved may change in place

    def keep_nodes(self, nodes: Iterable[NodeWithScore]) -> None:
        self.originals = list(nodes)
        self.nodes = [copied(node) for node in self.originals]


class _OpenSpan(NamedTuple):
    """A span that hasn't ended; `before` is a postprocessor's input, None for other spans."""

    parent: str | None
    asked_by: str
    since: float
    before: Sequence[NodeWithScore] | None
    instance: object


class Recorder:
    """All open captures and spans of the process."""

    def __init__(self) -> None:
        self.strays = 0
        self._sessions: dict[str, CapturedSession] = {}
        self._spans: dict[str, _OpenSpan] = {}
        self._stray_spans: set[str] = set()
        self._lock = threading.Lock()
        self._events = _Events()
        self._span_handler = _Spans()

    def open(self, session: CapturedSession) -> None:
        with self._lock:
            if not self._sessions:
                root = get_dispatcher()
                root.add_event_handler(self._events)
                root.add_span_handler(self._span_handler)
            self._sessions[session.key] = session

    def close(self, session: CapturedSession) -> None:
        """Pass a capture no more events; the last one takes the handlers with it."""
        with self._lock:
            self._sessions.pop(session.key, None)
            if self._sessions:
                return
            root = get_dispatcher()
            # new lists: others may be walking along the old ones
            root.event_handlers = [each for each in root.event_handlers if each is not self._events]
            spans = self._span_handler
            root.span_handlers = [each for each in root.span_handlers if each is not spans]
            self._spans.clear()
            self._stray_spans.clear()

    def sessions(self, tags: Mapping[str, Any]) -> list[CapturedSession]:
        keys = str(tags.get(TAG, "")).split()
        return [self._sessions[key] for key in keys if key in self._sessions]

    def around(self, span_id: str | None) -> Iterator[str]:
        """The spans around a span, the innermost first."""
        span = self._spans.get(span_id or "")
        while span is not None and span.parent is not None:
            yield span.parent
            span = self._spans.get(span.parent)

    def asked_by(self, span_id: str | None) -> str:
        return getattr(self._spans.get(span_id or ""), "asked_by", "")

    def guarded(self, tags: Mapping[str, Any], record: Callable[[CapturedSession], None]) -> None:
        """Record an event in every capture that tags name; each keeps its own errors."""
        for session in self.sessions(tags):
            try:
                record(session)
            except Exception as error:  # noqa: BLE001 - raised when the capture closes
                session.faults.append(error)

    def fault(self, error: Exception) -> None:
        """Keep a handler's error in all captures, any of which may have lost the event."""
        for session in list(self._sessions.values()):
            session.faults.append(error)

    def start(self, event: RetrievalStartEvent) -> None:
        if TAG not in event.tags:
            if self._stray_spans.isdisjoint(self.around(event.span_id)):
                self.strays += 1
            self._stray_spans.add(event.span_id or "")
            return
        query, now = event.str_or_query_bundle, perf_counter()
        text = query if isinstance(query, str) else query.query_str
        asked_by, span = self.asked_by(event.span_id), self._spans.get(event.span_id or "")

        def record(session: CapturedSession) -> None:
            if not session.is_retrieving(self.around(event.span_id)):
                retriever = "" if span is None else session.names.name_of(span.instance)
                session.add(Retrieval(text, asked_by, now, retriever), event.span_id or "")

        self.guarded(event.tags, record)

    def end(self, event: RetrievalEndEvent) -> None:
        span_id, now = event.span_id or "", perf_counter()
        self.guarded(event.tags, lambda session: session.end(span_id, now, event.nodes))

    def rerank(self, event: ReRankStartEvent | ReRankEndEvent) -> None:
        """Record a reranker whose span isn't seen: one with an asynchronous method of its own."""
        span_id = event.span_id or ""
        if getattr(self._spans.get(span_id), "before", None) is not None:
            return

        def record(session: CapturedSession) -> None:
            if isinstance(event, ReRankStartEvent):
                session.reranking[span_id] = list(event.nodes)
                return
            before = session.reranking.pop(span_id, [])
            if not session.is_retrieving(self.around(span_id)):
                session.postprocess(before, event.nodes, 0.0, span_id, "reranker")

        self.guarded(event.tags, record)

    def synthesize(self, event: SynthesizeEndEvent) -> None:
        nodes = getattr(event.response, "source_nodes", None)
        if nodes is not None:
            self.guarded(event.tags, lambda session: session.synthesize(nodes))

    def enter(
        self, span_id: str, bound: BoundArguments, instance: object, parent: str | None
    ) -> None:
        asked_by = _asking(span_id, bound) or self.asked_by(parent)
        is_postprocessor = isinstance(instance, BaseNodePostprocessor)
        before = [*(bound.arguments.get("nodes") or ())] if is_postprocessor else None
        self._spans[span_id] = _OpenSpan(parent, asked_by, perf_counter(), before, instance)

    def leave(self, span_id: str, result: Any, error: BaseException | None) -> None:
        span = self._spans.get(span_id)
        if span is not None and (span.before is not None or error is not None):
            now, since, before = perf_counter(), span.since, span.before or ()

            def record(session: CapturedSession) -> None:
                if error is not None:
                    session.end(span_id, now, error)
                elif not session.is_retrieving(self.around(span_id)):
                    name = session.names.name_of(span.instance)
                    session.postprocess(before, result, now - since, span_id, name)

            self.guarded(active_instrument_tags.get(), record)
        self._spans.pop(span_id, None)
        self._stray_spans.discard(span_id)


def _asking(span_id: str, bound: BoundArguments) -> str:
    """The tool that a span calls, or the workflow step that it is; "" for others."""
    arguments = [*bound.arguments.values(), *bound.kwargs.values()]
    event = next((argument for argument in arguments if isinstance(argument, Event)), None)
    if event is None:
        return ""
    name = span_id[:-_UUID].rpartition(".")[2]
    return str(getattr(event, "tool_name", "" if name == "run" else name))


class _Events(BaseEventHandler):
    def handle(self, event: Any, **_: Any) -> None:
        record = _RECORDED.get(type(event))
        if record is not None:
            _keep_fault(record, event)


class _Spans(BaseSpanHandler[Any]):
    def span_enter(
        self,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        parent_id: Any = None,
        tags: Any = None,
        **_: Any,
    ) -> None:
        _keep_fault(RECORDER.enter, id_, bound_args, instance, parent_id)

    def span_exit(
        self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **_: Any
    ) -> None:
        _keep_fault(RECORDER.leave, id_, result, None)

    def span_drop(
        self, id_: str, bound_args: Any, instance: Any = None, err: Any = None, **_: Any
    ) -> None:
        _keep_fault(RECORDER.leave, id_, None, err or RuntimeError("dropped"))

    def new_span(self, *_: Any, **__: Any) -> None: ...

    def prepare_to_exit_span(self, *_: Any, **__: Any) -> None: ...

    def prepare_to_drop_span(self, *_: Any, **__: Any) -> None: ...


def _keep_fault(record: Callable[..., None], *arguments: Any) -> None:
    try:
        record(*arguments)
    except Exception as error:  # noqa: BLE001 - the dispatcher would swallow it
        RECORDER.fault(error)


RECORDER = Recorder()  # the only one: handlers are the process's
_RECORDED: Mapping[type, Callable[[Any], None]] = {
    RetrievalStartEvent: RECORDER.start,
    RetrievalEndEvent: RECORDER.end,
    ReRankStartEvent: RECORDER.rerank,
    ReRankEndEvent: RECORDER.rerank,
    SynthesizeEndEvent: RECORDER.synthesize,
}


class StepNames:
    """The class of a retriever or postprocessor, numbered from the second one on that differs."""

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
    """What was retrieved while a capture was open."""

    retrievals: list[Retrieval] = field(default_factory=list)  # in the order in which they began
    context: list[NodeWithScore] | None = None  # what the last answer was synthesized from, if any
    strays: int = 0  # how many retrievals of the process, meanwhile, belonged to no capture
    key: str = field(default_factory=lambda: uuid4().hex)  # its name in the tags of events
    faults: list[Exception] = field(default_factory=list)  # errors in recording
    reranking: dict[str, list[NodeWithScore]] = field(default_factory=dict)  # their inputs, by span
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

    def ranking(self) -> Ranking:
        """What the calls add up to; see `combine_calls`."""
        context = None if self.context is None else items_of(self.context)
        return combine_calls(self.calls, context)

    def is_retrieving(self, span_ids: Iterable[str]) -> bool:
        """Whether one of these spans is a retrieval of this capture that hasn't ended."""
        return any(span_id in self._open for span_id in span_ids)

    def add(self, retrieval: Retrieval, span_id: str | None = None) -> None:
        """Record a retrieval, which goes on until its span ends, if it has one."""
        if span_id is not None:
            self._open[span_id] = retrieval
        with self._lock:
            self.retrievals.append(retrieval)

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
            raise capture_damaged(len(self.faults), describe_error(first)) from first


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
        [plain_score(node.score) for node in nodes],
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
        RagMetricsError: at the end of the block, if a retrieval couldn't be recorded.

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
