"""OpenInference: attributes such as `retrieval.documents.0.document.id`, flattened or nested."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from llama_index_rag_metrics.files.traces.span_dialect import (
    Dialect,
    Documented,
    Kind,
    kind_named,
    question_in,
    source_nodes,
)
from llama_index_rag_metrics.files.traces.trace_documents import Document
from llama_index_rag_metrics.files.traces.trace_spans import DROPPED, TraceSpan, json_or_none

_KIND = "openinference.span.kind"
_DOCUMENTS = {"retrieval": "retrieval.documents", "reranking": "reranker.output_documents"}
_NODE = re.compile(r"<NodeWithScore\(node=\w+\(id_=(?P<id>.*)\), score=(?P<score>.*)\)>", re.DOTALL)
"""How nodes stand in the outputs of spans that aren't a retriever's: by id and score alone."""

_FIELDS = ("id", "content", "score", "metadata")
_ABSENT = [None] * len(_FIELDS)


class OpenInference(Dialect):
    """What `openinference-instrumentation-…` and Phoenix record."""

    name = "OpenInference"

    def kind(self, span: TraceSpan) -> Kind | None:
        kind = span.text(_KIND)
        if kind is None:
            return None
        return kind_named(kind, span)

    def question(self, span: TraceSpan) -> str | None:
        value = span.get("input.value")
        if span.get("input.mime_type") == "application/json":
            value = json_or_none(value)
        return question_in(value)

    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        if kind == "answer":
            return _of_nodes(source_nodes(span.get("output.value")))
        prefix = _DOCUMENTS[kind]
        nested = span.get(prefix)
        documents = _flattened(span, prefix) if nested is None else list(_nested(nested, span))
        if documents:
            return documents
        output = span.get("output.value")
        if _is_empty(output) or nested is not None:
            return []
        return _of_nodes(json_or_none(output)) if kind == "reranking" else None

    def tool(self, span: TraceSpan) -> str:
        return str(span.get("tool.name") or "")


def _flattened(span: TraceSpan, prefix: str) -> list[Document]:
    """Documents at indices from 0 on; each has at least one of the fields."""
    fields = span.under(prefix)
    documents: list[Document] = []
    while n_left := len(fields):
        document = Document(*map(fields.pop, _keys(prefix, len(documents)), _ABSENT))
        if len(fields) == n_left:
            # past a gap there are only documents whose predecessors are lost
            for key in fields:
                if _index(key, prefix) >= len(documents):
                    raise span.place.wrong(f"every document from {prefix}.0 on; {DROPPED}", key)
            break
        documents.append(document)
    return documents


def _nested(documents: Any, span: TraceSpan) -> Iterator[Document]:
    """Documents in a list, as Phoenix's data frames have them."""
    documents = documents.tolist() if hasattr(documents, "tolist") else documents
    if not isinstance(documents, (list, tuple)):
        raise span.place.wrong("a list of documents", documents)
    for document in documents:
        if not isinstance(document, Mapping):
            raise span.place.wrong("a document", document)
        inner = document.get("document")
        fields = inner if isinstance(inner, Mapping) else document
        yield Document(*(fields.get(f"document.{name}", fields.get(name)) for name in _FIELDS))


@cache
def _keys(prefix: str, index: int) -> tuple[str, ...]:
    """The names of the attributes of a document; made once, since there are many documents."""
    return tuple(f"{prefix}.{index}.document.{field}" for field in _FIELDS)


def _of_nodes(nodes: Any) -> list[Document] | None:
    """Documents of nodes that are told by id and score; None where they are told otherwise."""
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        return None
    documents = []
    for node in nodes:
        match = _NODE.fullmatch(node)
        if match is None:
            return None
        score = json_or_none(match["score"])  # "None", or a number
        documents.append(Document(match["id"], None, score))
    return documents


def _index(key: str, prefix: str) -> int:
    number = key[len(prefix) + 1 :].partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 9 else -1


def _is_empty(output: Any) -> bool:
    """Whether an output says that nothing was found, as LlamaIndex's and LangChain's do."""
    return isinstance(output, str) and output.replace(" ", "") in ("[]", '{"documents":[]}')
