"""Reading traces: which container a source is, and the run that its spans make."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from pydantic_core import from_json as parse_json

from llama_index_rag_metrics.errors import FileFormatError, InvalidInput, UnknownFormat
from llama_index_rag_metrics.formats.frame import frame_table, is_frame, records_of
from llama_index_rag_metrics.formats.lines import (
    Faults,
    OnError,
    Place,
    from_json,
    raw_lines,
    read_text,
)
from llama_index_rag_metrics.formats.traces.collecting import Collector
from llama_index_rag_metrics.formats.traces.documents import Columns
from llama_index_rag_metrics.formats.traces.mlflow import (
    MLflowSpan,
    about_trace,
    is_trace,
    raw_trace_spans,
)
from llama_index_rag_metrics.formats.traces.otlp import RESOURCES, OtlpSpan, raw_spans
from llama_index_rag_metrics.formats.traces.phoenix import (
    PhoenixSpan,
    is_span,
    is_span_frame,
    without_copied_index,
)
from llama_index_rag_metrics.formats.traces.sessions import Remarks, rankings, sessions
from llama_index_rag_metrics.formats.traces.spans import TraceSpan
from llama_index_rag_metrics.run import Run

UNDERSTOOD = (
    "OTLP/JSON, an object with resourceSpans a line or a file, plain or .gz",
    "MLflow traces: what mlflow.search_traces returns, or their JSON, one a line or a list",
    "spans of Phoenix: the data frame of its client's get_spans_dataframe, or records in JSON",
)


_HEAD = 4096
"""Bytes at the beginning of a file that tell what it is."""


class HasQueries(Protocol):
    """What has the questions by id, such as a `RetrievalDataset`."""

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
    name: str = "",
    on_error: OnError = "raise",
) -> Run:
    """Read what was retrieved from the traces of a program, in production or in a test.

    Every outermost retrieval span is a call; what a fusion retriever asks of its members is part of
    it, and a reranking that follows replaces its documents. The calls of a question, in the order
    in which they began, are its session: `run[query_id].calls`. Where every question was retrieved
    for once, in its own words, the rankings are plain ones.

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
        name: what to call the run; by default the file's name.
        on_error: "raise" ends at the first line or span that can't be read; "skip" leaves such
            lines, and questions with such a span, out, warns of them, and lists them in the run's
            `skipped`.

    Returns:
        The run. `run.queries` has the texts of the questions, and `run.notes` says how many
        retrievals couldn't be used, and why.

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
    if question_id is not None and (not isinstance(question_id, str) or not question_id):
        raise InvalidInput("question_id", question_id, "the name of an attribute")
    known = _queries(questions)
    by_text: dict[str, list[str]] = {}
    for query_id, text in known.items():
        by_text.setdefault(text.strip(), []).append(query_id)
    faults, columns = Faults(on_error), Columns(match_on, texts=texts)
    collector = Collector(columns, question_id, by_text, faults)
    remarks = Remarks()
    with collection_paused():
        for span in _spans(source, faults):
            collector.add(span)
        n_retrievals = sum(len(one.retrievals) for one in collector.traces.values())
        made = sessions(
            collector.traces, by_text, by_attribute=question_id is not None, remarks=remarks
        )
        found = rankings(made)
    remarks.nameless = columns.nameless
    if n_retrievals and not made and not remarks.left_out:
        raise _no_question(question_id, known, collector)
    faults.warn()
    texts_asked = {one: known.get(one) or made[one].question for one in made}
    return Run(
        found,
        name=name or _name(source),
        skipped=faults.skipped,
        queries={one: text for one, text in texts_asked.items() if text},
        notes=remarks.notes() or _nothing_found(collector.n_spans, n_retrievals),
    )


def is_trace_file(path: Path) -> bool:
    """Whether a file of JSON begins as one of traces does."""
    head = b""
    try:
        for _, line in _filled(path):
            head += line[: _HEAD - len(head)]
            if len(head) == _HEAD:
                break
    except FileFormatError:
        return False
    return (
        any(f'"{one}"'.encode() in head for one in RESOURCES)
        or (b'"info"' in head and b'"trace_id"' in head)
        or (b'"context"' in head and b'"trace_id"' in head)
    )


def _spans(source: Any, faults: Faults) -> Iterator[TraceSpan]:
    if isinstance(source, (str, os.PathLike)):
        yield from _of_file(Path(source), faults)
    elif is_frame(source):
        names, rows = frame_table(without_copied_index(source))
        if is_span_frame(names):
            records = ((record, place) for place, record in records_of(names, rows))
            yield from _made(PhoenixSpan, records, faults)
        elif "trace" in names:
            column = names.index("trace")
            for place, row in rows:
                yield from _of_value(row[column], place, faults)
        else:
            raise UnknownFormat("the data frame", f"it has {names[:8]}", UNDERSTOOD, "traces")
    elif isinstance(source, Iterable):
        place = Place(f"this {type(source).__name__}")
        items = [source] if isinstance(source, Mapping) else source
        for number, one in enumerate(items, 1):
            yield from _of_value(one, place.item(number), faults)
    else:
        what = f"this {type(source).__name__}"
        raise UnknownFormat(what, "it is nothing of these", UNDERSTOOD, "traces")


def _of_file(path: Path, faults: Faults) -> Iterator[TraceSpan]:
    """The spans of a file of lines; or of a whole one, whose first line isn't JSON by itself."""
    if path.is_dir():
        raise UnknownFormat(str(path), "it is a folder", UNDERSTOOD, "traces")
    name, is_first = str(path), True
    for number, line in _filled(path):
        place = Place(name, number)
        try:
            data = _parsed(line, place)
        except FileFormatError as error:
            if is_first and line.rstrip()[-1:] in (b"{", b"[", b","):
                whole = Place(name)
                yield from _of_value(from_json(read_text(path), whole), whole, faults)
                return
            faults.take(error)
        else:
            yield from _of_value(data, place, faults)
        is_first = False


def _of_value(data: Any, place: Place, faults: Faults) -> Iterator[TraceSpan]:
    """The spans of a parsed line, of a whole file, or of an object of MLflow."""
    if isinstance(data, str) and data[:1] == "{":  # MLflow's frames hold traces as JSON
        data = from_json(data, place)
    if hasattr(data, "to_dict") and hasattr(data, "info"):
        data = data.to_dict()
    if isinstance(data, list):
        for number, one in enumerate(data, 1):
            yield from _of_value(one, place.item(number), faults)
    elif isinstance(data, Mapping) and any(one in data for one in RESOURCES):
        yield from _made(OtlpSpan, raw_spans(data, place), faults)
    elif is_trace(data):
        about = about_trace(data)
        yield from _made(partial(MLflowSpan, about=about), raw_trace_spans(data, place), faults)
    elif is_span(data):
        yield from _made(PhoenixSpan, [(data, place)], faults)
    else:
        faults.take(place.wrong(f"one of: {'; '.join(UNDERSTOOD)}", data))


def _made(
    kind: Callable[[Any, Place], TraceSpan], raw: Iterable[tuple[Any, Place]], faults: Faults
) -> Iterator[TraceSpan]:
    """Spans of what a container holds; what can't be read is taken as a fault."""
    left = iter(raw)
    while True:
        try:
            span = kind(*next(left))
        except StopIteration:
            return
        except FileFormatError as error:
            faults.take(error)
        else:
            yield span


def _parsed(line: bytes, place: Place) -> Any:
    """The value of a line of JSON; half a surrogate pair in it is no fault."""
    try:
        return parse_json(line)
    except ValueError:
        try:
            return from_json(line.decode(), place)
        except UnicodeDecodeError as error:
            raise place.wrong("UTF-8 text", str(error)) from error


def _filled(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that aren't blank."""
    return ((number, line) for number, line in raw_lines(path) if not line.isspace())


def _queries(questions: Questions | None) -> Mapping[str, str]:
    found = questions if questions is None else getattr(questions, "queries", questions)
    if found is None:
        return {}
    is_texts = isinstance(found, Mapping) and all(isinstance(one, str) for one in found.values())
    if not is_texts:
        raise InvalidInput("questions", questions, "a dataset, or a mapping of query id to text")
    return cast(Mapping[str, str], found)


def _no_question(
    question_id: str | None, known: Mapping[str, str], collector: Collector
) -> InvalidInput:
    if question_id is not None:
        wish = f"an attribute of the spans, which have {', '.join(sorted(collector.attributes))}"
        return InvalidInput("question_id", question_id, wish)
    remedy = f"Among those asked is {collector.example!r}." if collector.example else ""
    wish = "texts of questions as they were asked"
    return InvalidInput("questions", next(iter(known.values()), ""), wish, remedy)


def _nothing_found(n_spans: int, n_retrievals: int) -> list[str]:
    return [] if n_retrievals else [f"none of {n_spans:,} spans is a retrieval"]


@contextmanager
def collection_paused() -> Iterator[None]:
    """Without Python's search for cycles: parsed JSON has none, and it would take half the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _name(source: Any) -> str:
    return Path(source).name.split(".")[0] if isinstance(source, (str, os.PathLike)) else ""
