"""From spans to sessions: which question a retrieval was made for, and what its caller got."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from llama_index_rag_metrics.files.lines import Location
from llama_index_rag_metrics.files.records import comparable, encoded, read_id
from llama_index_rag_metrics.files.traces.dialects import read_dialect
from llama_index_rag_metrics.files.traces.trace_spans import (
    Columns,
    Document,
    TraceSpan,
    mapping,
    parsed,
)
from llama_index_rag_metrics.rankings.matching.id_matcher import NODE_ID, REF_DOC_ID
from llama_index_rag_metrics.rankings.run import WRITTEN, Call, Ranking
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

CONVERSATIONS = ("session.id", "gen_ai.conversation.id", "mlflow.trace.session")

_TAGS = "llamaindex."
"""What `llama-index-observability-otel` writes before the name of a tag."""

WITHOUT_DOCUMENTS = "retrieval spans without documents (was recording them turned off?)"
LEFT_OUT = "questions left out, since a retrieval for them isn't known"
UNKNOWN = "traces with retrievals for no known question"
BESIDE = (
    "retrievals left out: without an attribute, question_id=, it isn't known which question "
    "of their trace they are for"
)
RERANKINGS = (
    "rerankings that failed, hold no documents or aren't of one retrieval, so the order before "
    "them counts"
)
UNCERTAIN = "rerankings that fit several retrievals, of which the last counts as theirs"
ASKED_AGAIN = "questions asked several times; the last time counts"
NAMELESS = (
    "documents without an id, known by a digest of their text (labels find them by "
    "match_on= and a key of their metadata, or by a matcher)"
)
REPEATED = "repeated spans, counted once"
REMARKS = (
    WITHOUT_DOCUMENTS,
    LEFT_OUT,
    UNKNOWN,
    BESIDE,
    RERANKINGS,
    UNCERTAIN,
    ASKED_AGAIN,
    NAMELESS,
    REPEATED,
)
"""Why something of the traces couldn't be used, in the order of the notes."""


class DocumentReader:
    """Reads documents by the id that counts."""

    def __init__(self, match_on: str, remarks: Counter[str]) -> None:
        if not isinstance(match_on, str) or not match_on:
            raise InvalidInput("match_on", match_on, "'node_id', 'ref_doc_id' or a metadata key")
        self._match_on = match_on
        self._remarks = remarks

    def have_ids(self, documents: Sequence[Document]) -> bool:
        """Whether the documents have the ids that count, not node ids alone."""
        return self._match_on == NODE_ID or all(
            document.metadata is not None for document in documents
        )

    def read(self, documents: Sequence[Document], location: Location) -> Columns:
        ids = [self._id(document, location) for document in documents]
        scores = [_score(document.score, location) for document in documents]
        texts = [document.text for document in documents]
        for text in texts:
            location.check(isinstance(text, (str, type(None))), "the text of a document", text)
        has_scores = any(document.score is not None for document in documents)
        has_texts = any(text is not None for text in texts)
        plain_texts = [text or "" for text in texts] if has_texts else None
        return Columns(ids, scores if has_scores else None, plain_texts)

    def _id(self, document: Document, location: Location) -> str:
        if self._match_on == REF_DOC_ID:
            expected = "the id of the source of each document, which these spans don't hold"
            remedy = f"{expected}; use match_on='node_id' or a metadata key"
            location.check(document.source is not None, remedy, "")
            return read_id(document.source, location)
        if self._match_on != NODE_ID:
            return self._metadata_id(document, location)
        if document.id not in (None, ""):
            return read_id(document.id, location)
        text = document.text
        if not isinstance(text, str) or not text:
            raise location.wrong("documents with an id or a text", "")
        self._remarks[NAMELESS] += 1
        return f"text-{sha256(encoded(text)).hexdigest()[:16]}"

    def _metadata_id(self, document: Document, location: Location) -> str:
        metadata = mapping(parsed(document.metadata, "a document's metadata", location))
        item = metadata.get(self._match_on)
        if item is None:
            names = sorted(map(str, metadata)) or "no metadata"
            raise location.wrong(f"documents with {self._match_on!r} in their metadata", names)
        return str(item)


def _score(score: Any, location: Location) -> float | None:
    if score is None:
        return None
    is_number = isinstance(score, (int, float)) and not isinstance(score, bool)
    location.check(is_number, "a score, a number", score)
    with location.expecting("a score, a number", OverflowError):
        number = float(score)
    if number != number:  # noqa: PLR0124
        return None
    return number


def is_written(document: Document) -> bool:
    """Whether a document is one that an engine wrote, a question with its answer."""
    is_bare = document.score is None and not document.metadata
    return is_bare and isinstance(document.text, str) and WRITTEN.match(document.text) is not None


@dataclass(slots=True, eq=False)
class Trace:
    """The steps of a trace by span id, and the conversation that it names."""

    trace_id: str
    steps: dict[str, TraceSpan] = field(default_factory=dict)
    conversation: str | None = None

    def of_kind(self, *kinds: str) -> list[TraceSpan]:
        return [step for step in self.steps.values() if step.kind in kinds]

    def above(self, span_id: str) -> Iterator[str]:
        """The span and all that it is part of, up to the root; a circle ends it."""
        passed: set[str] = set()
        outer: str | None = span_id
        while outer is not None and outer not in passed:
            passed.add(outer)
            yield outer
            step = self.steps.get(outer)
            outer = None if step is None else step.parent_id

    def around(self, span_id: str) -> list[str]:
        return [*islice(self.above(span_id), 1, None)]

    def is_inside(self, span_id: str, outer_ids: Container[str]) -> bool:
        return any(outer in outer_ids for outer in islice(self.above(span_id), 1, None))

    @property
    def question(self) -> str | None:
        """The question of the outermost span."""
        roots = [step.question for step in self.steps.values() if not step.parent_id]
        return next((question for question in roots if question is not None), None)


@dataclass
class Session:
    """One time that a question was asked: its calls and answers, each with when it began."""

    asked_at: float
    question: str | None
    conversation: str | None
    calls: list[tuple[float, Call]] = field(default_factory=list)
    answers: list[tuple[float, Columns]] = field(default_factory=list)

    @property
    def ordered_calls(self) -> list[Call]:
        return [call for _, call in sorted(self.calls, key=lambda timed: timed[0])]

    @property
    def text(self) -> str | None:
        """The question, where it is known; where a tool asked, an agent wrote the words."""
        queries = {call.query for _, call in self.calls}
        is_plain = len(queries) == 1 and not any(call.asked_by for _, call in self.calls)
        if is_plain and not self.question:
            return queries.pop() or None
        return self.question

    @property
    def context(self) -> Ranking | None:
        """The sources of the answers, each once, with texts also from the retrieval."""
        if not self.answers:
            return None
        scores: dict[str, float | None] = {}
        texts: dict[str, str] = {}
        for call in self.ordered_calls:
            texts |= dict(zip(call.ids, call.texts or (), strict=False))
        for _, answer in sorted(self.answers, key=lambda timed: timed[0]):
            for item, score in zip(answer.ids, answer.scores or [None] * len(answer.ids)):  # noqa: B905
                scores.setdefault(item, score)
            texts |= dict(zip(answer.ids, answer.texts or (), strict=False))
        has_scores = any(score is not None for score in scores.values())
        return Ranking(
            list(scores),
            list(scores.values()) if has_scores else None,
            [texts.get(item, "") for item in scores] if texts else None,
        )


class Owner(NamedTuple):
    """A question that a step is for, and the time of asking that it belongs to."""

    query_id: str
    key: tuple[str, str]
    question: str | None
    asked_at: float


class Sessions:
    """Collects spans into traces, and traces into the sessions of questions.

    Args:
        question_id: the attribute that names the question, if any.
        texts: the texts of questions, to the ids of the questions that have them.
    """

    def __init__(
        self, match_on: str, question_id: str | None, texts: Mapping[str, Sequence[str]]
    ) -> None:
        self.remarks: Counter[str] = Counter()
        self.left_out: set[str] = set()
        self.attributes: dict[str, None] = {}
        self.hint = self.example = ""
        self.n_spans = self.n_retrievals = 0
        self._reader = DocumentReader(match_on, self.remarks)
        self._question_id, self._texts = question_id, texts
        self._traces: dict[str, Trace] = {}
        self._sessions: dict[str, dict[tuple[str, str], Session]] = {}

    def add(self, span: TraceSpan) -> None:
        self.n_spans += 1
        trace = self._traces.setdefault(span.trace_id, Trace(span.trace_id))
        # exporters send again what they doubt has arrived
        if span.span_id and span.span_id in trace.steps:
            self.remarks[REPEATED] += 1
            return
        span.span_id = span.span_id or f"without an id {self.n_spans}"
        trace.steps[span.span_id] = span
        read_dialect(span)
        if self._question_id is not None:
            span.question_id = self._named(span, self._question_id)
        if trace.conversation is None and self._question_id not in CONVERSATIONS:
            names = [_tagged(span, name) for name in CONVERSATIONS]
            trace.conversation = next((str(name) for name in names if name not in (None, "")), None)
        if span.question is not None and comparable(span.question) in self._texts:
            span.asked = comparable(span.question)
        self.example = self.example or span.question or ""
        self._read_documents(span)
        span.attributes, span.events, span.documents = {}, (), None  # texts are most of a file

    def _read_documents(self, span: TraceSpan) -> None:
        documents = span.documents
        self.n_retrievals += span.kind == "retrieval"
        if documents is None:
            return
        if span.kind == "retrieval":
            span.retrieved = self._reader.read(documents, span.location)
        elif self._reader.have_ids(documents):
            retrieved = [document for document in documents if not is_written(document)]
            if span.kind == "reranking":
                retrieved = documents
            try:
                span.retrieved = self._reader.read(retrieved, span.location)
            except FileFormatError:
                if span.kind == "reranking":
                    raise
                # what the answer was made from isn't known then

    def _named(self, span: TraceSpan, name: str) -> str | None:
        if len(self.attributes) < 40:
            self.attributes.update(dict.fromkeys(span.attributes))
        value = _tagged(span, name)
        outer, _, inner = name.partition(".")
        if value is None and inner and outer in span.attributes:
            value = mapping(span.json(outer)).get(inner)
        metadata = span.attributes.get("metadata")
        if value is None and isinstance(metadata, str) and f'"{name}"' in metadata:
            self.hint = f"metadata.{name}"
        return None if value is None else read_id(value, span.location)

    def finish(self) -> dict[str, Session]:
        """Query id to the last session of each question whose retrievals are all known."""
        for trace in self._traces.values():
            _ask_agents(trace)
            self._add_trace(trace)
        self._traces.clear()
        sessions = {}
        for query_id, times in self._sessions.items():
            if query_id not in self.left_out:
                self.remarks[ASKED_AGAIN] += len(times) > 1
                ordered = sorted(times.values(), key=lambda session: session.asked_at)
                sessions[query_id] = ordered[-1]
        self.remarks[LEFT_OUT] = len(self.left_out)
        return sessions

    def notes(self) -> list[str]:
        return [f"{remark}: {self.remarks[remark]:,}" for remark in REMARKS if self.remarks[remark]]

    def _add_trace(self, trace: Trace) -> None:
        query_ids: set[str] = set()
        n_beside = 0
        for step, call in _calls(trace, self.remarks):
            owners = self._owners(trace, step)
            n_beside += not owners
            query_ids.update(owner.query_id for owner in owners)
            for owner in owners:
                if call is None:
                    self.left_out.add(owner.query_id)
                else:
                    self._session(owner, trace).calls.append((step.started, call))
        for step in _outermost_answers(trace):
            for owner in self._owners(trace, step):
                if owner.query_id in query_ids and step.retrieved is not None:
                    session = self._session(owner, trace)
                    session.answers.append((step.started, step.retrieved))
        has_retrievals = bool(trace.of_kind("retrieval"))
        self.remarks[UNKNOWN] += has_retrievals and not query_ids
        self.remarks[BESIDE] += n_beside if query_ids else 0
        self._add_silent(trace, query_ids)

    def _add_silent(self, trace: Trace, query_ids: set[str]) -> None:
        """Questions that were asked and for which nothing was retrieved."""
        if self._question_id is None and not self._texts:
            return
        asked_ids = {step.span_id for step in trace.steps.values() if step.asked is not None}
        for step in trace.steps.values():
            # a step alone, such as a synthesizer's, is no time of asking the question
            is_program = step.kind in ("answer", "agent")
            is_asked = is_program and not step.name.endswith("synthesize")
            is_outermost = not trace.is_inside(step.span_id, asked_ids)
            if self._question_id is None and not (is_asked and is_outermost and step.asked):
                continue
            if self._question_id is not None and step.question_id is None:
                continue
            for owner in self._owners(trace, step):
                if owner.query_id not in query_ids:
                    self._session(owner, trace)
                    query_ids.add(owner.query_id)

    def _session(self, owner: Owner, trace: Trace) -> Session:
        times = self._sessions.setdefault(owner.query_id, {})
        session = times.get(owner.key)
        if session is None:
            session = Session(owner.asked_at, owner.question, trace.conversation)
            times[owner.key] = session
        session.question = session.question or owner.question
        return session

    def _owners(self, trace: Trace, step: TraceSpan) -> list[Owner]:
        """The questions that a step is for: by an attribute, by their text, or by the trace."""
        steps = [trace.steps[name] for name in trace.above(step.span_id) if name in trace.steps]
        if self._question_id is not None:
            named = [outer for outer in steps if outer.question_id]
            # all that has the attribute is of one session, in however many traces
            return [
                Owner(str(outer.question_id), ("", ""), trace.question, outer.started)
                for outer in named[:1]
            ]
        if self._texts:
            with_question = [outer for outer in steps if outer.asked is not None]
            if not with_question:
                return []
            top, text = with_question[-1], str(with_question[-1].asked)
            key = trace.trace_id, top.span_id
            return [Owner(query_id, key, text, top.started) for query_id in self._texts[text]]
        return [Owner(trace.trace_id, (trace.trace_id, ""), trace.question, 0.0)]


def _tagged(span: TraceSpan, name: str) -> Any:
    value = span.attributes.get(name)
    if value is None:
        return span.attributes.get(_TAGS + name)
    return value


def _ask_agents(trace: Trace) -> None:
    """Give an agent without a question the only known one inside it."""
    agents = {step.span_id for step in trace.of_kind("agent")}
    for step in trace.steps.values():
        if step.parent_id is not None and step.name.endswith(".setup_agent"):
            agents.add(step.parent_id)
    inner: dict[str, list[TraceSpan]] = {}
    for step in trace.steps.values():
        if step.asked is not None:
            for outer in trace.above(step.span_id):
                if outer in agents:
                    inner.setdefault(outer, []).append(step)
    for agent, steps in inner.items():
        texts = {step.asked for step in steps}
        if len(texts) == 1 and agent in trace.steps and not trace.steps[agent].question:
            trace.steps[agent].asked = texts.pop()


def _outermost_answers(trace: Trace) -> list[TraceSpan]:
    answers = [step for step in trace.of_kind("answer", "agent") if step.retrieved is not None]
    inside = {step.span_id for step in answers + trace.of_kind("retrieval")}
    return [step for step in answers if not trace.is_inside(step.span_id, inside)]


def _calls(trace: Trace, remarks: Counter[str]) -> Iterator[tuple[TraceSpan, Call | None]]:
    """The outermost retrievals and their calls, None where what they returned isn't known."""
    retrievals = trace.of_kind("retrieval")
    answered_ids = {step.span_id for step in retrievals if step.is_answered}
    outermost = [step for step in retrievals if not trace.is_inside(step.span_id, answered_ids)]
    answered = [step for step in outermost if step.is_answered]
    covering = {outer for step in answered for outer in trace.around(step.span_id)}
    for step in outermost:
        if not step.is_answered and step.span_id not in covering:
            remarks[WITHOUT_DOCUMENTS] += 1
            yield step, None
    reranked = _reranked(trace, answered, answered_ids, remarks)
    for step in answered:
        yield step, _call(trace, step, reranked.get(step.span_id, []))


def _reranked(
    trace: Trace, answered: Sequence[TraceSpan], retrieval_ids: set[str], remarks: Counter[str]
) -> dict[str, list[TraceSpan]]:
    """Retrieval to its rerankings: subsets of its documents, after it, in the nearest span."""
    reranked: dict[str, list[TraceSpan]] = {}
    rerankings = [
        step
        for step in trace.of_kind("reranking")
        if not trace.is_inside(step.span_id, retrieval_ids)
    ]
    reranking_ids = {step.span_id for step in rerankings}
    with_documents = {step.span_id for step in rerankings if step.retrieved is not None}
    around_them = {outer for span_id in with_documents for outer in trace.above(span_id)}
    for step in sorted(rerankings, key=lambda step: step.started):
        around = trace.around(step.span_id)
        if step.retrieved is None:
            # a postprocessor calls others: of these, one with documents is enough
            is_alone = step.span_id not in around_them and reranking_ids.isdisjoint(around)
            remarks[RERANKINGS] += is_alone
        elif with_documents.isdisjoint(around):  # else the caller got what the outer one made of it
            fitting = _fitting(step, step.retrieved, answered)
            if not fitting:
                remarks[RERANKINGS] += 1
                continue
            common = [len({*trace.around(fit.span_id)} & {*around}) for fit in fitting]
            nearest = [fit for fit, n in zip(fitting, common, strict=True) if n == max(common)]
            last = max(nearest, key=lambda fit: fit.started)
            rivals = [fit for fit in nearest if fit is not last]
            remarks[UNCERTAIN] += any(fit.span_id not in reranked for fit in rivals)
            reranked.setdefault(last.span_id, []).append(step)
    return reranked


def _fitting(
    reranking: TraceSpan, documents: Columns, answered: Sequence[TraceSpan]
) -> list[TraceSpan]:
    ids = set(documents.ids)
    return [
        step
        for step in answered
        if step.retrieved is not None
        and step.started <= reranking.started
        and ids <= set(step.retrieved.ids)
    ]


def _call(trace: Trace, step: TraceSpan, rerankings: Sequence[TraceSpan]) -> Call:
    retrieved = step.retrieved
    if rerankings:
        retrieved = rerankings[-1].retrieved
    if step.retrieved and retrieved and step.retrieved.texts and retrieved.texts is None:
        texts = dict(zip(step.retrieved.ids, step.retrieved.texts, strict=True))
        retrieved = retrieved._replace(texts=[texts.get(item, "") for item in retrieved.ids])
    seconds = [part.seconds for part in (step, *rerankings)]
    tools = [
        trace.steps[outer].tool
        for outer in trace.around(step.span_id)
        if outer in trace.steps and trace.steps[outer].kind == "tool"
    ]
    columns: dict[str, Any] = {}
    if step.error is None and retrieved is not None:
        columns = retrieved._asdict()
    return Call(
        **columns,
        latency=None if None in seconds else sum(filter(None, seconds)),
        error=step.error,
        query=step.question or "",
        asked_by=next(iter(tools), ""),
    )
