"""What matters of a stream of spans, kept trace by trace: the rest is let go at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias
from unicodedata import normalize

from llama_index_rag_metrics.files.lines import Faults
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.files.traces.dialects import DIALECTS
from llama_index_rag_metrics.files.traces.trace_spans import (
    DROPPED,
    Dialect,
    DocumentColumns,
    Documented,
    DocumentReader,
    TraceSpan,
    from_json_text,
    is_written,
    mapping,
)
from llama_index_rag_metrics.runtime.errors import FileFormatError

Texts: TypeAlias = Mapping[str, Sequence[str]]
"""The texts of questions, to the ids of the questions that have them."""

_SESSIONS = ("session.id", "gen_ai.conversation.id", "mlflow.trace.session")

_TAGS = "llamaindex."
"""What `llama-index-observability-otel` writes before the name of a tag."""


def comparable(question: str) -> str:
    return normalize("NFC", question.strip())


@dataclass(slots=True, eq=False)
class Work:
    """A retrieval, a reranking or an answer: one span, and its documents if it holds any."""

    span_id: str
    begin: float | None = None
    end: float | None = None
    question: str | None = None
    retrieved: DocumentColumns | None = None
    error: str | None = None
    is_readable: bool = False

    @property
    def is_answer(self) -> bool:
        """Whether it is known what the caller got: documents, or an error."""
        return self.retrieved is not None or self.error is not None

    @property
    def seconds(self) -> float | None:
        if self.begin is None or self.end is None:
            return None
        return max(0.0, self.end - self.begin)


@dataclass(slots=True, eq=False)
class Trace:
    """What is kept of a trace; `telling` are the spans, retrievals apart, with a question."""

    agents: set[str] = field(default_factory=set)
    telling: set[str] = field(default_factory=set)
    parents: dict[str, str | None] = field(default_factory=dict)
    question_ids: dict[str, str] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    retrievals: list[Work] = field(default_factory=list)
    rerankings: list[Work] = field(default_factory=list)
    answers: list[Work] = field(default_factory=list)
    question: str | None = None
    conversation: tuple[str, float] | None = None

    def above(self, span_id: str) -> Iterator[str]:
        """The span and all that it is part of, up to the root; a circle ends it."""
        seen: set[str] = set()
        outer: str | None = span_id
        while outer is not None and outer not in seen:
            seen.add(outer)
            yield outer
            outer = self.parents.get(outer)

    def is_inside(self, span_id: str, others: Container[str]) -> bool:
        return any(outer in others for outer in islice(self.above(span_id), 1, None))

    def ask_agents(self) -> None:
        """Give an agent without a question the only known one inside it."""
        texts: dict[str, set[str]] = {}
        agents = self.agents - self.telling
        for span_id, text in self.asked.items():
            for outer in self.above(span_id):
                if outer in agents:
                    texts.setdefault(outer, set()).add(text)
        self.asked |= {agent: text for agent, (text, *more) in texts.items() if not more}


@dataclass
class SpanCollector:
    columns: DocumentReader
    question_id: str | None
    texts: Texts
    faults: Faults
    traces: dict[str, Trace] = field(default_factory=lambda: defaultdict(Trace))
    n_spans: int = 0
    n_repeated: int = 0
    attributes: dict[str, None] = field(default_factory=dict)
    example: str = ""

    def add(self, span: TraceSpan) -> None:
        self.n_spans += 1
        trace = self.traces[span.trace_id]
        # exporters send again what they doubt has arrived
        if span.span_id and span.span_id in trace.parents:
            self.n_repeated += 1
            return
        trace.parents[span.span_id] = span.parent_id
        try:
            self._read(trace, span)
        except FileFormatError as error:
            self.faults.take(error)
        except RecursionError:
            self.faults.take(span.place.wrong("values that aren't nested so deeply"))

    def _read(self, trace: Trace, span: TraceSpan) -> None:
        if self.question_id is not None and (named := self._named(span)) is not None:
            trace.question_ids[span.span_id] = named
        if trace.conversation is None and self.question_id not in _SESSIONS:
            trace.conversation = _conversation(span)
        if self.texts and span.parent_id is not None and span.name.endswith(".setup_agent"):
            trace.agents.add(span.parent_id)
        for dialect in DIALECTS:
            kind = dialect.kind(span)
            if kind is not None:
                break
        else:
            return
        if kind == "retrieval" or kind == "reranking":  # noqa: PLR1714 - mypy
            self._read_work(trace, span, dialect, kind)
            return
        if kind == "tool":
            trace.tools[span.span_id] = dialect.tool(span)
        elif kind in ("answer", "agent"):
            self._read_answer(trace, span, dialect)
        if span.parent_id is None or self.texts:
            question = dialect.question(span)
            self._note_question(trace, span, question)
            if kind == "agent":
                trace.agents.add(span.span_id)
            if question is not None:
                trace.telling.add(span.span_id)

    def _read_answer(self, trace: Trace, span: TraceSpan, dialect: Dialect) -> None:
        try:
            documents = dialect.documents(span, "answer")
            if documents is None or not self.columns.tell(documents):
                return
            retrieved = [document for document in documents if not is_written(document)]
            work = Work(span.span_id, *span.times)
            work.retrieved = self.columns.read(retrieved, span.place)
        except FileFormatError:
            return  # what it was made from isn't known then
        trace.answers.append(work)

    def _read_work(self, trace: Trace, span: TraceSpan, dialect: Dialect, kind: Documented) -> None:
        work = Work(span.span_id)
        (trace.retrievals if kind == "retrieval" else trace.rerankings).append(work)
        work.begin, work.end = span.times
        work.question = dialect.question(span)
        self._note_question(trace, span, work.question)
        work.error = span.error
        if work.error is None:
            documents = dialect.documents(span, kind)
            if documents is not None and span.dropped:
                expected = f"all attributes of a span with documents; {DROPPED}"
                raise span.place.wrong(expected, f"{span.dropped} were dropped")
            is_told = kind == "retrieval" or self.columns.tell(documents or ())
            if documents is not None and is_told:
                work.retrieved = self.columns.read(documents, span.place)
        work.is_readable = True

    def _note_question(self, trace: Trace, span: TraceSpan, question: str | None) -> None:
        if question is None:
            return
        self.example = self.example or question
        if span.parent_id is None:
            trace.question = question
        if self.texts and (text := comparable(question)) in self.texts:
            trace.asked[span.span_id] = text

    def _named(self, span: TraceSpan) -> str | None:
        name = self.question_id or ""
        if len(self.attributes) < 40:
            self.attributes.update(dict.fromkeys(span.attributes))
        question_id = _tagged(span, name)
        outer, _, inner = name.partition(".")
        if question_id is None and inner and outer in span.attributes:
            question_id = mapping(from_json_text(span.get(outer), outer, span.place)).get(inner)
        return None if question_id is None else read_id(question_id, span.place)


def _tagged(span: TraceSpan, name: str) -> Any:
    return next(
        (value for key in (name, _TAGS + name) if (value := span.get(key)) is not None), None
    )


def _conversation(span: TraceSpan) -> tuple[str, float] | None:
    named = [_tagged(span, name) for name in _SESSIONS]
    session_id = next((value for value in named if value not in (None, "")), None)
    return None if session_id is None else (str(session_id), span.times[0] or 0.0)
