"""Reading traces: which question a retrieval was made for, and what its caller got."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from llama_index_rag_metrics.rankings.matching.id_matcher import NODE_ID, REF_DOC_ID
from llama_index_rag_metrics.rankings.run import Call, Ranking, Run, combine_calls, item_columns
from llama_index_rag_metrics.runtime.atomic_files import short_hash
from llama_index_rag_metrics.runtime.containers import collection_paused
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .conversations import CONVERSATION, HISTORY
from .lines import Location, name_of
from .records import comparable, converted, number_or_none, read_id
from .sources import plain
from .trace_dialects import read_dialect
from .trace_spans import Document, TraceSpan, mapping, parsed, spans_in

_Asked: TypeAlias = "Collection[tuple[str, str]]"  # traces, and the questions asked in them
_CONVERSATIONS = ("session.id", "gen_ai.conversation.id", "mlflow.trace.session")
_REMARKS = {  # why something of the traces couldn't be used, in the order of the notes
    "left out": "questions left out: a retrieval has no documents (was recording them turned off?)",
    "unknown": "retrievals for no known question (question_id= reads it from an attribute)",
    "reranked": "rerankings without nodes or of several retrievals: the order before them counts",
    "again": "questions asked several times; the last time counts",
    "spread": "questions with calls in several traces, which count as one time of asking",
    "nameless": "documents without an id, known by a digest of their text (match_on= takes an id "
    "from their metadata, a matcher finds texts)",
}
_BY_ID = "Where spans have the ids of questions, question_id= says in which attribute."
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
        source: a path to OTLP/JSON, what ConsoleSpanExporter prints, MLflow's traces as JSON, or
            Phoenix's spans as JSON or Parquet; or what `mlflow.search_traces()` or Phoenix's
            `get_spans_dataframe()` returns.
        question_id: the attribute that holds the question's id, on the retrieval's span or on one
            that it is part of; "metadata.question_id" for a key of a JSON attribute. Calls with
            the same id are one session, in whatever traces they are.
        questions: the questions by id, or a dataset, to know a question by its text; the last time
            that it was asked counts. Without `question_id` and `questions`, a trace is a question.
        match_on: which id of a document counts: "node_id", "ref_doc_id" or a key of its metadata.
        name: what to call the run; by default the file's name.

    Returns:
        The run. `run.is_log` says that labelled questions that aren't in it weren't asked, and
        `run.notes` what couldn't be used, and why.

    Raises:
        FileFormatError: a line or a span can't be read, or the source holds no traces.
        InvalidInput: no retrieval is of a known question.

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
    texts: Any = {} if questions is None else getattr(questions, "queries", questions)
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts.values()):
        raise InvalidInput("questions", questions, "a dataset, or a mapping of query id to text")
    if isinstance(source, (str, os.PathLike)):
        name = name or name_of(Path(source))
    reader = _Reader(match_on, question_id, texts)
    with collection_paused():  # parsed JSON has no cycles; looking for them took half the time
        for span in spans_in(source):
            reader.add(span)
        sessions = reader.sessions(name or "the traces")
    queries = {}
    metadata: dict[str, Any] = dict(getattr(questions, "metadata", {}))
    for query_id, session in sessions.items():
        if text := texts.get(query_id) or session.text:
            queries[query_id] = text
        row = metadata.get(query_id, {})
        if session.conversation and not row.keys() & {CONVERSATION, HISTORY}:
            metadata[query_id] = {CONVERSATION: session.conversation, **row}
    rankings, notes = _rankings(sessions), reader.notes()
    run = Run(rankings, name=name, queries=queries, metadata=metadata, notes=notes)
    run.is_log = True
    return run


@dataclass(slots=True)
class _Session:
    """One time that a question was asked, and its calls."""

    question: str | None
    asked_at: float
    conversation: str
    calls: list[Call] = field(default_factory=list)

    @property
    def text(self) -> str | None:
        """The question if it is known, or else the words of its calls if no tool asked them."""
        words = {(call.query, call.asked_by) for call in self.calls}
        if self.question or len(words) != 1:
            return self.question
        query, tool = words.pop()
        return None if tool else query or None


def _rankings(sessions: Mapping[str, _Session]) -> dict[str, Ranking]:
    """Rankings by query id; without calls if every question has exactly one retrieval."""
    is_plain = True
    for session in sessions.values():
        queries = [call.query for call in session.calls]
        is_plain &= queries in ([""], [session.text or ""])
    rankings = {}
    for query_id, session in sessions.items():
        ranking = combine_calls(session.calls)
        errors = [call.error for call in session.calls]
        if is_plain:
            call = session.calls[0]
            ranking = Ranking(**item_columns(call), latency=call.latency)
        if errors and None not in errors:
            ranking = replace(ranking, error=errors[-1])
        rankings[query_id] = ranking
    return rankings


class _Reader:
    """Collects spans by trace, and traces into the sessions of questions."""

    def __init__(self, match_on: str, question_id: str | None, texts: Mapping[str, str]) -> None:
        self._match_on, self._question_id, self._texts = match_on, question_id, texts
        self._by_text: dict[str, list[str]] = {}
        for query_id, text in texts.items():
            self._by_text.setdefault(comparable(text), []).append(query_id)
        self._traces: dict[str, dict[str, TraceSpan]] = {}
        self._conversations: dict[str, str] = {}
        self._times: dict[str, dict[str, _Session]] = {}
        self._left_out: set[str] = set()
        self._remarks: Counter[str] = Counter()
        self._attributes: set[str] = set()
        self._hint = ""

    def add(self, span: TraceSpan) -> None:
        spans = self._traces.setdefault(span.trace_id, {})
        if span.span_id in spans:  # exporters send again what they doubt has arrived
            return
        spans[span.span_id] = span
        read_dialect(span)
        self._remarks["retrievals"] += span.kind == "retrieval"
        if self._question_id is not None:
            span.question_id = self._named(span, self._question_id)
        for name in _CONVERSATIONS:
            if self._question_id not in _CONVERSATIONS and (tag := _tag(span, name)):
                self._conversations.setdefault(span.trace_id, str(tag))
        if span.question is not None and comparable(span.question) in self._by_text:
            span.known_text = comparable(span.question)
        # postprocessors' spans name node ids alone
        is_bare = span.kind == "reranking" and self._match_on != NODE_ID
        metadata = [document.metadata for document in span.documents or ()]
        if span.documents is not None and not (is_bare and None in metadata):
            span.retrieved = self._read(span.documents, span.location)
        span.attributes, span.events, span.documents = {}, (), None  # texts are most of a file

    def _named(self, span: TraceSpan, name: str) -> str | None:
        if len(self._attributes) < 40:
            for attribute in span.attributes:
                if not any(map(str.isdigit, attribute.split("."))):  # numbers are of documents
                    self._attributes.add(attribute)
        value = _tag(span, name)
        outer, _, inner = name.partition(".")
        if value is None and inner and outer in span.attributes:
            value = mapping(span.json(outer)).get(inner)
        if value is None and f'"{name}"' in str(span.attributes.get("metadata")):
            self._hint = f"It is in the JSON of metadata: write question_id='metadata.{name}'."
        return None if value is None else read_id(value, span.location)

    def _read(self, documents: Sequence[Document], location: Location) -> Ranking:
        columns: dict[str, Any] = {"ids": [], "scores": [], "texts": []}
        for document in documents:
            converted(document.text, str | None, "the text of a document", location)
            columns["ids"].append(self._id(document, location))
            columns["scores"].append(number_or_none(plain(document.score), location))
            columns["texts"].append(document.text)
        for name in ("scores", "texts"):
            if columns[name].count(None) == len(documents):
                del columns[name]
        if "texts" in columns:
            columns["texts"] = [text or "" for text in columns["texts"]]
        return Ranking(**columns)

    def _id(self, document: Document, location: Location) -> str:
        item, names = document.id, ""
        if self._match_on == REF_DOC_ID:
            item = document.source
        elif self._match_on != NODE_ID:
            metadata = mapping(parsed(document.metadata, "a document's metadata", location))
            item, names = metadata.get(self._match_on), str(sorted(map(str, metadata)))
        elif item in (None, "") and document.text:
            self._remarks["nameless"] += 1
            return f"text-{short_hash(document.text, 16)}"
        expected = _NO_ID.format(match_on=self._match_on, names=names or "no keys")
        location.check(item not in (None, ""), expected, "")
        return str(item) if names else read_id(item, location)

    def sessions(self, source: str) -> dict[str, _Session]:
        """Query id to the last session of each question whose retrievals are all known."""
        all_spans = list(chain.from_iterable(map(dict.values, self._traces.values())))
        self._add_questions(all_spans, besides=self._add_calls())
        sessions = {}
        for query_id, times in self._times.items():
            if query_id not in self._left_out:
                self._remarks["again"] += len(times) > 1
                sessions[query_id] = sorted(times.values(), key=attrgetter("asked_at"))[-1]
        self._remarks["left out"] = len(self._left_out)
        if self._remarks["retrievals"] and not sessions and not self._left_out:
            raise self._unknown_questions(all_spans, source)
        return sessions

    def _add_calls(self) -> set[tuple[str, str]]:
        """Add calls to their sessions; return the traces and questions that have any."""
        calls: list[tuple[TraceSpan, Call | None]] = []
        for spans in self._traces.values():
            _link(spans)
            calls += self._calls(spans.values())
        with_calls: set[tuple[str, str]] = set()
        for span, call in sorted(calls, key=lambda pair: pair[0].started):
            sessions = self._asked(span)
            self._remarks["unknown"] += not sessions
            for query_id, session in sessions.items():
                with_calls.add((span.trace_id, query_id))
                if call is None:
                    self._left_out.add(query_id)
                else:
                    session.calls.append(call)
        if self._question_id is not None:
            n_traces = Counter(query_id for _, query_id in with_calls)
            self._remarks["spread"] = sum(n > 1 for n in n_traces.values())
        return with_calls

    def _add_questions(self, spans: Iterable[TraceSpan], besides: _Asked) -> None:
        """Add the sessions of questions for which perhaps nothing was retrieved."""
        for span in spans:
            # a step alone, such as a synthesizer's, is no time of asking the question
            is_program = span.kind in ("answer", "agent") and not span.name.endswith("synthesize")
            is_outermost = span.known_text and not any(outer.known_text for outer in span.outer)
            if span.question_id or (not self._question_id and is_program and is_outermost):
                self._asked(span, besides)

    def _calls(self, spans: Collection[TraceSpan]) -> Iterator[tuple[TraceSpan, Call | None]]:
        """The outermost retrievals and their calls, None where what they returned isn't known."""
        answered = {span for span in spans if span.kind == "retrieval" and span.is_answered}
        covering: set[TraceSpan] = set().union(*map(attrgetter("outer"), answered))
        outermost = [span for span in spans if answered.isdisjoint(span.outer)]
        retrievals = [span for span in outermost if span in answered]
        rerankings = [span for span in outermost if span.kind == "reranking"]
        later_steps = self._later_steps(retrievals, rerankings)
        for span in outermost:
            if span in answered:
                yield span, _call([span, *later_steps[span]])
            elif span.kind == "retrieval" and span not in covering:
                yield span, None

    def _later_steps(
        self, retrievals: Sequence[TraceSpan], rerankings: Sequence[TraceSpan]
    ) -> Mapping[TraceSpan, list[TraceSpan]]:
        """Map each retrieval to the rerankings of its documents, in the order of their starts."""
        steps: Mapping[TraceSpan, list[TraceSpan]] = defaultdict(list)
        with_documents = {span for span in rerankings if span.retrieved is not None}
        around_them: set[TraceSpan] = set().union(*map(attrgetter("outer"), with_documents))
        for span in sorted(rerankings, key=lambda step: step.started):
            if span.retrieved is None:
                # a postprocessor calls others: of these, one with documents is enough
                is_alone = span not in around_them and set(rerankings).isdisjoint(span.outer)
                self._remarks["reranked"] += is_alone
            elif not with_documents.isdisjoint(span.outer):
                continue  # the caller got what the outer one made of it
            elif (retrieval := _retrieval_of(span, retrievals)) is None:
                self._remarks["reranked"] += 1
            else:
                steps[retrieval].append(span)
        return steps

    def _unknown_questions(self, spans: Sequence[TraceSpan], source: str) -> InvalidInput:
        if self._question_id is None:
            text = next(iter(self._texts.values()), "")
            examples = [span.question for span in spans if span.question]
            expected = f"texts of questions as {source} has them, such as {examples[:1]}"
            return InvalidInput("questions", text, expected, _BY_ID)
        expected = f"an attribute of the spans, which have {', '.join(sorted(self._attributes))}"
        return InvalidInput("question_id", self._question_id, expected, self._hint)

    def notes(self) -> list[str]:
        if not self._remarks["retrievals"]:
            return [f"none of {sum(map(len, self._traces.values())):,} spans is a retrieval"]
        remarks = self._remarks
        return [f"{text}: {remarks[key]:,}" for key, text in _REMARKS.items() if remarks[key]]

    def _asked(self, span: TraceSpan, besides: _Asked = ()) -> dict[str, _Session]:
        """Return the sessions that a span belongs to; new ones are added."""
        key, query_ids, question, asked_at = self._time_of(span)
        sessions = {}
        for query_id in query_ids:
            if (span.trace_id, query_id) not in besides:
                new = _Session(question, asked_at, self._conversations.get(span.trace_id, ""))
                session = self._times.setdefault(query_id, {}).setdefault(key, new)
                session.question = session.question or question
                sessions[query_id] = session
        return sessions

    def _time_of(self, span: TraceSpan) -> tuple[str, Sequence[str], str | None, float]:
        """The time of asking that a span is of: its key, the question's ids and text, its start."""
        key, asked_at, question = "", 0.0, None
        query_ids: Sequence[str] = ()
        if self._question_id is None and not self._texts:
            key, query_ids = span.trace_id, [span.trace_id]
        for outer in [span, *span.outer]:
            if outer.parent_id is None and question is None:
                question = outer.question
            if self._question_id is None and outer.known_text is not None:  # the outermost
                key, asked_at = f"{span.trace_id} {outer.span_id}", outer.started
                question, query_ids = outer.known_text, self._by_text[outer.known_text]
            elif outer.question_id and not query_ids:
                # spans with one question id are one session, even in several traces
                asked_at, query_ids = outer.started, [outer.question_id]
        return key, query_ids, question, asked_at


def _tag(span: TraceSpan, name: str) -> Any:
    """An attribute; `llama-index-observability-otel` writes its package's name before a tag's."""
    value = span.attributes.get(name)
    return span.attributes.get(f"llamaindex.{name}") if value is None else value


def _link(by_id: Mapping[str, TraceSpan]) -> None:
    """Fill in what each span is part of, and what agents were asked."""
    spans = by_id.values()
    agents = {span for span in spans if span.kind == "agent"}
    for span in spans:
        outer = by_id.get(span.parent_id or "")
        while outer is not None and outer is not span and outer not in span.outer:
            span.outer.append(outer)
            outer = by_id.get(outer.parent_id or "")
        if span.name.endswith(".setup_agent"):
            agents.update(span.outer[:1])
    _tell_agents(agents, spans)


def _tell_agents(agents: Collection[TraceSpan], spans: Iterable[TraceSpan]) -> None:
    """Fill in an agent's question where its spans ask only one."""
    texts_inside: dict[TraceSpan, set[str]] = defaultdict(set)
    for span in spans:
        for agent in {span, *span.outer}.intersection(agents):
            if span.known_text is not None:
                texts_inside[agent].add(span.known_text)
    for agent, texts in texts_inside.items():
        if len(texts) == 1 and not agent.question:
            agent.known_text = texts.pop()


def _retrieval_of(reranking: TraceSpan, retrievals: Sequence[TraceSpan]) -> TraceSpan | None:
    """The last retrieval, in the nearest span, that holds all a reranking was given and kept."""
    ids = set(reranking.retrieved.ids) if reranking.retrieved else set()
    for span in retrievals:
        ids |= reranking.input_ids.intersection(span.retrieved.ids if span.retrieved else ())
    fitting = []
    for span in retrievals:
        is_before = span.started <= reranking.started
        if is_before and span.retrieved and ids.issubset(span.retrieved.ids):
            fitting.append(span)
    outer = set(reranking.outer)
    return max(fitting, key=lambda span: (len(outer & {*span.outer}), span.started), default=None)


def _call(steps: Sequence[TraceSpan]) -> Call:
    span, retrieved = steps[0], steps[-1].retrieved or Ranking()
    if span.retrieved and span.retrieved.texts and retrieved.texts is None:
        texts = dict(zip(span.retrieved.ids, span.retrieved.texts, strict=True))
        retrieved = replace(retrieved, texts=[texts.get(item, "") for item in retrieved.ids])
    return Call(
        **item_columns(retrieved),
        latency=_latency(steps),
        error=span.error,
        query=span.question or "",
        asked_by=next((outer.tool for outer in span.outer if outer.kind == "tool"), ""),
    )


def _latency(steps: Iterable[TraceSpan]) -> float | None:
    seconds = 0.0
    for step in steps:
        if step.begin is None or step.end is None:
            return None
        seconds += max(0.0, step.end - step.begin)
    return seconds
