"""What a dataset labels: each passage once, with the text and the place that are known of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llama_index_rag_metrics.rankings.matching import Expected, SpanMatcher
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index.core.schema import BaseNode

    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.rankings.relevance import Relevance


@dataclass
class Label:
    """A passage that questions are labelled with.

    Attributes:
        text: its text when it was labelled; None where the dataset doesn't have it.
        other_text: its text without the title, where there is one: either may have been indexed.
        text_hash: a hash of its text when it was labelled, where one was kept.
        place: where it is in its document; None where that isn't known.
        by_place: whether it names a part of a document rather than a passage, as
            `Relevance.of_spans` does, or a text; such an id is looked for by place and text alone.
        queries: query id to grade.
    """

    id: str
    text: str | None = None
    other_text: str | None = None
    text_hash: str | None = None
    place: Span | None = None
    by_place: bool = False
    queries: dict[str, float] = field(default_factory=dict)

    @property
    def is_relevant(self) -> bool:
        return any(grade > 0 for grade in self.queries.values())

    @property
    def hash_alone(self) -> str | None:
        """The hash of its text, where the text itself isn't known."""
        return None if self.texts else self.text_hash

    @property
    def texts(self) -> list[str]:
        """The texts that it may have been indexed under."""
        return [text for text in (self.text, self.other_text) if text]


def labels_of(
    dataset: RetrievalDataset, old_nodes: Iterable[BaseNode] = ()
) -> dict[tuple[str, str], Label]:
    """Every label, by (query id, item): the same object for all queries that name the same passage.

    Texts are the corpus', the expected texts', those at the labels' places, or the old nodes'.
    Questions known by expected texts alone have a label a text.
    """
    if not hasattr(dataset, "queries"):
        remedy = "The dataset comes first, then what can be retrieved."
        raise InvalidInput("dataset", type(dataset), "a RetrievalDataset", remedy)
    matcher = SpanMatcher(nodes=old_nodes)
    texts = {node.node_id: node.get_content() for node in old_nodes}
    by_id: dict[str, Label] = {}
    labels: dict[tuple[str, str], Label] = {}
    for query_id in dataset.queries:
        relevance = judged(dataset, query_id)
        if relevance is None:
            continue
        expected = _expected_texts(dataset, query_id, relevance)
        is_named = query_id in dataset.relevance
        for item, grade in relevance.grades.items():
            name = item if is_named else f"{item} of {query_id}"
            label = by_id.get(name)
            if label is None:
                place = (relevance.spans or {}).get(item) or _place(dataset, item, matcher)
                label = by_id[name] = _label(dataset, name, place, texts.get(item))
                label.text_hash = dataset.text_hashes.get(name)
                label.by_place = not is_named or (
                    item in (relevance.spans or {}) and item not in dataset.corpus
                )
            label.text = expected.get(item) if label.text is None else label.text
            label.queries[query_id] = grade
            labels[query_id, item] = label
    return labels


def labels_by_id(labels: Mapping[tuple[str, str], Label]) -> dict[str, Label]:
    return {label.id: label for label in labels.values()}


def judged(dataset: RetrievalDataset, query_id: str) -> Relevance | None:
    """A question's relevance; that of its expected texts where it has no other."""
    relevance = dataset.relevance.get(query_id)
    texts = dataset.expected_texts.get(query_id)
    if relevance is None and texts:
        return Expected.of_texts(None, texts).relevance
    return relevance


def _expected_texts(
    dataset: RetrievalDataset, query_id: str, relevance: Relevance
) -> dict[str, str]:
    """The text of each item, where the question's expected texts are those of its items."""
    texts = dataset.expected_texts.get(query_id)
    if not texts:
        return {}
    try:
        expected = Expected.of_texts(dataset.relevance.get(query_id), texts)
    except InvalidInput:  # answers rather than passages
        return {}
    return dict(zip(expected.ids, expected.passages, strict=True))


def _label(dataset: RetrievalDataset, name: str, place: Span | None, text: str | None) -> Label:
    if name in dataset.corpus:
        bare = dataset.corpus[name] if dataset.titles.get(name) else None
        return Label(name, dataset.indexed_text(name), bare, place=place)
    if text is None and place is not None and place.source in dataset.corpus:
        text = dataset.corpus[place.source][place.start : place.end]
    return Label(name, text or None, place=place)


def _place(dataset: RetrievalDataset, item: str, matcher: SpanMatcher) -> Span | None:
    """Where a node is, as it says itself or as the metadata of the dataset's documents does."""
    span = matcher.span_of(item)
    if span is not None:
        return matcher.resolve(span)
    metadata = dataset.document_metadata.get(item, {})
    source = metadata.get("ref_doc_id")
    start, end = metadata.get("start_char_idx"), metadata.get("end_char_idx")
    if isinstance(source, str) and type(start) is int and type(end) is int and 0 <= start < end:
        return Span(source, start, end)
    return None
