"""Reading traces: the sessions and the run that their spans make."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from llama_index_rag_metrics.files.conversations import CONVERSATION, HISTORY
from llama_index_rag_metrics.files.lines import name_of
from llama_index_rag_metrics.files.records import comparable
from llama_index_rag_metrics.files.traces.trace_sessions import Session, Sessions
from llama_index_rag_metrics.files.traces.trace_spans import spans_in
from llama_index_rag_metrics.rankings.run import Ranking, Run, combine_calls
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.lazy import collection_paused


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
    name: str = "",
) -> Run:
    """Read what was retrieved from the traces of a program, in production or in a test.

    Every outermost retrieval span is a call; what a fusion retriever asks of its members is part of
    it, and a reranking that follows replaces its documents. The calls of a question, in the order
    in which they began, are its session: `run[query_id].calls`. If every question has one
    retrieval, in its own words, the rankings are plain ones.

    Spans are recognised by the attributes of OpenInference, of OpenTelemetry's `gen_ai.retrieval`
    and of MLflow, and by the events of `llama-index-observability-otel`.

    Args:
        source: a path to OTLP/JSON, to what ConsoleSpanExporter prints, to MLflow's traces as JSON
            or to Phoenix's spans as JSON or Parquet; or in memory what `mlflow.search_traces()` or
            Phoenix's `get_spans_dataframe()` returns.
        question_id: the attribute that holds the id of the question, on the retrieval's span or on
            one that it is part of: "question_id" (also of `instrument_tags`, which LlamaIndex's
            exporter writes as "llamaindex.question_id"), "session.id", or "metadata.question_id"
            for a key of a JSON attribute. Calls with the same id are one session, in whatever
            traces they are.
        questions: the questions by id, or a dataset: then a question is known by its text. If it
            was asked several times, the last time counts. Without `question_id` and `questions`
            each trace is a question, and its id the trace's.
        match_on: which id of a document counts: "node_id", "ref_doc_id" or a key of its metadata.
        name: what to call the run; by default the file's name.

    Returns:
        The run. `run.is_log` says that it holds what was asked, so that labelled questions that
        nobody asked aren't scored. `run.queries` has the texts of the questions, where they are
        known, `run.metadata` the conversation of each, where the spans or the dataset name one, and
        `run.notes` says how many retrievals couldn't be used, and why.

    Raises:
        FileFormatError: a line or a span can't be read; says where and why.
        FileNotFoundError: there is no such file.
        InvalidInput: an argument can't be used, or no retrieval is of a known question.
        FileFormatError: the source holds no traces in a form that is understood.

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
    if question_id is not None and (not isinstance(question_id, str) or not question_id):
        raise InvalidInput("question_id", question_id, "the name of an attribute")
    texts = _question_texts(questions)
    collected = Sessions(match_on, question_id, _queries_by_text(texts))
    with collection_paused():  # parsed JSON has no cycles; looking for them took half the time
        for span in spans_in(source):
            collected.add(span)
        sessions = collected.finish()
    if collected.n_retrievals and not sessions and not collected.left_out:
        raise _no_question(question_id, texts, collected)
    queries = {key: texts.get(key) or session.text for key, session in sessions.items()}
    notes = collected.notes()
    if not notes and not collected.n_retrievals:
        notes = [f"none of {collected.n_spans:,} spans is a retrieval"]
    if isinstance(source, (str, os.PathLike)):
        name = name or name_of(Path(source))
    run = Run(
        _rankings(sessions),
        name=name,
        queries={query_id: text for query_id, text in queries.items() if text},
        metadata=_metadata(getattr(questions, "metadata", {}), sessions),
        notes=notes,
    )
    run.is_log = True
    return run


def _rankings(sessions: Mapping[str, Session]) -> dict[str, Ranking]:
    """Rankings by query id; without calls if every question has exactly one retrieval."""
    calls = {query_id: session.ordered_calls for query_id, session in sessions.items()}
    is_plain = all(
        len(calls[query_id]) == 1 and calls[query_id][0].query in ("", session.text or "")
        for query_id, session in sessions.items()
    )
    rankings = {}
    for query_id, session in sessions.items():
        context, ordered = session.context, calls[query_id]
        if is_plain:
            rankings[query_id] = replace(ordered[0].ranking, context=context)
        elif ordered and all(call.error is not None for call in ordered):
            rankings[query_id] = Ranking(error=ordered[-1].error, calls=tuple(ordered))
        else:
            rankings[query_id] = combine_calls(
                ordered, context if ordered or context else Ranking()
            )
    return rankings


def _metadata(
    of_dataset: Mapping[str, Mapping[str, Any]], sessions: Mapping[str, Session]
) -> dict[str, Mapping[str, Any]]:
    """The dataset's metadata; where it names no conversation, with that of the traces."""
    rows = dict(of_dataset)
    for query_id, session in sessions.items():
        row = rows.get(query_id, {})
        if session.conversation is not None and not row.keys() & {CONVERSATION, HISTORY}:
            rows[query_id] = {CONVERSATION: session.conversation, **row}
    return rows


def _queries_by_text(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """The ids of the questions that have a text, as `comparable` makes it."""
    by_text: dict[str, list[str]] = {}
    for query_id, text in texts.items():
        by_text.setdefault(comparable(text), []).append(query_id)
    return by_text


def _question_texts(questions: Questions | None) -> Mapping[str, str]:
    texts: Any = {} if questions is None else getattr(questions, "queries", questions)
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts.values()):
        raise InvalidInput("questions", questions, "a dataset, or a mapping of query id to text")
    return texts


def _no_question(
    question_id: str | None, texts: Mapping[str, str], collected: Sessions
) -> InvalidInput:
    if question_id is not None:
        expected = (
            f"an attribute of the spans, which have {', '.join(sorted(collected.attributes))}"
        )
        remedy = ""
        if collected.hint:
            remedy = f"It is in the JSON of metadata: write question_id={collected.hint!r}."
        return InvalidInput("question_id", question_id, expected, remedy)
    remedy = f"Among those asked is {collected.example!r}." if collected.example else ""
    expected = "texts of questions as they were asked"
    return InvalidInput("questions", next(iter(texts.values()), ""), expected, remedy)
