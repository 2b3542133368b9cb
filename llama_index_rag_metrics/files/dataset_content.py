"""What a dataset is made of: the plain parts that every format reads into and writes from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import Any, TypeAlias

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .conversations import read_conversation

Metadata: TypeAlias = "Mapping[str, Any] | Iterable[tuple[str, Any]]"


def read_texts(part: str, texts: Mapping[str, str]) -> dict[str, str]:
    _check_mapping(part, texts, "a mapping from id to text, such as {'q1': 'Why?'}")
    for key, text in texts.items():
        _check_id(part, key)
        if not isinstance(text, str):
            raise InvalidInput(f"{part}[{key!r}]", text, "a text")
    return dict(texts.items())


def read_titles(titles: Mapping[str, str | None]) -> dict[str, str]:
    _check_mapping("titles", titles, "a mapping from id to text")
    return read_texts(
        "titles", {key: text for key, text in titles.items() if text not in ("", None)}
    )


def read_relevance(relevance: Mapping[str, RelevanceLike | None]) -> dict[str, Relevance]:
    """Relevance by query id, in any form; None is left out, since it means unjudged."""
    expected = "a mapping from query id to relevant ids, such as {'q1': ['d1']}"
    _check_mapping("relevance", relevance, expected)
    judged: dict[str, Relevance] = {}
    for query_id, judgements in relevance.items():
        if judgements is None:
            continue
        place = f"relevance[{query_id!r}]"
        try:
            judged[query_id] = as_relevance(judgements)
        except InvalidInput as error:
            if error.argument != "expected_ids":
                place = f"{place}, {error.argument}"
            raise InvalidInput(place, error.value, error.expected, error.remedy) from None
        for document_id in judged[query_id].grades:
            _check_id(place, document_id)
    return judged


def read_metadata(part: str, metadata: Mapping[str, Metadata | None]) -> dict[str, dict[str, Any]]:
    expected = "a mapping from id to metadata, which is a mapping, too"
    _check_mapping(part, metadata, expected)
    rows = {}
    for key, row in metadata.items():
        try:
            rows[key] = {} if row is None else dict(row)
        except (TypeError, ValueError):
            raise InvalidInput(f"{part}[{key!r}]", row, "a mapping from key to value") from None
        if part == "metadata":
            try:
                rows[key] = read_conversation(rows[key])
            except ValueError as error:
                expected, value = error.args
                raise InvalidInput(f"metadata[{key!r}]", value, expected) from None
    return {key: row for key, row in rows.items() if row}


def read_lists(part: str, kind: str, lists: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    _check_mapping(part, lists, f"a mapping from query id to {kind}")
    for query_id, items in lists.items():
        if isinstance(items, str):
            raise InvalidInput(f"{part}[{query_id!r}]", items, f"a list of {kind}")
    return {query_id: list(items) for query_id, items in lists.items()}


def refuse_unknown(part: str, ids: Iterable[str], allowed: Collection[str], where: str) -> None:
    unknown = [key for key in ids if key not in allowed]
    if unknown:
        raise InvalidInput(part, unknown, f"only ids of {where}")


def _check_mapping(argument: str, value: object, expected: str) -> None:
    if not hasattr(value, "items"):
        raise InvalidInput(argument, value, expected)


def _check_id(argument: str, key: object) -> None:
    if not isinstance(key, str) or not key:
        remedy = "Use str(id); grades are written as {id: grade}."
        raise InvalidInput(argument, key, "ids that are texts and not empty", remedy)


def node_fields(content: DatasetContent) -> Iterator[dict[str, Any]]:
    """The fields of a LlamaIndex node for each document; metadata is carried, not embedded."""
    for document_id in content.corpus:
        metadata = content.document_metadata.get(document_id, {})
        yield {
            "id_": document_id,
            "text": content.indexed_text(document_id),
            "metadata": dict(metadata),
            "excluded_embed_metadata_keys": list(metadata),
            "excluded_llm_metadata_keys": list(metadata),
        }


def digest(*parts: Mapping[str, str]) -> str:
    combined = sha256()
    for part in parts:
        combined.update(b"%d;" % len(part))
        for key in sorted(part):
            for text in (key, part[key]):
                raw = text.encode("utf-8", "surrogatepass")
                combined.update(b"%d:%b" % (len(raw), raw))
    return combined.hexdigest()


OF_QUERIES = ("relevance", "metadata", "expected_texts")


@dataclass
class DatasetContent:
    """The parts of a dataset; `RetrievalDataset` says what each is."""

    queries: dict[str, str] = field(default_factory=dict)
    relevance: dict[str, Relevance] = field(default_factory=dict)
    corpus: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    expected_texts: dict[str, list[str]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    document_metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    name: str = field(default="", compare=False)
    notes: list[str] = field(default_factory=list, compare=False)

    def indexed_text(self, document_id: str) -> str:
        lines = (self.titles.get(document_id, ""), self.corpus[document_id])
        return "\n".join(filter(None, lines))


def labels_of(content: DatasetContent) -> dict[str, list[str]]:
    """Of each labelled query its relevance, or else its expected texts."""
    return {**content.expected_texts, **content.relevance}


class PassageTexts:
    """The text of a passage by its id or place, or None; relevant ones alone are pickled."""

    def __init__(self, content: DatasetContent) -> None:
        self._content = content

    def __call__(self, passage: str | Span) -> str | None:
        corpus = self._content.corpus
        if isinstance(passage, Span):
            return corpus.get(passage.source, "")[passage.start : passage.end] or None
        return self._content.indexed_text(passage) if passage in corpus else None

    def __reduce__(self) -> tuple[Any, ...]:
        judged = self._content.relevance.values()
        named = (item for relevance in judged for item in relevance)
        placed = (span for relevance in judged for span in (relevance.spans or {}).values())
        passages: Iterable[str | Span] = chain(named, placed)
        texts = {passage: text for passage in passages if (text := self(passage)) is not None}
        return getattr, (texts, "get")
