"""Reading traces: the sessions and the run that their spans make."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, get_args

from llama_index_rag_metrics.files.conversations import CONVERSATION, HISTORY, with_turns
from llama_index_rag_metrics.files.lines import name_of
from llama_index_rag_metrics.files.traces.containers import spans_in
from llama_index_rag_metrics.files.traces.trace_sessions import (
    Remark,
    Remarks,
    Repeats,
    SpanCollector,
    TraceSession,
    comparable,
    conversations,
    rankings,
    sessions,
)
from llama_index_rag_metrics.files.traces.trace_spans import DocumentReader
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.runtime.amounts import check_choice
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.garbage import collection_paused


class HasQueries(Protocol):
    @property
    def queries(self) -> Mapping[str, str]: ...


Questions: TypeAlias = "Mapping[str, str] | HasQueries"


def read_traces(
    source: Any,
    *,
    question_id: str | None = None,
    questions: Questions | None = None,
    match_on: str = "node_id",
    texts: bool = True,
    repeats: Repeats = "last",
    name: str = "",
) -> Run:
    """Read what was retrieved from the traces of a program, in production or in a test.

    Every outermost retrieval span is a call; what a fusion retriever asks of its members is part of
    it, and a reranking that follows replaces its documents. The calls of a question, in the order
    in which they began, are its session: `run[query_id].calls`. If every question has one
    retrieval, in its own words, the rankings are plain ones.

    Spans are recognised by the attributes of OpenInference, of OpenTelemetry's `gen_ai.retrieval`
    and of MLflow, and by the events of `llama-index-observability-otel`. Files are streamed.

    Args:
        source: a path to OTLP/JSON, to MLflow's traces as JSON or to Phoenix's spans as JSON; or
            in memory what `mlflow.search_traces()` or Phoenix's `get_spans_dataframe()` returns.
        question_id: the attribute that holds the id of the question, on the retrieval's span or on
            one that it is part of: "question_id" (also of `instrument_tags`, which LlamaIndex's
            exporter writes as "llamaindex.question_id"), "session.id", or "metadata.question_id"
            for a key of a JSON attribute. Calls with the same id are one session, in whatever
            traces they are.
        questions: the questions by id, or a dataset: then a question is known by its text. If it
            was asked several times, the last time counts; see `repeats`. Without `question_id` and
            `questions` each trace is a question, and its id the trace's.
        match_on: which id of a document counts: "node_id", "ref_doc_id" or a key of its metadata.
        texts: whether the texts of documents are kept. Without them a run of millions of spans
            takes less memory.
        repeats: what to make of a question that was asked several times: "last" takes the last
            session, "keep" all, as `run.repeats`. With `question_id` each trace is then a session.
        name: what to call the run; by default the file's name.

    Returns:
        The run. `run.queries` has the texts of the questions, where they are known,
        `run.metadata` the conversation and the turn of each one, where the spans name a session or
        the dataset does, and `run.notes` says how many retrievals couldn't be used, and why.

    Raises:
        FileFormatError: a line or a span can't be read; says where and why.
        FileNotFoundError: there is no such file.
        InvalidInput: an argument can't be used, or no retrieval is of a known question.
        UnknownFormat: the source holds no traces in a form that is understood.

    Examples:
        >>> import json, tempfile
        >>> def attribute(key, value):
        ...     return {"key": key, "value": {"stringValue": value}}
        >>> span = {
        ...     "traceId": "t1",
        ...     "spanId": "s1",
        ...     "attributes": [
        ...         attribute("openinference.span.kind", "RETRIEVER"),
        ...         attribute("input.value", "Who wrote Hamlet?"),
        ...         attribute("retrieval.documents.0.document.id", "d3"),
        ...     ],
        ... }
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "traces.jsonl")
        ...     line = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        ...     _ = path.write_text(json.dumps(line))
        ...     run = read_traces(path, questions={"q1": "Who wrote Hamlet?"})
        >>> run["q1"].ids, run.queries
        (['d3'], {'q1': 'Who wrote Hamlet?'})
    """
    return read_sessions(source, question_id, questions, match_on, texts, repeats, name).run


_ALL_APART = (
    'each trace is a question of its own, of which repeats="keep" finds no second run: '
    "question_id= or questions= says which traces ask the same"
)


class ReadSessions(NamedTuple):
    """The run, and query id to its session, for each time of asking."""

    run: Run
    times: Sequence[Mapping[str, TraceSession]]


def read_sessions(
    source: Any,
    question_id: str | None,
    questions: Questions | None,
    match_on: str,
    texts: bool = True,
    repeats: Repeats = "last",
    name: str = "",
) -> ReadSessions:
    check_choice("repeats", repeats, get_args(Repeats))
    if question_id is not None and (not isinstance(question_id, str) or not question_id):
        raise InvalidInput("question_id", question_id, "the name of an attribute")
    known = question_texts(questions)
    by_text = queries_by_text(known)
    columns, remarks = DocumentReader(match_on, texts=texts), Remarks()
    collector = SpanCollector(columns, question_id, by_text)
    with collection_paused():  # parsed JSON has no cycles; looking for them took half the time
        for span in spans_in(source):
            collector.add(span)
        n_retrievals = sum(len(trace.retrievals) for trace in collector.traces.values())
        of_times = sessions(
            collector.traces,
            by_text,
            by_attribute=question_id is not None,
            remarks=remarks,
            repeats=repeats,
        )
        by_time = rankings(of_times)
    made = of_times[0]
    remarks[Remark.NAMELESS] += columns.nameless
    remarks[Remark.REPEATED] += collector.n_repeated
    if n_retrievals and not made and not remarks.left_out:
        raise _no_question(question_id, known, collector)
    asked = ((key, known.get(key) or session.question) for key, session in made.items())
    queries = {query_id: text for query_id, text in asked if text}
    nothing = [] if n_retrievals else [f"none of {collector.n_spans:,} spans is a retrieval"]
    metadata = _with_conversations(getattr(questions, "metadata", {}), conversations(of_times))
    if isinstance(source, (str, os.PathLike)):
        name = name or name_of(Path(source))
    about: Any = {"name": name, "queries": queries, "metadata": metadata}
    again = [Run(each, **about) for each in by_time] if len(by_time) > 1 else ()
    apart = [] if repeats == "last" or question_id or known else [_ALL_APART]
    about |= {"notes": [*(remarks.notes() or nothing), *apart]}
    return ReadSessions(Run(by_time[0], **about, repeats=again), of_times)


def _with_conversations(
    known: Mapping[str, Mapping[str, Any]], asked: Mapping[str, str]
) -> dict[str, Mapping[str, Any]]:
    """The dataset's metadata; where they name no conversation, with that of the traces."""
    of_traces = {key: {CONVERSATION: name} for key, name in asked.items()}
    turns = with_turns(dict.fromkeys(asked, ""), of_traces)
    rows = dict(known)
    for query_id, turn in turns.items():
        row = rows.get(query_id, {})
        if not row.keys() & {CONVERSATION, HISTORY}:
            rows[query_id] = {**turn, **row}
    return rows


def queries_by_text(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """The ids of the questions that have a text, as `comparable` makes it."""
    by_text: dict[str, list[str]] = {}
    for query_id, text in texts.items():
        by_text.setdefault(comparable(text), []).append(query_id)
    return by_text


def question_texts(questions: Questions | None) -> Mapping[str, str]:
    texts: Any = {} if questions is None else getattr(questions, "queries", questions)
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts.values()):
        raise InvalidInput("questions", questions, "a dataset, or a mapping of query id to text")
    return texts


def _no_question(
    question_id: str | None, known: Mapping[str, str], collector: SpanCollector
) -> InvalidInput:
    if question_id is not None:
        held = ", ".join(sorted(collector.attributes))
        expected = f"an attribute of the spans, which have {held}"
        return InvalidInput("question_id", question_id, expected)
    remedy = f"Among those asked is {collector.example!r}." if collector.example else ""
    expected = "texts of questions as they were asked"
    return InvalidInput("questions", next(iter(known.values()), ""), expected, remedy)
