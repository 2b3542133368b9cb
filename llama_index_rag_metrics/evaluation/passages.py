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

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.base import BaseIndex
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from llama_index_rag_metrics.files.dataset_reading import read_corpus
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn, item_id
from llama_index_rag_metrics.rankings.span import NodePlaces, Span
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError
from llama_index_rag_metrics.runtime.sync import synchronous

# what labels are checked against and moved to
PassagesLike: TypeAlias = (
    "Passages | BaseIndex[Any] | BasePydanticVectorStore | BaseDocumentStore"
    " | Iterable[BaseNode | NodeWithScore] | Mapping[str, str] | RetrievalDataset"
    " | str | os.PathLike[str]"
)
_EXPECTED = "an index, a vector store, a docstore, a list of nodes, {id: text}, a dataset or a path"
_DOCSTORE = "docstore.json"
_PAGE = 10_000
_CANT_LIST = (AssertionError, AttributeError, NotImplementedError, TypeError, ValueError)
"""Errors of stores that can't list nodes, or lack the client for it."""


@dataclass(frozen=True)
class Passages:
    """The passages that can be retrieved, by the id that labels use."""

    texts: dict[str, str]
    documents: dict[str, str]
    places: dict[str, Span] = field(default_factory=dict)
    nodes: tuple[BaseNode, ...] = ()

    @cached_property
    def by_document(self) -> Mapping[str, Sequence[str]]:
        passages: defaultdict[str, list[str]] = defaultdict(list)
        for passage_id, place in self.places.items():
            passages[place.source].append(passage_id)
        return passages

    @classmethod
    def of(cls, source: PassagesLike, match_on: MatchOn = "node_id") -> Passages:
        loaded = _load(Path(source)) if isinstance(source, (str, os.PathLike)) else source
        passages = cls._read(loaded, match_on)
        if not passages.texts:
            raise InvalidInput("index_or_nodes", source, f"{_EXPECTED}, with something in it")
        return passages

    def overlapping(self, place: Span) -> dict[str, Span]:
        """The passages that reach into a place, and the part of it that each has."""
        parts = {}
        for passage_id in self.by_document.get(place.source, ()):
            here = self.places[passage_id]
            start, end = max(place.start, here.start), min(place.end, here.end)
            if start < end:
                parts[passage_id] = Span(place.source, start, end)
        return parts

    def cut(self, passage_id: str, place: Span | None) -> str | None:
        """The characters that a passage has at a place; None unless it has all of them."""
        here, text = self.places.get(passage_id), self.texts[passage_id]
        if place is None or here is None or len(text) != here.end - here.start:
            return None
        is_whole = (
            here.source == place.source and here.start <= place.start <= place.end <= here.end
        )
        return text[place.start - here.start : place.end - here.start] if is_whole else None

    @classmethod
    def _read(cls, source: Any, match_on: MatchOn) -> Passages:
        if isinstance(source, Passages):
            return source
        if isinstance(source, RetrievalDataset):
            return cls._of_texts({key: source.indexed_text(key) for key in source.corpus})
        if isinstance(source, Mapping):
            return cls._of_texts(source)
        if isinstance(source, BaseIndex):
            store = getattr(source, "vector_store", None)
            docs = source.docstore.docs
            source = docs.values() if docs or store is None else _stored_nodes(store)
        elif isinstance(source, BasePydanticVectorStore):
            source = _stored_nodes(source)
        elif isinstance(source, BaseDocumentStore):
            source = source.docs.values()
        elif isinstance(source, (bytes, BaseNode, BaseRetriever)) or not isinstance(
            source, Iterable
        ):
            is_retriever = isinstance(source, BaseRetriever)
            remedy = "Give the index that it retrieves from." * is_retriever
            raise InvalidInput("index_or_nodes", type(source), _EXPECTED, remedy)
        nodes = [each.node if isinstance(each, NodeWithScore) else each for each in source]
        for node in nodes:
            if not isinstance(node, BaseNode):
                raise InvalidInput("index_or_nodes", node, _EXPECTED)
        return cls._of_nodes(tuple(nodes), match_on)

    @classmethod
    def _of_texts(cls, texts: Mapping[str, str]) -> Passages:
        for passage_id, text in texts.items():
            if not isinstance(passage_id, str) or not isinstance(text, str):
                argument = f"index_or_nodes[{passage_id!r}]"
                raise InvalidInput(argument, text, "a text by an id that is text")
        # documents are all of themselves
        places = {key: Span(key, 0, len(text)) for key, text in texts.items() if text}
        return cls(dict(texts), {key: key for key in texts}, places)

    @classmethod
    def _of_nodes(cls, kept: tuple[BaseNode, ...], match_on: MatchOn) -> Passages:
        node_places = NodePlaces(kept)
        by_id: defaultdict[str, list[BaseNode]] = defaultdict(list)
        for node in kept:
            by_id[item_id(NodeWithScore(node=node), match_on)].append(node)
        texts = {key: "\n".join(node.get_content() for node in same) for key, same in by_id.items()}
        documents = {key: same[-1].ref_doc_id or same[-1].node_id for key, same in by_id.items()}
        places = {
            key: place
            for key, same in by_id.items()
            if len(same) == 1 and (place := node_places.of_id(same[0].node_id)) is not None
        }
        return cls(texts, documents, places, kept)


def _load(path: Path) -> Any:
    stored = path / _DOCSTORE if path.is_dir() else path
    if stored.name == _DOCSTORE and stored.is_file():
        from llama_index.core.storage.docstore import SimpleDocumentStore

        return SimpleDocumentStore.from_persist_path(str(stored))
    if not path.exists():
        raise FileNotFoundError(2, "no such file or folder", str(path))
    if path.is_file() and path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        with suppress(RagMetricsError):
            return RetrievalDataset({}, **read_corpus(path))
    return RetrievalDataset.load(path)


def _stored_nodes(store: BasePydanticVectorStore) -> Sequence[BaseNode]:
    try:
        return _all_nodes(store.get_nodes)
    except _CANT_LIST as error:
        try:
            return _all_nodes(synchronous(store.aget_nodes))
        except _CANT_LIST:
            expected = "a vector store that lists its nodes"
            remedy = "Give the nodes themselves, as they were inserted, or {id: text}."
            raise InvalidInput("index_or_nodes", type(store), expected, remedy) from error


def _all_nodes(get_nodes: Callable[..., Sequence[BaseNode]]) -> Sequence[BaseNode]:
    """Every node; without a limit, Qdrant's store would end at 9,999."""
    if "limit" not in inspect.signature(get_nodes).parameters:
        with suppress(AssertionError):
            return get_nodes(None)
        return get_nodes([])  # pgvector's store wants a list, and takes none of them for all
    limit = _PAGE
    while len(nodes := get_nodes(None, limit=limit)) >= limit:
        limit *= 2
    return nodes
