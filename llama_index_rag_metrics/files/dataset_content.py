"""What a dataset is made of: the plain parts that every format reads into and writes from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.errors import FileFormatError, FormatTooNarrow

OF_QUERIES = ("relevance", "metadata", "expected_texts", "forbidden")


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
    forbidden: dict[str, list[str]] = field(default_factory=dict)
    text_hashes: dict[str, str] = field(default_factory=dict)
    name: str = field(default="", compare=False)
    mode: str = "text"
    notes: list[str] = field(default_factory=list, compare=False)
    skipped: Sequence[FileFormatError] = field(default=(), compare=False)

    def indexed_text(self, document_id: str) -> str:
        lines = (self.titles.get(document_id, ""), self.corpus[document_id])
        return "\n".join(filter(None, lines))


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
        known = {passage: text for passage in passages if (text := self(passage)) is not None}
        return getattr, (known, "get")


def check_fits(
    content: DatasetContent, form: str, holds: Collection[str], *, lossy: bool = False
) -> None:
    if lossy:
        return
    losses = [
        f"{wording} ({example!r})"
        for part, (wording, examples) in _PARTS.items()
        if part not in holds and (example := next(iter(examples(content)), None)) is not None
    ]
    if losses:
        raise FormatTooNarrow(form, losses)


def _judged(test: Callable[[Relevance], bool]) -> Callable[[DatasetContent], Iterable[str]]:
    return lambda content: (
        query_id for query_id, relevance in content.relevance.items() if test(relevance)
    )


_PARTS: Mapping[str, tuple[str, Callable[[DatasetContent], Iterable[str]]]] = {
    "grades": ("grades", _judged(lambda relevance: relevance.is_graded)),
    "groups": ("groups of alternatives", _judged(lambda judged: judged.alternatives is not None)),
    "spans": ("places in documents", _judged(lambda relevance: relevance.spans is not None)),
    "nothing relevant": (
        "questions of which no passage is labelled",
        _judged(lambda judged: not judged.grades),
    ),
    "metadata": ("metadata of questions", attrgetter("metadata")),
    "expected texts": ("expected texts", attrgetter("expected_texts")),
    "document metadata": ("metadata of documents", attrgetter("document_metadata")),
    "forbidden ids": ("forbidden ids", attrgetter("forbidden")),
    "hashes of texts": ("hashes of labelled texts", attrgetter("text_hashes")),
    "mode": ("another mode than text", lambda content: {content.mode} - {"text"}),
}

ALL_BUT_MODE = _PARTS.keys() - {"mode"}
