"""Reading traces: the sessions and the run that their spans make."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from llama_index_rag_metrics.files.lines import Faults, OnError, name_of
from llama_index_rag_metrics.files.traces.containers import spans_in
from llama_index_rag_metrics.files.traces.span_collecting import SpanCollector, comparable
from llama_index_rag_metrics.files.traces.trace_sessions import (
    Remark,
    Remarks,
    TraceSession,
    rankings,
    sessions,
)
from llama_index_rag_metrics.files.traces.trace_spans import DocumentReader
from llama_index_rag_metrics.rankings.fusion import Combine, check_combine
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput
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
    combine: Combine = "first_seen",
    name: str = "",
    on_error: OnError = "raise",
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
            was asked several times, the last time counts. Without `question_id` and `questions`
            each trace is a question, and its id the trace's.
        match_on: which id of a document counts: "node_id", "ref_doc_id" or a key of its metadata.
        texts: whether the texts of documents are kept. Without them a run of millions of spans
            takes less memory.
        combine: what the ranking of a question is for which several calls were made; see
            `combine_calls`. "context" takes what the answer says that it was made from.
        name: what to call the run; by default the file's name.
        on_error: "raise" ends at the first line or span that can't be read; "skip" leaves such
            lines, and questions with such a span, out, warns of them, and lists them in the run's
            `skipped`.

    Returns:
        The run. `run.queries` has the texts of the questions, where they are known, and
        `run.notes` says how many retrievals couldn't be used, and why.

    Raises:
        FileFormatError: a line or a span can't be read; says where and why.
        FileNotFoundError: there is no such file.
        InvalidInput: an argument can't be used, no retrieval is of a known question, or
            `combine="context"` and no span says what an answer was made from.
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
    read = read_sessions(
        source,
        question_id=question_id,
        questions=questions,
        match_on=match_on,
        texts=texts,
        combine=combine,
        on_error=on_error,
    )
    is_path = isinstance(source, (str, os.PathLike))
    return read.run(name or (name_of(Path(source)) if is_path else ""))


class ReadSessions(NamedTuple):
    """Sessions, rankings and known texts by query id, with errors skipped and remarks."""

    sessions: Mapping[str, TraceSession]
    rankings: Mapping[str, Ranking]
    queries: Mapping[str, str]
    skipped: Sequence[FileFormatError]
    notes: Sequence[str]

    def run(self, name: str) -> Run:
        return Run(
            self.rankings, name=name, skipped=self.skipped, queries=self.queries, notes=self.notes
        )


def read_sessions(
    source: Any,
    *,
    question_id: str | None,
    questions: Questions | None,
    match_on: str,
    texts: bool = True,
    combine: Combine = "first_seen",
    on_error: OnError = "raise",
) -> ReadSessions:
    check_combine(combine)
    if question_id is not None and (not isinstance(question_id, str) or not question_id):
        raise InvalidInput("question_id", question_id, "the name of an attribute")
    known = _queries(questions)
    by_text: dict[str, list[str]] = {}
    for query_id, text in known.items():
        by_text.setdefault(comparable(text), []).append(query_id)
    faults, columns, remarks = Faults(on_error), DocumentReader(match_on, texts=texts), Remarks()
    collector = SpanCollector(columns, question_id, by_text, faults)
    with collection_paused():  # parsed JSON has no cycles; looking for them took half the time
        for span in spans_in(source, faults):
            collector.add(span)
        n_retrievals = sum(len(trace.retrievals) for trace in collector.traces.values())
        made = sessions(
            collector.traces, by_text, by_attribute=question_id is not None, remarks=remarks
        )
        combined = rankings(made, combine)
    remarks.add(Remark.NAMELESS, columns.nameless)
    remarks.add(Remark.REPEATED, collector.n_repeated)
    if n_retrievals and not made and not remarks.left_out:
        raise _no_question(question_id, known, collector)
    faults.warn()
    asked = ((key, known.get(key) or session.question) for key, session in made.items())
    queries = {query_id: text for query_id, text in asked if text}
    nothing = [] if n_retrievals else [f"none of {collector.n_spans:,} spans is a retrieval"]
    return ReadSessions(made, combined, queries, faults.skipped, remarks.notes() or nothing)


def _queries(questions: Questions | None) -> Mapping[str, str]:
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
