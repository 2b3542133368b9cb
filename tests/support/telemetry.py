"""Spans by hand, and files that real exporters write."""

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]


def any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": attributes(value)}}
    return {"stringValue": value}


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in values.items()]


def span(
    span_id: str,
    parent: str | None = None,
    *,
    trace: str = "t1",
    begin: float = 0.0,
    seconds: float = 0.5,
    error: str | None = None,
    **values: Any,
) -> dict[str, Any]:
    """A span of OTLP/JSON; in the names of attributes __ stands for a dot."""
    made = {
        "traceId": trace,
        "spanId": span_id,
        "name": span_id,
        "startTimeUnixNano": str(round(begin * 1e9)),
        "endTimeUnixNano": str(round((begin + seconds) * 1e9)),
        "attributes": attributes({key.replace("__", "."): value for key, value in values.items()}),
    }
    if parent is not None:
        made["parentSpanId"] = parent
    if error is not None:
        made["status"] = {"code": 2, "message": error}  # type: ignore[assignment]
    return made


def retrieval(
    span_id: str,
    query: str,
    ids: Sequence[str],
    parent: str | None = None,
    *,
    kind: str = "RETRIEVER",
    **further: Any,
) -> dict[str, Any]:
    """A retrieval, or a reranking, with OpenInference's attributes; scores 1, 1/2, 1/3, …"""
    prefix = "retrieval.documents" if kind == "RETRIEVER" else "reranker.output_documents"
    documents: dict[str, Any] = {}
    for index, item in enumerate(ids):
        documents[f"{prefix}.{index}.document.id"] = item
        documents[f"{prefix}.{index}.document.score"] = 1 / (index + 1)
        documents[f"{prefix}.{index}.document.content"] = f"text of {item}"
    if not ids:
        documents["output.value"] = "[]"
    known = {"openinference.span.kind": kind, "input.value": query, **documents}
    return span(span_id, parent, **known, **further)


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def write_lines(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def file_exporter(path: Path) -> Any:
    """An exporter that writes a request a line as OTLP/JSON, as the Collector's does."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class FileExporter(SpanExporter):
        def export(self, spans: Any) -> Any:
            data = MessageToDict(encode_spans(spans))
            for resource in data["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    for exported in scope["spans"]:
                        for key in ("traceId", "spanId", "parentSpanId"):
                            if key in exported:  # hexadecimal in OTLP/JSON, unlike other bytes
                                exported[key] = base64.b64decode(exported[key]).hex()
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(data) + "\n")
            return SpanExportResult.SUCCESS

    return FileExporter()


def openinference(path: Path) -> AbstractContextManager[None]:
    """What runs inside is recorded by openinference-instrumentation-llama-index, in a file."""
    return sent_by_openinference(file_exporter(path))


@contextmanager
def sent_by_openinference(exporter: Any) -> Iterator[None]:
    """What runs inside is recorded by openinference-instrumentation-llama-index."""
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    instrumentor = LlamaIndexInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        yield
    finally:
        instrumentor.uninstrument()
        provider.shutdown()


@contextmanager
def llamaindex_otel(path: Path) -> Iterator[None]:
    """What runs inside is recorded by llama-index-observability-otel."""
    from llama_index.observability.otel import LlamaIndexOpenTelemetry
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider()
    with _handlers_put_back():
        recorder = LlamaIndexOpenTelemetry(
            span_exporter=file_exporter(path), span_processor="batch", tracer_provider=provider
        )
        recorder._start_otel()
        # the global provider is set once a process: each recording has its own tracer
        recorder._tracer = provider.get_tracer("llamaindex.opentelemetry.tracer")
        vars(recorder)["_start_otel"] = lambda: None
        recorder.start_registering()
        try:
            yield
        finally:
            provider.shutdown()


@contextmanager
def _handlers_put_back() -> Iterator[None]:
    dispatcher = get_dispatcher()
    spans, events = list(dispatcher.span_handlers), list(dispatcher.event_handlers)
    try:
        yield
    finally:
        dispatcher.span_handlers, dispatcher.event_handlers = spans, events


def mlflow_store(folder: Path) -> None:
    """Let MLflow keep everything in a folder."""
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    made = mlflow.create_experiment("traces", artifact_location=str(folder / "artifacts"))
    mlflow.set_experiment(experiment_id=made)
