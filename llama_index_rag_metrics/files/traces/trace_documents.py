"""The documents of a retrieval span, and the id that each goes by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.files.traces.trace_spans import from_json_text
from llama_index_rag_metrics.rankings.fusion import WRITTEN
from llama_index_rag_metrics.rankings.matching.id_matcher import NODE_ID, REF_DOC_ID
from llama_index_rag_metrics.runtime.errors import InvalidInput


class Document(NamedTuple):
    """A retrieved document, as a span records it.

    Attributes:
        metadata: its metadata, a mapping or a JSON text.
        source: the id of the document that it was cut from, if the span holds it.
    """

    id: Any = None
    text: Any = None
    score: Any = None
    metadata: Any = None
    source: Any = None


class Retrieved(NamedTuple):
    """Documents by column, best first; texts are None where the spans hold none."""

    ids: list[str]
    scores: list[float | None] | None
    texts: list[str] | None


class Columns:
    """Makes columns of documents; equal ids and texts are kept once.

    Args:
        match_on: which id of a document counts: "node_id", "ref_doc_id" or a key of its metadata.

    Attributes:
        nameless: how many documents had no id and go by a digest of their text.
    """

    def __init__(self, match_on: str, *, texts: bool) -> None:
        if not isinstance(match_on, str) or not match_on:
            raise InvalidInput("match_on", match_on, "'node_id', 'ref_doc_id' or a metadata key")
        self._match_on = match_on
        self._keeps_texts = texts
        self._known: dict[str, str] = {}
        self.nameless = 0

    def tell(self, documents: Sequence[Document]) -> bool:
        """Whether documents that may be told by node id alone can be told by what counts here."""
        return self._match_on == NODE_ID or all(
            document.metadata is not None for document in documents
        )

    def read(self, documents: Sequence[Document], place: Place) -> Retrieved:
        """The columns of some documents."""
        known = self._known
        by_node, keeps_texts = self._match_on == NODE_ID, self._keeps_texts
        ids, scores, texts = [], [], []
        is_scored = is_text = False
        for document in documents:
            item, text, score, _, _ = document
            if not by_node:
                item = self._named(document, place)
            if type(item) is not str or not item:
                item = self._id(item, text, place)
            ids.append(known.setdefault(item, item))
            if score is not None:
                is_scored = True
                score = score if type(score) is float else _score(score, place)
            scores.append(None if score != score else score)  # noqa: PLR0124 - NaN
            if keeps_texts:
                if text is not None:
                    is_text = True
                    if type(text) is not str:
                        raise place.wrong("the text of a document", text)
                texts.append(known.setdefault(text, text) if text else "")
        return Retrieved(ids, scores if is_scored else None, texts if is_text else None)

    def _named(self, document: Document, place: Place) -> Any:
        if self._match_on == REF_DOC_ID:
            if document.source is None:
                expected = "the id of the source of each document, which these spans don't hold"
                raise place.wrong(f"{expected}; use match_on='node_id' or a metadata key")
            return document.source
        metadata = from_json_text(document.metadata, "a document's metadata", place)
        item = metadata.get(self._match_on) if isinstance(metadata, Mapping) else None
        if item is None:
            has = sorted(map(str, metadata)) if isinstance(metadata, Mapping) else "no metadata"
            raise place.wrong(f"documents with {self._match_on!r} in their metadata", has)
        return item if isinstance(item, str) else str(item)

    def _id(self, item: Any, text: Any, place: Place) -> str:
        if item is None or item == "":
            if not isinstance(text, str) or not text:
                raise place.wrong("documents with an id or a text")
            self.nameless += 1
            return f"text-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
        return read_id(item, place)


def is_written(document: Document) -> bool:
    """Whether an engine made the document of an answer of its own."""
    is_bare = document.score is None and not document.metadata
    return is_bare and isinstance(document.text, str) and WRITTEN.match(document.text) is not None


def _score(score: Any, place: Place) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        raise place.wrong("a score, a number", score)
    try:
        return float(score)
    except OverflowError as error:
        raise place.wrong("a score, a number", score) from error
