"""LlamaIndex's events and spans of retrievals, handed to the captures that they belong to."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import BoundArguments
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.dispatcher import active_instrument_tags  # type: ignore[attr-defined]
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.instrumentation.events.synthesis import SynthesizeEndEvent
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore
from llama_index.core.workflow import Event

from llama_index_rag_metrics.evaluation.retrieved.nodes import copied

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.sessions.capturing import CapturedSession

TAG = "rag_metrics.captures"
"""The tag that names the captures an event belongs to, the outermost first."""

_UUID = 37
"""The length of the end of a span's id, by which spans of the same name differ."""


@dataclass(slots=True)
class Retrieval:
    """One outermost retrieval, with the postprocessors that could be seen.

    `nodes`, None as long as it runs, are copies of the `originals`, which the code that
    retrieved may change in place. `since` is the start by `perf_counter`; `asked_by` names the
    tool or the workflow step, where that is known.
    """

    query: str
    asked_by: str
    since: float
    retriever: str = ""
    nodes: list[NodeWithScore] | None = None
    seconds: float | None = None
    error: str | None = None
    originals: Sequence[NodeWithScore] = ()

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


class _LastTags(dict[str, Any]):
    """Tags that end the code which reads them, as sending an event does outside of any `try`.

    Errors of handlers are swallowed, and cancelling a task does nothing before it waits.
    """

    def keys(self) -> Any:
        active_instrument_tags.set(dict(super().items()))
        if isinstance(sys.exc_info()[1], asyncio.CancelledError):
            return super().keys()  # it is being cancelled already
        raise asyncio.CancelledError("max_calls")

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


def end_at_next_event() -> None:
    """Cancel the running code at its next event, though it may never wait."""
    active_instrument_tags.set(_LastTags(active_instrument_tags.get()))


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


RECORDER = Recorder()
"""The only one: handlers are the process's."""

_RECORDED: Mapping[type, Callable[[Any], None]] = {
    RetrievalStartEvent: RECORDER.start,
    RetrievalEndEvent: RECORDER.end,
    ReRankStartEvent: RECORDER.rerank,
    ReRankEndEvent: RECORDER.rerank,
    SynthesizeEndEvent: RECORDER.synthesize,
}
