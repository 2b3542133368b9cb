"""The passages that can be retrieved: from an index, a docstore, nodes, texts, a dataset, files."""

from __future__ import annotations

import inspect
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from llama_index.core.indices.base import BaseIndex
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from llama_index_rag_metrics.files.dataset_reading import read_corpus
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn, item_id
from llama_index_rag_metrics.rankings.span import Span, node_span
from llama_index_rag_metrics.runtime.containers import present
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError
from llama_index_rag_metrics.runtime.sync import synchronous

PassagesLike: TypeAlias = (
    "Passages | BaseIndex[Any] | BasePydanticVectorStore | BaseDocumentStore"
    " | Iterable[BaseNode | NodeWithScore] | Mapping[str, str] | RetrievalDataset"
    " | str | os.PathLike[str]"
)
"""What labels are checked against and moved to."""

_EXPECTED = "an index, a vector store, a docstore, a list of nodes, {id: text}, a dataset or a path"


@dataclass(frozen=True)
class Passages:
    """The passages that can be retrieved, by the id that labels use."""

    texts: dict[str, str]
    documents: dict[str, str]
    places: dict[str, Span] = field(default_factory=dict)
    nodes: Sequence[BaseNode] = ()

    @cached_property
    def by_document(self) -> Mapping[str, Sequence[str]]:
        passages: defaultdict[str, list[str]] = defaultdict(list)
        for passage_id, place in self.places.items():
            passages[place.source].append(passage_id)
        return passages

    @classmethod
    def of(cls, source: PassagesLike, match_on: MatchOn = "node_id") -> Passages:
        if isinstance(source, Passages):
            return source
        content = _load(Path(source)) if isinstance(source, (str, os.PathLike)) else source
        if isinstance(content, RetrievalDataset):
            content = {key: content.indexed_text(key) for key in content.corpus}
        if isinstance(content, Mapping):
            passages = _of_texts(content)
        else:
            passages = _of_nodes(_nodes(content), match_on)
        if not passages.texts:
            raise InvalidInput("index_or_nodes", source, f"{_EXPECTED}, with something in it")
        return passages

    def overlapping(self, place: Span) -> dict[str, Span]:
        """Return the passages that reach into a place, each with the part of it that it has."""
        parts = {}
        for passage_id in self.by_document.get(place.source, ()):
            passage = self.places[passage_id]
            start, end = max(place.start, passage.start), min(place.end, passage.end)
            if start < end:
                parts[passage_id] = Span(place.source, start, end)
        return parts

    def cut(self, passage_id: str, place: Span | None) -> str | None:
        """Return the characters that a passage has at a place; None unless it has them all."""
        passage, text = self.places.get(passage_id), self.texts[passage_id]
        if place is None or passage is None or len(text) != passage.end - passage.start:
            return None
        is_within = passage.start <= place.start <= place.end <= passage.end
        if passage.source != place.source or not is_within:
            return None
        return text[place.start - passage.start : place.end - passage.start]


def _nodes(source: Any) -> list[BaseNode]:
    if isinstance(source, BaseIndex):
        store = getattr(source, "vector_store", None)
        docstore = source.docstore
        source = docstore if docstore.docs or store is None else store
    if isinstance(source, BasePydanticVectorStore):
        source = _stored_nodes(source)
    elif isinstance(source, BaseDocumentStore):
        source = source.docs.values()
    if isinstance(source, (bytes, BaseNode)) or not isinstance(source, Iterable):
        raise InvalidInput("index_or_nodes", type(source), _EXPECTED)
    nodes = []
    for item in source:
        node = item.node if isinstance(item, NodeWithScore) else item
        if not isinstance(node, BaseNode):
            raise InvalidInput("index_or_nodes", node, _EXPECTED)
        nodes.append(node)
    return nodes


def _of_texts(texts: Mapping[str, str]) -> Passages:
    for passage_id, text in texts.items():
        if not isinstance(passage_id, str) or not isinstance(text, str):
            argument = f"index_or_nodes[{passage_id!r}]"
            raise InvalidInput(argument, text, "a text by an id that is text")
    # each text is a whole document
    places = {key: Span(key, 0, len(text)) for key, text in texts.items() if text}
    return Passages(dict(texts), {key: key for key in texts}, places)


class NodePlaces:
    """The places of nodes in their documents, also of nodes that were cut from other nodes."""

    def __init__(self, nodes: Iterable[BaseNode]) -> None:
        self.spans = present({node.node_id: node_span(node) for node in nodes})

    def of_id(self, item: str) -> Span | None:
        """Return the place of a node in the document that all its sources were cut from."""
        span = self.spans.get(item)
        sources: set[str] = set()
        while span is not None and span.source in self.spans:
            outer = self.spans[span.source]
            sources.add(span.source)
            if outer.source in sources:
                break
            span = Span(outer.source, outer.start + span.start, outer.start + span.end)
        return span


def _of_nodes(nodes: Sequence[BaseNode], match_on: MatchOn) -> Passages:
    node_places = NodePlaces(nodes)
    by_id: defaultdict[str, list[BaseNode]] = defaultdict(list)
    for node in nodes:
        by_id[item_id(NodeWithScore(node=node), match_on)].append(node)
    passages = Passages({}, {}, {}, nodes)
    for key, same_id in by_id.items():
        passages.texts[key] = "\n".join(node.get_content() for node in same_id)
        passages.documents[key] = same_id[-1].ref_doc_id or same_id[-1].node_id
        place = node_places.of_id(same_id[0].node_id)
        if len(same_id) == 1 and place is not None:
            passages.places[key] = place
    return passages


def _load(path: Path) -> Any:
    stored = path / "docstore.json" if path.is_dir() else path
    if stored.name == "docstore.json" and stored.is_file():
        return SimpleDocumentStore.from_persist_path(str(stored))
    if path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        with suppress(RagMetricsError):
            return RetrievalDataset({}, **read_corpus(path))
    return RetrievalDataset.load(path)


def _stored_nodes(store: BasePydanticVectorStore) -> Sequence[BaseNode]:
    for get_nodes in (store.get_nodes, synchronous(store.aget_nodes)):
        # the store can't list nodes, or lacks the client for it
        with suppress(AssertionError, AttributeError, NotImplementedError, TypeError, ValueError):
            return _all_nodes(get_nodes)
    expected = "a vector store that lists its nodes"
    remedy = "Give the nodes themselves, as they were inserted, or {id: text}."
    raise InvalidInput("index_or_nodes", type(store), expected, remedy)


def _all_nodes(get_nodes: Callable[..., Sequence[BaseNode]]) -> Sequence[BaseNode]:
    """Every node; without a limit, Qdrant's store would end at 9,999."""
    if "limit" not in inspect.signature(get_nodes).parameters:
        with suppress(AssertionError):
            return get_nodes(None)
        return get_nodes([])  # of pgvector's store, [] lists all nodes
    limit = 10_000
    while len(nodes := get_nodes(None, limit=limit)) >= limit:
        limit *= 2
    return nodes
