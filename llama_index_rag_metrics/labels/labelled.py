"""The labelled passages of a dataset, each once, with its text and place where they are known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from llama_index_rag_metrics.rankings.matching.matcher import Expected
from llama_index_rag_metrics.rankings.matching.span_matcher import SpanMatcher
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index.core.schema import BaseNode

    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.rankings.relevance import Relevance


@dataclass
class Label:
    """A passage that questions are labelled with, as it was then.

    `other_text` is without the title; one `by_place` names a part of a document or a text, no id;
    of one with an `answer`, only that part has to be found again.
    """

    id: str
    text: str | None = None
    other_text: str | None = None
    text_hash: str | None = None
    place: Span | None = None
    by_place: bool = False
    queries: dict[str, float] = field(default_factory=dict)
    answer: str = ""

    @property
    def relevant_to(self) -> tuple[str, ...]:
        return tuple(query_id for query_id, grade in self.queries.items() if grade > 0)

    @property
    def hash_alone(self) -> str | None:
        return None if self.texts else self.text_hash

    @property
    def texts(self) -> list[str]:
        return [text for text in (self.text, self.other_text) if text]

    def part(self, text: str) -> slice:
        """Where the answer is in a text; all of it where that isn't known."""
        places = _occurrences(self.answer, text)
        return slice(*places[0].span()) if len(places) == 1 else slice(None)


# (query id, item) to label; all queries with a passage have the same one
Labels: TypeAlias = dict[tuple[str, str], Label]


def labels_of(dataset: RetrievalDataset, old_nodes: Iterable[BaseNode] = ()) -> Labels:
    if not hasattr(dataset, "queries"):
        remedy = "The dataset comes first, then what can be retrieved."
        raise InvalidInput("dataset", type(dataset), "a RetrievalDataset", remedy)
    matcher = SpanMatcher(nodes=old_nodes)
    texts = {node.node_id: node.get_content() for node in old_nodes}
    by_id: dict[str, Label] = {}
    labels: Labels = {}
    for query_id in dataset.queries:
        relevance = judged(dataset, query_id)
        if relevance is None:
            continue
        expected: dict[str, str] = {}
        if own := dataset.expected_texts.get(query_id):
            with suppress(InvalidInput):  # answers rather than passages
                by_text = Expected.of_texts(dataset.relevance.get(query_id), own)
                expected = dict(zip(by_text.ids, by_text.passages, strict=True))
        is_named, spans = query_id in dataset.relevance, relevance.spans or {}
        for item, grade in relevance.grades.items():
            name = item if is_named else f"{item} of {query_id}"
            if (label := by_id.get(name)) is None:
                place = _place(dataset, item, matcher)
                if place is None or item not in dataset.corpus:
                    place = spans.get(item) or place
                label = by_id[name] = _label(dataset, name, place, texts.get(item))
                label.by_place = not is_named or (item in spans and item not in dataset.corpus)
            label.text = expected.get(item) if label.text is None else label.text
            label.queries[query_id] = grade
            labels[query_id, item] = label
    return labels


def answers_in(label: Label, dataset: RetrievalDataset, query_id: str) -> list[str]:
    """The parts of a passage that answer a question, and occur there once."""
    if label.by_place or label.text is None:
        return []
    answers = dataset.expected_texts.get(query_id, ())
    if (place := (dataset.relevance[query_id].spans or {}).get(label.id)) is not None:
        begin, text, here = 0, dataset.corpus.get(place.source, ""), label.place
        if here is not None and here.source == place.source and place != here:
            begin, text = here.start, label.text
        answers = [text[max(0, place.start - begin) : place.end - begin]]
    return [
        answer
        for answer in dict.fromkeys(answers)
        if len(answer.split()) < len(label.text.split())
        and len(_occurrences(answer, label.text)) == 1
    ]


def _occurrences(answer: str, text: str) -> list[re.Match[str]]:
    words = r"\s+".join(map(re.escape, answer.split()))
    return [*re.finditer(rf"(?<!\w){words}(?!\w)", text)] if words else []


def labels_by_id(labels: Labels) -> dict[str, Label]:
    return {label.id: label for label in labels.values()}


def judged(dataset: RetrievalDataset, query_id: str) -> Relevance | None:
    """A question's relevance, or else that of its expected texts."""
    texts = dataset.expected_texts.get(query_id)
    if query_id not in dataset.relevance and texts:
        return Expected.of_texts(None, texts).relevance
    return dataset.relevance.get(query_id)


def _label(dataset: RetrievalDataset, name: str, place: Span | None, text: str | None) -> Label:
    known_hash = dataset.text_hashes.get(name)
    if name in dataset.corpus:
        bare = dataset.corpus[name] if dataset.titles.get(name) else None
        return Label(name, dataset.indexed_text(name), bare, known_hash, place)
    if text is None and place is not None and place.source in dataset.corpus:
        text = dataset.corpus[place.source][place.start : place.end]
    return Label(name, text or None, None, known_hash, place)


def _place(dataset: RetrievalDataset, item: str, matcher: SpanMatcher) -> Span | None:
    if (span := matcher.span_of(item)) is not None:
        return matcher.resolve(span)
    metadata = dataset.document_metadata.get(item, {})
    source = metadata.get("ref_doc_id")
    start, end = metadata.get("start_char_idx"), metadata.get("end_char_idx")
    if isinstance(source, str) and type(start) is int and type(end) is int and 0 <= start < end:
        return Span(source, start, end)
    return None
