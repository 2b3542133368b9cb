"""From traces to a run: which question a retrieval was made for, and what its caller got."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias
from unicodedata import normalize

from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.files.traces.trace_spans import (
    DIALECTS,
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
from llama_index_rag_metrics.rankings.run import Call, Ranking, combine_calls
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
    """What is kept of a trace; `telling` are the spans, retrievals apart, with a question.

    `begun` has when each span of `asked` or `question_ids` began, 0 where that can't be read.
    """

    agents: set[str] = field(default_factory=set)
    programs: set[str] = field(default_factory=set)
    telling: set[str] = field(default_factory=set)
    parents: dict[str, str | None] = field(default_factory=dict)
    question_ids: dict[str, str] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    begun: dict[str, float] = field(default_factory=lambda: defaultdict(float))
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
                    begun = self.begun[span_id]
                    self.begun[outer] = min(begun, self.begun.get(outer, begun))
        self.asked |= {agent: text for agent, (text, *more) in texts.items() if not more}


@dataclass
class SpanCollector:
    columns: DocumentReader
    question_id: str | None
    texts: Texts
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
            if span.span_id in trace.question_ids or span.span_id in trace.asked:
                trace.begun[span.span_id] = span.times[0] or 0.0
        except RecursionError as error:
            raise span.place.wrong("values that aren't nested so deeply") from error

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
        if self.texts and not span.name.endswith("synthesize"):
            trace.programs.add(span.span_id)
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
        work.question = dialect.question(span)
        self._note_question(trace, span, work.question)
        work.begin, work.end = span.times
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


Repeats: TypeAlias = Literal["last", "keep"]


class Remark(Enum):
    """Why something of the traces couldn't be used, in the order of the notes."""

    WITHOUT_DOCUMENTS = "retrieval spans without documents (was recording them turned off?)"
    UNREADABLE = "retrieval spans that can't be read"
    LEFT_OUT = "questions left out, since a retrieval for them isn't known"
    UNKNOWN = "traces with retrievals for no known question"
    BESIDE = (
        "retrievals left out: without an attribute, question_id=, it isn't known which question "
        "of their trace they are for"
    )
    FAILED_RERANKINGS = "rerankings that failed, so the order before them counts"
    SILENT_RERANKINGS = "rerankings without documents, so the order before them counts"
    STRAY = "rerankings left out, since they aren't of one retrieval"
    UNCERTAIN = "rerankings that fit several retrievals, of which the last counts as theirs"
    ECHO = "steps outside any program that repeat a question, such as a synthesizer's, left out"
    ASKED_AGAIN = "questions asked several times; the last time counts"
    NAMELESS = (
        "documents without an id, known by a digest of their text (labels find them by "
        "match_on= and a key of their metadata, or by a matcher)"
    )
    REPEATED = "repeated spans, counted once"


class Remarks(Counter[Remark]):
    """How much of the traces couldn't be used, and the questions that are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.left_out: set[str] = set()

    def notes(self) -> list[str]:
        self[Remark.LEFT_OUT] = len(self.left_out)
        return [f"{remark.value}: {self[remark]:,}" for remark in Remark if self[remark]]


class TraceSession(NamedTuple):
    """The calls of one question; `conversation` is its id, and when it was asked in it."""

    calls: list[Call]
    question: str | None
    spans: list[str]
    root: str | None
    context: Ranking | None
    traces: Sequence[str]
    conversation: tuple[str, float] | None = None


class _Asking(NamedTuple):
    """One time that a question was asked, by one call or answer."""

    query_id: str
    key: tuple[str, str]
    question: str | None
    asked_at: float | None = None
    begin: float = 0.0
    call: Call | None = None
    span_id: str = ""
    root: str | None = None
    answer: DocumentColumns | None = None
    trace_id: str = ""
    conversation: tuple[str, float] | None = None


def sessions(
    traces: dict[str, Trace],
    texts: Texts,
    *,
    by_attribute: bool,
    remarks: Remarks,
    repeats: Repeats = "last",
) -> list[dict[str, TraceSession]]:
    """Query id to its session, for each time that is kept; empties `traces`, to spare memory."""
    asked: dict[str, dict[tuple[str, str], list[_Asking]]] = {}
    for trace_id in list(traces):
        trace = traces.pop(trace_id)
        for plain in _askings(trace_id, trace, texts, by_attribute, remarks):
            asking = plain._replace(conversation=trace.conversation, trace_id=trace_id)
            # by an attribute, several traces are one asking, unless each repeats the question
            key = (trace_id, "") if by_attribute and repeats == "keep" else asking.key
            asked.setdefault(asking.query_id, {}).setdefault(key, []).append(asking)
    made: list[dict[str, TraceSession]] = [{}]
    for query_id, times in asked.items():
        if query_id in remarks.left_out:
            continue
        every = sorted(times.values(), key=_asked_at)
        kept = [askings for askings in every if _asked_at(askings) > -math.inf] or every
        remarks[Remark.ECHO] += len(every) - len(kept)
        if repeats == "last":
            remarks[Remark.ASKED_AGAIN] += len(kept) > 1
            kept = kept[-1:]
        made += [{} for _ in kept[len(made) :]]
        for of_time, askings in zip(made, kept, strict=False):
            of_time[query_id] = _session(sorted(askings, key=attrgetter("begin")))
    return made


def _asked_at(askings: Sequence[_Asking]) -> float:
    return min(each.begin if each.asked_at is None else each.asked_at for each in askings)


def _session(askings: Sequence[_Asking]) -> TraceSession:
    calls: list[Call] = []
    spans, root, question = [], None, None
    for asking in askings:
        question = question or asking.question
        if asking.call is not None:
            root = root if calls else asking.root
            calls.append(asking.call)
            spans.append(asking.span_id)
    traces = [*dict.fromkeys(asking.trace_id for asking in askings)]
    queries = {call.query for call in calls}
    # where a tool asked, an agent wrote the words
    if len(queries) == 1 and not any(call.asked_by for call in calls):
        question = question or queries.pop() or None
    conversation, begun = askings[0].conversation, askings[0].asked_at
    if conversation is not None and begun is not None and begun > -math.inf:
        conversation = (conversation[0], begun)
    return TraceSession(calls, question, spans, root, _context(askings), traces, conversation)


def conversations(made: Sequence[Mapping[str, TraceSession]]) -> dict[str, str]:
    """Query id to its conversation, in the order of its turns, where just one is known."""
    begun = sorted(
        (session.conversation[1], query_id, session.conversation[0])
        for of_time in made
        for query_id, session in of_time.items()
        if session.conversation is not None
    )
    known: dict[str, set[str]] = {}
    for _, query_id, conversation in begun:
        known.setdefault(query_id, set()).add(conversation)
    return {query_id: each.pop() for query_id, each in known.items() if len(each) == 1}


def rankings(made: Sequence[Mapping[str, TraceSession]]) -> list[dict[str, Ranking]]:
    """Rankings by query id; without calls if every question has exactly one retrieval."""
    is_plain = all(
        len(session.calls) == 1 and session.calls[0].query in ("", session.question or "")
        for of_time in made
        for session in of_time.values()
    )
    return [
        {
            query_id: replace(session.calls[0].ranking, context=session.context)
            if is_plain
            else _ranking(session)
            for query_id, session in of_time.items()
        }
        for of_time in made
    ]


def _ranking(session: TraceSession) -> Ranking:
    calls, context = session.calls, session.context
    if _has_failed(session):
        return Ranking(error=calls[-1].error, calls=tuple(calls))
    return combine_calls(calls, context if calls or context else Ranking())


def _has_failed(session: TraceSession) -> bool:
    return bool(session.calls) and all(call.error is not None for call in session.calls)


def _context(askings: Sequence[_Asking]) -> Ranking | None:
    """The sources of the answers, each once, with texts also from the retrieval."""
    answers = [asking.answer for asking in askings if asking.answer is not None]
    if not answers:
        return None
    texts = {
        item: text
        for asking in askings
        if (call := asking.call) is not None and call.texts is not None
        for item, text in zip(call.ids, call.texts, strict=True)
    }
    scores: dict[str, float | None] = {}
    for answer in answers:
        of_answer = answer.scores or [None] * len(answer.ids)
        for item, score in zip(answer.ids, of_answer, strict=True):
            scores.setdefault(item, score)
        texts |= dict(zip(answer.ids, answer.texts or (), strict=False))
    known_scores = [*scores.values()] if {*scores.values()} - {None} else None
    known_texts = [texts.get(item, "") for item in scores] if texts else None
    return Ranking(list(scores), known_scores, known_texts)


def _askings(
    trace_id: str, trace: Trace, texts: Texts, by_attribute: bool, remarks: Remarks
) -> Iterator[_Asking]:
    """The retrievals and answers of a trace, by question; a question without any comes once."""
    seen: set[str] = set()
    n_beside = 0
    trace.ask_agents()
    for work, outer, call in _calls(trace, remarks):
        above = [work.span_id, *outer]
        askings = _questions(trace_id, trace, above, texts, by_attribute)
        n_beside += not askings
        seen.update(asking.query_id for asking in askings)
        if call is None:
            remarks.left_out.update(asking.query_id for asking in askings)
            continue
        for asking in askings:
            begin = work.begin or 0.0
            yield asking._replace(begin=begin, call=call, span_id=work.span_id, root=above[-1])
    inside = {work.span_id for work in trace.answers + trace.retrievals}
    for work in trace.answers:
        if trace.is_inside(work.span_id, inside):
            continue
        above = [*trace.above(work.span_id)]
        for asking in _questions(trace_id, trace, above, texts, by_attribute):
            if asking.query_id in seen:
                yield asking._replace(begin=work.begin or 0.0, answer=work.retrieved)
    remarks[Remark.UNKNOWN] += bool(trace.retrievals) and not seen
    remarks[Remark.BESIDE] += n_beside if seen else 0
    for asking in _silent(trace_id, trace, texts, by_attribute):
        if asking.query_id not in seen:
            seen.add(asking.query_id)
            yield asking


def _silent(trace_id: str, trace: Trace, texts: Texts, by_attribute: bool) -> Iterator[_Asking]:
    if by_attribute:
        for span_id, query_id in trace.question_ids.items():
            yield _Asking(query_id, ("", ""), trace.question, trace.begun[span_id])
        return
    for span_id, text in trace.asked.items():
        if not trace.is_inside(span_id, trace.asked):
            # a step alone, such as a synthesizer's, is no time of asking the question
            is_asked = span_id in trace.programs | trace.agents
            begun = trace.begun[span_id] if is_asked else -math.inf
            for query_id in texts[text]:
                yield _Asking(query_id, (trace_id, span_id), text, begun)


def _questions(
    trace_id: str, trace: Trace, above: Sequence[str], texts: Texts, by_attribute: bool
) -> Sequence[_Asking]:
    if by_attribute:
        named = next((span_id for span_id in above if trace.question_ids.get(span_id)), None)
        if named is None:
            return ()
        # all that has the attribute is of one asking, in however many traces
        query_id, begun = trace.question_ids[named], trace.begun[named]
        return [_Asking(query_id, ("", ""), trace.question, begun)]
    if texts:
        top = next((span_id for span_id in reversed(above) if span_id in trace.asked), None)
        if top is None:
            return ()
        text, begun = trace.asked[top], trace.begun[top]
        return [_Asking(query_id, (trace_id, top), text, begun) for query_id in texts[text]]
    return [_Asking(trace_id, (trace_id, ""), trace.question)]


def _calls(trace: Trace, remarks: Remarks) -> Iterator[tuple[Work, Sequence[str], Call | None]]:
    """The outermost retrievals, the spans around them, and their calls, None where unknown."""
    answers = {work.span_id for work in trace.retrievals if work.is_answer or not work.is_readable}
    outermost, rerankings = (
        [work for work in works if not trace.is_inside(work.span_id, answers)]
        for works in (trace.retrievals, trace.rerankings)
    )
    within = {work.span_id: [*trace.above(work.span_id)][1:] for work in outermost + rerankings}
    covering = {
        span_id for work in outermost if work.span_id in answers for span_id in within[work.span_id]
    }
    answered: list[Work] = []
    for work in outermost:
        if work.is_readable and work.is_answer:
            answered.append(work)
        elif not work.is_readable or work.span_id not in covering:
            remarks[Remark.WITHOUT_DOCUMENTS if work.is_readable else Remark.UNREADABLE] += 1
            yield work, within[work.span_id], None
    reranked = _reranked(rerankings, answered, within, remarks)
    for work in answered:
        outer = within[work.span_id]
        yield work, outer, _call(trace, work, reranked.get(work.span_id, []), outer)


def _reranked(
    rerankings: Sequence[Work],
    answered: Sequence[Work],
    within: Mapping[str, Sequence[str]],
    remarks: Remarks,
) -> dict[str, list[Work]]:
    """Retrieval to its rerankings: subsets of its documents, after it, in the nearest span."""
    reranked: dict[str, list[Work]] = {}
    every = {work.span_id for work in rerankings}
    telling = {work.span_id for work in rerankings if work.retrieved is not None}
    told = telling.union(*(within[span_id] for span_id in telling))
    for reranking in sorted(rerankings, key=lambda work: work.begin or 0.0):
        around = within[reranking.span_id]
        if reranking.retrieved is None:
            # a postprocessor calls others: of these, one that tells is enough
            if reranking.span_id not in told and every.isdisjoint(around):
                has_failed = reranking.error is not None
                remarks[Remark.FAILED_RERANKINGS if has_failed else Remark.SILENT_RERANKINGS] += 1
            continue
        if not telling.isdisjoint(around):  # the caller got what the outer one made of it
            continue
        ids = set(reranking.retrieved.ids)
        fitting = [
            work
            for work in answered
            if work.retrieved is not None
            and (work.begin or 0.0) <= (reranking.begin or 0.0)
            and ids <= set(work.retrieved.ids)
        ]
        if not fitting:
            remarks[Remark.STRAY] += 1
            continue
        common = [len({*within[work.span_id]}.intersection(around)) for work in fitting]
        most = max(common)
        nearest = [work for work, n in zip(fitting, common, strict=True) if n == most]
        last = max(nearest, key=lambda work: work.begin or 0.0)
        others = (work for work in nearest if work is not last)
        remarks[Remark.UNCERTAIN] += any(work.span_id not in reranked for work in others)
        reranked.setdefault(last.span_id, []).append(reranking)
    return reranked


def _call(trace: Trace, work: Work, rerankings: Sequence[Work], above: Sequence[str]) -> Call:
    retrieved = before = work.retrieved
    if rerankings:
        retrieved = rerankings[-1].retrieved
    if before and retrieved and before.texts is not None and retrieved.texts is None:
        texts = dict(zip(before.ids, before.texts, strict=True))
        retrieved = retrieved._replace(texts=[texts.get(item, "") for item in retrieved.ids])
    seconds = [step.seconds for step in (work, *rerankings)]
    latency = None if None in seconds else sum(filter(None, seconds))
    asked_by = next((trace.tools[outer] for outer in above if outer in trace.tools), "")
    question = work.question or ""
    found = {} if work.error is not None or retrieved is None else retrieved._asdict()
    return Call(**found, latency=latency, error=work.error, query=question, asked_by=asked_by)
