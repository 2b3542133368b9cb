"""What every dialect of traces says of a span, and what LlamaIndex writes in several of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.traces.trace_documents import Document
from llama_index_rag_metrics.files.traces.trace_spans import TraceSpan, json_or_none, mapping

Kind: TypeAlias = Literal["retrieval", "reranking", "answer", "agent", "tool", "other"]

_KINDS: dict[str, Kind] = {
    "RETRIEVER": "retrieval",
    "RERANKER": "reranking",
    "CHAIN": "answer",
    "AGENT": "agent",
    "TOOL": "tool",
}
"""What OpenInference and MLflow alike call the kinds of spans."""
"""What a span is: a reranking is any postprocessing of what was retrieved, an answer may say what
it was made from, and so may an agent."""

Documented: TypeAlias = Literal["retrieval", "reranking", "answer"]
"""What may hold documents."""

_QUESTION_KEYS = (
    "query_str",
    "query",
    "question",
    "str_or_query_bundle",
    "query_bundle",
    "input",
    "user_msg",
    "q",
)
"""Where LlamaIndex's calls, and functions like them, have the text that is asked."""


class Dialect(ABC):
    """How one instrumentation records what matters here."""

    name: ClassVar[str]

    @abstractmethod
    def kind(self, span: TraceSpan) -> Kind | None:
        """What kind of span it is; None where it isn't of this dialect."""

    @abstractmethod
    def question(self, span: TraceSpan) -> str | None:
        """The text that was asked, if the span holds it."""

    @abstractmethod
    def documents(self, span: TraceSpan, kind: Documented) -> Sequence[Document] | None:
        """What a retrieval or a reranking returned, or an answer was made from.

        None where the span doesn't hold it.
        """

    def tool(self, span: TraceSpan) -> str:
        """The name of a tool."""
        return ""


def question_in(value: Any) -> str | None:
    """The question in the arguments of a call: a text, or under one of the usual names."""
    for _ in range(4):
        if isinstance(value, str) or not isinstance(value, Mapping):
            break
        only = next(iter(value.values())) if len(value) == 1 else None
        value = next((value[key] for key in _QUESTION_KEYS if value.get(key)), only)
    return value if isinstance(value, str) else None


def postprocesses(span: TraceSpan) -> bool:
    """Whether LlamaIndex calls the span as it does those of postprocessors."""
    return span.name.endswith("postprocess_nodes")


def begins_agent(span: TraceSpan) -> bool:
    """Whether LlamaIndex calls the span as it does the first step of an agent's run."""
    return span.name.endswith(".setup_agent")


def kind_named(name: str, span: TraceSpan) -> Kind:
    """The kind of a span by the name that OpenInference and MLflow alike have for it."""
    kind = _KINDS.get(name, "other")
    return "reranking" if kind in ("answer", "agent") and postprocesses(span) else kind


def source_nodes(output: Any) -> list[Any] | None:
    """The nodes from which an answer says that it was made; None where it doesn't."""
    if isinstance(output, str) and '"source_nodes"' not in output:
        return None
    nodes = mapping(json_or_none(output)).get("source_nodes")
    return nodes if isinstance(nodes, list) else None


def node_documents(nodes: Any, place: Place) -> list[Document]:
    """LlamaIndex's nodes with scores, as `model_dump` writes them."""
    if not isinstance(nodes, list):
        raise place.wrong("a list of nodes", nodes)
    documents = []
    for scored in nodes:
        try:
            node = scored["node"]
            source = (node.get("relationships") or {}).get("1")
            text = node.get("text")
            if text is None and isinstance(resource := node.get("text_resource"), dict):
                text = resource.get("text")
            node_id = node["id_"]
            source_id = source["node_id"] if isinstance(source, dict) else node_id
            documents.append(
                Document(node_id, text, scored.get("score"), node.get("metadata"), source_id)
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise place.wrong("a node with its score", scored) from error
    return documents
