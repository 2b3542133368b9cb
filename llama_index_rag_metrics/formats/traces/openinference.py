"""OpenInference: attributes such as `retrieval.documents.0.document.id`, flattened or nested."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from llama_index_rag_metrics.errors import FileFormatError
from llama_index_rag_metrics.formats.traces.dialects import (
    Dialect,
    Documented,
    Kind,
    kind_named,
    question_in,
    source_nodes,
)
from llama_index_rag_metrics.formats.traces.documents import Document, Documents
from llama_index_rag_metrics.formats.traces.spans import DROPPED, TraceSpan, json_or_none

_KIND = "openinference.span.kind"
_DOCUMENTS = {"retrieval": "retrieval.documents", "reranking": "reranker.output_documents"}
_NODE = re.compile(r"<NodeWithScore\(node=\w+\(id_=(?P<id>.*)\), score=(?P<score>.*)\)>", re.DOTALL)
"""How nodes stand in the outputs of spans that aren't a retriever's: by id and score alone."""

_FIELDS = ("id", "content", "score", "metadata")


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

    def documents(self, span: TraceSpan, kind: Documented) -> Documents | None:
        if kind == "answer":
            return _of_nodes(source_nodes(span.get("output.value")))
        prefix = _DOCUMENTS[kind]
        nested = span.get(prefix)
        found = _flattened(span, prefix) if nested is None else Documents.of(_nested(nested, span))
        if found:
            return found
        output = span.get("output.value")
        if _is_empty(output) or nested is not None:
            return Documents()
        return _of_nodes(json_or_none(output)) if kind == "reranking" else None

    def tool(self, span: TraceSpan) -> str:
        return str(span.get("tool.name") or "")


def _flattened(span: TraceSpan, prefix: str) -> Documents:
    """Documents at indices from 0 on; each has at least one of the fields."""
    left = [key for key in span.attributes if key.startswith(prefix)]
    if not left:
        return Documents()
    try:
        return _alike(span, prefix, len(left))
    except (KeyError, FileFormatError):
        return Documents.of(_unlike(span, prefix, left))


def _alike(span: TraceSpan, prefix: str, n_left: int) -> Documents:
    """Documents of which all have the fields that the first has, and nothing else: whole columns.

    Raises:
        KeyError: they aren't such.
        FileFormatError: an attribute can't be read.
    """
    n_fields = sum(map(span.attributes.__contains__, _keys(prefix, 0)))
    n, n_odd = divmod(n_left, n_fields or n_left + 1)
    if n_odd:
        raise KeyError(prefix)
    nothing = [None] * n
    ids, texts, scores, metadata = (
        span.values(keys) if keys[0] in span.attributes else nothing for keys in _columns(prefix, n)
    )
    return Documents(ids, texts, scores, metadata, nothing)


def _unlike(span: TraceSpan, prefix: str, left: Sequence[str]) -> Iterator[Document]:
    """Documents one by one, whatever fields each has.

    Raises:
        FileFormatError: an attribute can't be read, or documents are lacking.
    """
    n = n_read = 0
    while n_read < len(left):
        keys = _keys(prefix, n)
        n_fields = sum(map(span.attributes.__contains__, keys))
        if n_fields == 0:
            # past a gap there are only documents whose predecessors are lost
            for key in left:
                if _index(key, prefix) >= n:
                    raise span.place.wrong(f"every document from {prefix}.0 on; {DROPPED}", key)
            break
        n_read += n_fields
        n += 1
        yield Document(*map(span.get, keys))


def _nested(given: Any, span: TraceSpan) -> Iterator[Document]:
    """Documents in a list, as Phoenix's data frames have them."""
    given = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(given, (list, tuple)):
        raise span.place.wrong("a list of documents", given)
    for one in given:
        if not isinstance(one, Mapping):
            raise span.place.wrong("a document", one)
        inner = one.get("document")
        fields = inner if isinstance(inner, Mapping) else one
        yield Document(*(fields.get(f"document.{name}", fields.get(name)) for name in _FIELDS))


# the names of attributes are made once, since there are many documents


@lru_cache(maxsize=4096)
def _keys(prefix: str, index: int) -> tuple[str, ...]:
    """The names of the attributes of a document."""
    return tuple(f"{prefix}.{index}.document.{field}" for field in _FIELDS)


@lru_cache(maxsize=64)
def _columns(prefix: str, n: int) -> list[tuple[str, ...]]:
    """The names of the attributes of n documents, field by field."""
    return list(zip(*(_keys(prefix, index) for index in range(n)), strict=True))


def _of_nodes(nodes: Any) -> Documents | None:
    """Documents of nodes that are told by id and score; None where they are told otherwise."""
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        return None
    documents = []
    for node in nodes:
        told = _NODE.fullmatch(node)
        if told is None:
            return None
        score = json_or_none(told["score"])  # "None", or a number
        documents.append(Document(told["id"], None, score))
    return Documents.of(documents)


def _index(key: str, prefix: str) -> int:
    number = key[len(prefix) + 1 :].partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 9 else -1


def _is_empty(output: Any) -> bool:
    """Whether an output says that nothing was found, as LlamaIndex's and LangChain's do."""
    return isinstance(output, str) and output.replace(" ", "") in ("[]", '{"documents":[]}')
