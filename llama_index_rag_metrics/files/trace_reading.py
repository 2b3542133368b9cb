"""Reading traces: which question a retrieval was made for, and what its caller got."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.rankings.matching.id_matcher import NODE_ID, REF_DOC_ID
from llama_index_rag_metrics.rankings.run import Call, Ranking, Run, combine_calls, item_columns
from llama_index_rag_metrics.runtime.arrays import collection_paused
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .conversations import CONVERSATION, HISTORY
from .lines import Location, name_of
from .records import comparable, encoded, number_or_none, read_id
from .sources import plain
from .trace_dialects import read_dialect
from .trace_spans import Document, TraceSpan, mapping, parsed, spans_in

_CONVERSATIONS = ("session.id", "gen_ai.conversation.id", "mlflow.trace.session")
_REMARKS = {
    "hidden": "retrieval spans without documents (was recording them turned off?)",
    "left out": "questions left out, since a retrieval for them isn't known",
    "unknown": "traces with retrievals for no known question",
    "beside": "retrievals left out: without an attribute, question_id=, it isn't known which "
    "question of their trace they are for",
    "reranked": "rerankings that failed, hold no documents or aren't of one retrieval, so the "
    "order before them counts",
    "again": "questions asked several times; the last time counts",
    "nameless": "documents without an id, known by a digest of their text (labels find them by "
    "match_on= and a key of their metadata, or by a matcher)",
    "repeated": "repeated spans, counted once",
}
"""Why something of the traces couldn't be used, in the order of the notes."""

_NO_ID = "documents with {match_on!r}, as match_on says; their metadata has {names}"


def read_traces(
    source: Any,
    *,
    question_id: str | None = None,
    questions: Any = None,
    match_on: str = NODE_ID,
    name: str = "",
) -> Run:
    """Read what was retrieved from the traces of a program, in production or in a test.

    Every outermost retrieval span is a call; a reranking that follows replaces its documents. The
    calls of a question, in the order in which they began, are its session: `run[query_id].calls`.
    If every question has one retrieval, in its own words, the rankings are plain ones.

    Args:
        source: a path to OTLP/JSON, to what ConsoleSpanExporter prints, to MLflow's traces as JSON
            or to Phoenix's spans as JSON or Parquet; or in memory what `mlflow.search_traces()` or
            Phoenix's `get_spans_dataframe()` returns.
        question_id: the attribute that holds the id of the question, on the retrieval's span or on
            one that it is part of: "question_id" (also of `instrument_tags`), "session.id", or
            "metadata.question_id" for a key of a JSON attribute. Calls with the same id are one
            session, in whatever traces they are.
        questions: the questions by id, or a dataset: then a question is known by its text. If it
            was asked several times, the last time counts. Without `question_id` and `questions`
            each trace is a question, and its id the trace's.
        match_on: which id of a document counts: "node_id", "ref_doc_id" or a key of its metadata.
        name: what to call the run; by default the file's name.

    Returns:
        The run. `run.is_log` says that labelled questions that aren't in it weren't asked, and
        `run.notes` how many retrievals couldn't be used, and why.

    Raises:
        FileFormatError: a line or a span can't be read, or the source holds no traces.
        InvalidInput: an argument can't be used, or no retrieval is of a known question.

    Examples:
        >>> span = {
        ...     "context": {"trace_id": "t1", "span_id": "s1"},
        ...     "span_kind": "RETRIEVER",
        ...     "attributes": {
        ...         "input.value": "Who wrote Hamlet?",
        ...         "retrieval.documents.0.document.id": "d3",
        ...     },
        ... }
        >>> read_traces([span], questions={"q1": "Who wrote Hamlet?"})["q1"].ids
        ['d3']
    """
    if question_id is not None and (not isinstance(question_id, str) or not question_id):
        raise InvalidInput("question_id", question_id, "the name of an attribute")
    if not isinstance(match_on, str) or not match_on:
        raise InvalidInput("match_on", match_on, "'node_id', 'ref_doc_id' or a metadata key")
    texts: Any = {} if questions is None else getattr(questions, "queries", questions)
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts.values()):
        raise InvalidInput("questions", questions, "a dataset, or a mapping of query id to text")
    reader = _Reader(match_on, question_id, texts)
    with collection_paused():  # parsed JSON has no cycles; looking for them took half the time
        for span in spans_in(source):
            reader.add(span)
        sessions = reader.finish()
    queries = {}
    metadata: dict[str, Any] = dict(getattr(questions, "metadata", {}))
    for query_id, session in sessions.items():
        if text := texts.get(query_id) or session.text:
            queries[query_id] = text
        row = metadata.get(query_id, {})
        if session.conversation is not None and not row.keys() & {CONVERSATION, HISTORY}:
            metadata[query_id] = {CONVERSATION: session.conversation, **row}
    if isinstance(source, (str, os.PathLike)):
        name = name or name_of(Path(source))
    notes = reader.notes()
    run = Run(_rankings(sessions), name=name, queries=queries, metadata=metadata, notes=notes)
    run.is_log = True
    return run


@dataclass(slots=True)
class _Session:
    """One time that a question was asked, and its calls, each with when it began."""

    key: tuple[str, str]
    question: str | None
    asked_at: float
    conversation: str | None
    timed: list[tuple[float, Call]] = field(default_factory=list)

    @property
    def calls(self) -> list[Call]:
        return [call for _, call in sorted(self.timed, key=lambda timed: timed[0])]

    @property
    def text(self) -> str | None:
        """The question, where it is known; where a tool asked, an agent wrote the words."""
        queries = {call.query for _, call in self.timed}
        if self.question or len(queries) != 1 or any(call.asked_by for _, call in self.timed):
            return self.question
        return queries.pop() or None


def _rankings(sessions: Mapping[str, _Session]) -> dict[str, Ranking]:
    """Rankings by query id; without calls if every question has exactly one retrieval."""
    is_plain = True
    for session in sessions.values():
        queries = [call.query for _, call in session.timed]
        is_plain &= queries in ([""], [session.text or ""])
    rankings = {}
    for query_id, session in sessions.items():
        calls = session.calls
        if is_plain:
            call = calls[0]
            rankings[query_id] = Ranking(
                **item_columns(call), latency=call.latency, error=call.error
            )
        elif calls and all(call.error is not None for call in calls):
            rankings[query_id] = Ranking(error=calls[-1].error, calls=tuple(calls))
        else:
            rankings[query_id] = combine_calls(calls)
    return rankings


class _Trace:
    """The spans of a trace by id, and the conversation that it names."""

    def __init__(self, trace_id: str) -> None:
        self.trace_id = trace_id
        self.spans: dict[str, TraceSpan] = {}
        self.conversation: str | None = None
        self.question: str | None = None

    def of_kind(self, kind: str) -> list[TraceSpan]:
        return [span for span in self.spans.values() if span.kind == kind]

    def link(self) -> None:
        """Tell spans what they are part of, the trace its question, and agents theirs."""
        agents = set(self.of_kind("agent"))
        for span in self.spans.values():
            outer = self.spans.get(span.parent_id or "")
            while outer is not None and outer is not span and outer not in span.outer:
                span.outer.append(outer)
                outer = self.spans.get(outer.parent_id or "")
            if self.question is None and not span.parent_id:
                self.question = span.question
            if span.name.endswith(".setup_agent"):
                agents.update(span.outer[:1])
        inside: dict[TraceSpan, set[str]] = {}
        for span in self.spans.values():
            for agent in agents.intersection([span, *span.outer]):
                if span.known_text is not None:
                    inside.setdefault(agent, set()).add(span.known_text)
        for agent, texts in inside.items():
            if len(texts) == 1 and not agent.question:
                agent.known_text = texts.pop()


class _Reader:
    """Collects spans into traces, and traces into the sessions of questions."""

    def __init__(self, match_on: str, question_id: str | None, texts: Mapping[str, str]) -> None:
        self._match_on, self._question_id, self._texts = match_on, question_id, texts
        self._by_text: dict[str, list[str]] = {}
        for query_id, text in texts.items():
            self._by_text.setdefault(comparable(text), []).append(query_id)
        self._traces: dict[str, _Trace] = {}
        self._times: dict[str, dict[tuple[str, str], _Session]] = {}
        self._left_out: set[str] = set()
        self._remarks: Counter[str] = Counter()
        self._n_spans = self._n_retrievals = 0
        self._attributes: set[str] = set()
        self._hint = self._example = ""

    def add(self, span: TraceSpan) -> None:
        self._n_spans += 1
        trace = self._traces.setdefault(span.trace_id, _Trace(span.trace_id))
        if span.span_id in trace.spans:  # exporters send again what they doubt has arrived
            self._remarks["repeated"] += 1
            return
        trace.spans[span.span_id] = span
        read_dialect(span)
        self._n_retrievals += span.kind == "retrieval"
        if self._question_id is not None:
            span.question_id = self._named(span, self._question_id)
        if self._question_id not in _CONVERSATIONS:
            names = [str(_tag(span, name) or "") for name in _CONVERSATIONS]
            trace.conversation = trace.conversation or next(filter(None, names), None)
        if span.question is not None and comparable(span.question) in self._by_text:
            span.known_text = comparable(span.question)
        self._example = self._example or span.question or ""
        # postprocessors' spans name node ids alone
        is_bare = span.kind == "reranking" and self._match_on != NODE_ID
        metadata = [document.metadata for document in span.documents or ()]
        if span.documents is not None and not (is_bare and None in metadata):
            span.retrieved = self._read(span.documents, span.location)
        span.attributes, span.events, span.documents = {}, (), None  # texts are most of a file

    def _named(self, span: TraceSpan, name: str) -> str | None:
        """The id of the question that a span names."""
        if len(self._attributes) < 40:
            self._attributes.update(span.attributes)
        value = _tag(span, name)
        outer, _, inner = name.partition(".")
        if value is None and inner and outer in span.attributes:
            value = mapping(span.json(outer)).get(inner)
        if value is None and f'"{name}"' in str(span.attributes.get("metadata")):
            self._hint = f"It is in the JSON of metadata: write question_id='metadata.{name}'."
        return None if value is None else read_id(value, span.location)

    def _read(self, documents: Sequence[Document], location: Location) -> Ranking:
        ids, scores, texts = [], [], []
        for document in documents:
            is_text = isinstance(document.text, (str, type(None)))
            location.check(is_text, "the text of a document", document.text)
            ids.append(self._id(document, location))
            scores.append(number_or_none(plain(document.score), location))
            texts.append(document.text or "")
        has_scores = any(document.score is not None for document in documents)
        has_texts = any(document.text is not None for document in documents)
        return Ranking(ids, scores if has_scores else None, texts if has_texts else None)

    def _id(self, document: Document, location: Location) -> str:
        item, text = document.id, document.text
        if self._match_on == NODE_ID and item in (None, "") and text:
            self._remarks["nameless"] += 1
            return f"text-{sha256(encoded(text)).hexdigest()[:16]}"
        metadata: Mapping[str, Any] = {}
        if self._match_on == REF_DOC_ID:
            item = document.source
        elif self._match_on != NODE_ID:
            metadata = mapping(parsed(document.metadata, "a document's metadata", location))
            item = metadata.get(self._match_on)
        names = sorted(map(str, metadata)) or "no keys"
        expected = _NO_ID.format(match_on=self._match_on, names=names)
        location.check(item not in (None, ""), expected, "")
        return str(item) if metadata else read_id(item, location)

    def finish(self) -> dict[str, _Session]:
        """Query id to the last session of each question whose retrievals are all known."""
        for trace in self._traces.values():
            trace.link()
            self._add_trace(trace)
        sessions = {}
        for query_id, times in self._times.items():
            if query_id not in self._left_out:
                self._remarks["again"] += len(times) > 1
                sessions[query_id] = max(times.values(), key=lambda session: session.asked_at)
        self._remarks["left out"] = len(self._left_out)
        if not self._n_retrievals or sessions or self._left_out:
            return sessions
        if self._question_id is not None:
            expected = (
                f"an attribute of the spans, which have {', '.join(sorted(self._attributes))}"
            )
            raise InvalidInput("question_id", self._question_id, expected, self._hint)
        remedy = f"Among those asked is {self._example!r}." if self._example else ""
        expected = "texts of questions as they were asked"
        raise InvalidInput("questions", next(iter(self._texts.values()), ""), expected, remedy)

    def notes(self) -> list[str]:
        remarks = self._remarks
        notes = [f"{text}: {remarks[key]:,}" for key, text in _REMARKS.items() if remarks[key]]
        if notes or self._n_retrievals:
            return notes
        return [f"none of {self._n_spans:,} spans is a retrieval"]

    def _add_trace(self, trace: _Trace) -> None:
        query_ids: set[str] = set()
        n_beside = 0
        for span, call in _calls(trace, self._remarks):
            sessions = self._asked(trace, span)
            n_beside += not sessions
            query_ids.update(sessions)
            for query_id, session in sessions.items():
                if call is None:
                    self._left_out.add(query_id)
                else:
                    self._kept(query_id, session).timed.append((span.started, call))
        self._remarks["unknown"] += bool(trace.of_kind("retrieval")) and not query_ids
        self._remarks["beside"] += n_beside if query_ids else 0
        # questions that were asked, for which perhaps nothing was retrieved
        for span in trace.spans.values():
            # a step alone, such as a synthesizer's, is no time of asking the question
            is_program = span.kind in ("answer", "agent") and not span.name.endswith("synthesize")
            is_outermost = span.known_text and not any(outer.known_text for outer in span.outer)
            if span.question_id or (not self._question_id and is_program and is_outermost):
                for query_id, session in self._asked(trace, span).items():
                    if query_id not in query_ids:
                        self._kept(query_id, session)
                        query_ids.add(query_id)

    def _kept(self, query_id: str, new: _Session) -> _Session:
        times = self._times.setdefault(query_id, {})
        session = times.setdefault(new.key, replace(new, timed=[]))
        session.question = session.question or new.question
        return session

    def _asked(self, trace: _Trace, span: TraceSpan) -> dict[str, _Session]:
        """The questions that a span is for, by attribute, text or trace, and when that was."""
        if self._question_id is None and not self._texts:
            key = trace.trace_id, ""
            return {trace.trace_id: _Session(key, trace.question, 0.0, trace.conversation)}
        query_ids: list[str] = []
        session = _Session(("", ""), trace.question, 0.0, trace.conversation)
        for outer in [span, *span.outer]:
            if self._question_id is None and outer.known_text is not None:  # the outermost
                key = trace.trace_id, outer.span_id
                session = _Session(key, outer.known_text, outer.started, trace.conversation)
                query_ids = self._by_text[outer.known_text]
            elif outer.question_id and not query_ids:
                # all that has the attribute is of one session, in however many traces
                session.asked_at, query_ids = outer.started, [outer.question_id]
        return dict.fromkeys(query_ids, session)


def _tag(span: TraceSpan, name: str) -> Any:
    """An attribute; `llama-index-observability-otel` writes its package's name before a tag's."""
    value = span.attributes.get(name)
    return span.attributes.get(f"llamaindex.{name}") if value is None else value


def _calls(trace: _Trace, remarks: Counter[str]) -> Iterator[tuple[TraceSpan, Call | None]]:
    """The outermost retrievals and their calls, None where what they returned isn't known."""
    retrievals = trace.of_kind("retrieval")
    answered = {span for span in retrievals if span.is_answered}
    outermost = [span for span in retrievals if answered.isdisjoint(span.outer)]
    covering = set(chain.from_iterable(span.outer for span in answered))
    rerankings = [span for span in trace.of_kind("reranking") if answered.isdisjoint(span.outer)]
    steps = {span: [span] for span in outermost if span.is_answered}
    with_documents = {span for span in rerankings if span.retrieved is not None}
    around_them = set(chain.from_iterable(span.outer for span in with_documents))
    for span in sorted(rerankings, key=lambda step: step.started):
        retrieval = _retrieval_of(span, [*steps])
        if span.retrieved is None:
            # a postprocessor calls others: of these, one with documents is enough
            is_alone = span not in around_them and set(rerankings).isdisjoint(span.outer)
            remarks["reranked"] += is_alone
        elif not with_documents.isdisjoint(span.outer):
            continue  # the caller got what the outer one made of it
        elif retrieval is None:
            remarks["reranked"] += 1
        else:
            steps[retrieval].append(span)
    for span in outermost:
        if span in steps:
            yield span, _call(steps[span])
        elif span not in covering:
            remarks["hidden"] += 1
            yield span, None


def _retrieval_of(reranking: TraceSpan, retrievals: Sequence[TraceSpan]) -> TraceSpan | None:
    """The last retrieval before a reranking that holds its documents, in the nearest span."""
    ids = set(reranking.retrieved.ids) if reranking.retrieved else set()
    fitting = []
    for span in retrievals:
        is_before = span.started <= reranking.started
        if is_before and span.retrieved and ids.issubset(span.retrieved.ids):
            fitting.append((len({*span.outer} & {*reranking.outer}), span.started, span))
    return max(fitting, key=lambda fit: fit[:2])[2] if fitting else None


def _call(steps: Sequence[TraceSpan]) -> Call:
    """The call of a retrieval and the rerankings after it."""
    span, retrieved = steps[0], steps[-1].retrieved or Ranking()
    if span.retrieved and span.retrieved.texts and retrieved.texts is None:
        texts = dict(zip(span.retrieved.ids, span.retrieved.texts, strict=True))
        retrieved = replace(retrieved, texts=[texts.get(item, "") for item in retrieved.ids])
    seconds = [step.seconds for step in steps if step.seconds is not None]
    tools = [outer.tool for outer in span.outer if outer.kind == "tool"]
    return Call(
        **item_columns(Ranking() if span.error is not None else retrieved),
        latency=sum(seconds) if len(seconds) == len(steps) else None,
        error=span.error,
        query=span.question or "",
        asked_by=next(iter(tools), ""),
    )
