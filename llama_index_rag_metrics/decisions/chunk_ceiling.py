"""How good any retriever could be with these chunks: measured without one."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from llama_index.core.schema import BaseNode, Document, MetadataMode, TextNode

from llama_index_rag_metrics.evaluation.retrieved.passages import Passages, PassagesLike
from llama_index_rag_metrics.evaluation.retrieved.run_matching import Places
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.matching.span_matcher import SpanMatcher
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.rankings.tokens import TokenCounter, Tokenizer
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import excerpt
from llama_index_rag_metrics.report.numbers import (
    carried,
    count,
    counted,
    mean_of,
    questions,
    whole_percent,
)
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores import Scores

MOST_IOU, MOST_RECALL = "span_iou", "span_recall"
OMEGA, FEWEST_TOKENS = "precision_omega", "tokens"
_LEAST_GRADE = 1.0


class Reference(NamedTuple):
    """A relevant passage, and how much of it the chunks have.

    Attributes:
        place: where it is; blanks around it don't count where its text is known.
        whole: the characters that the best single chunk has.
        together: the characters that all chunks have.
        n_chunks: how many chunks have some of it.
        text: what it says, "" where that isn't known.
    """

    query_id: str
    place: Span
    whole: int
    together: int
    n_chunks: int
    text: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether a boundary parts it: several chunks have more of it than any one of them."""
        return self.whole < self.together


@dataclass(frozen=True, repr=False)
class ChunkCeiling(Reportable):
    """The best that any retriever could reach with some chunks.

    Attributes:
        scores: of each question whose labels have places: "span_iou", the highest that any
            selection of chunks has; "span_recall", that of all chunks; "tokens", the fewest of
            chunks that together have all that any has of the relevant passages, NaN for nothing;
            and "precision_omega", Chroma's Precision Ω: the span_iou of all chunks that touch a
            relevant passage, also those that only border on it.
        references: every relevant passage with a place, by question.
        n_chunks: how many chunks have a place.
        n_unlocated: how many chunks have none, and aren't counted.
        overlap: the share of the chunks' characters that another chunk has already, in [0, 1).
        notes: what a reader of the numbers should know.

    Examples:
        >>> from llama_index_rag_metrics import Relevance, RetrievalDataset, chunk_ceiling
        >>> text = "Enceladus has geysers. Triton circles Neptune backwards."
        >>> label = Relevance.of_spans([("moons", 0, 22)])
        >>> dataset = RetrievalDataset({"q": "Geysers?"}, {"q": label}, {"moons": text})
        >>> ceiling = chunk_ceiling(dataset, {"a": text[:16], "b": text[16:]}, tokenizer=str.split)
        >>> round(ceiling.scores.means["span_iou"], 3), ceiling.scores.means["tokens"]
        (0.727, 8.0)
        >>> [reference.is_cut for reference in ceiling.references]
        [True]
    """

    scores: Scores
    references: Sequence[Reference]
    n_chunks: int
    n_unlocated: int
    overlap: float
    notes: Sequence[str] = ()
    name: str = ""

    @property
    def cut(self) -> list[Reference]:
        """The relevant passages that a boundary parts: no chunk has all that the chunks have."""
        return [reference for reference in self.references if reference.is_cut]

    def report(self, *, full: bool = False) -> m.Report:
        """What can be reached, and the relevant passages that are cut."""
        cut, of = self.cut, f" of {self.name}" if self.name else ""
        texts = self.scores.queries
        return m.Report(
            title=f"Chunk ceiling{of}",
            lead=f"{counted(self.n_chunks, 'chunk', 'chunks')}, "
            f"{counted(len(self.references), 'relevant passage', 'relevant passages')} of "
            f"{questions(len(self.scores.query_ids))}",
            decision=_decision(self),
            sections=[m.Section(_REACHED, [_table(self)], _EXPLAINED)],
            listings=[
                m.Listing.of(
                    _CUT,
                    [(each.query_id, texts[each.query_id], _remarks(each)) for each in cut],
                    _MOST_ON_PAGE if full else _MOST_SHOWN,
                )
            ],
            notes=self.notes,
            metrics=self.scores.metric_names,
            records=_records(self),
        )


def chunk_ceiling(
    dataset: RetrievalDataset,
    index_or_nodes: PassagesLike,
    *,
    matcher: SpanMatcher | None = None,
    tokenizer: Tokenizer | TokenCounter | None = None,
    name: str = "",
) -> ChunkCeiling:
    """Say how good any retriever could be with these chunks, without retrieving anything.

    Labels are places in documents, so that every chunking is judged by the same ones. Chunks count
    where they are: by their offsets where the document has their text there, else where their text
    is, behind the chunk before if it is there.

    Args:
        dataset: the questions, with `Relevance.of_spans`, and the documents as its corpus. Passages
            of grade 1 or more count.
        index_or_nodes: the chunks, as `check_labels` takes what can be retrieved. Documents that
            other nodes were cut from aren't chunks.
        matcher: a `SpanMatcher` that knows where labels are which have no places of their own, as
            in `evaluate`.
        tokenizer: counts the tokens of chunks as a model reads them; LlamaIndex's
            `get_tokenizer()` unless given.
        name: what to call the chunks in reports.

    Raises:
        InvalidInput: no label has a place, or no chunk is in a document of the labels.

    Examples:
        >>> from llama_index_rag_metrics import Relevance, RetrievalDataset
        >>> text = "Enceladus has geysers. Triton circles Neptune backwards."
        >>> label = Relevance.of_spans([("moons", 0, 22)])
        >>> dataset = RetrievalDataset({"q": "Geysers?"}, {"q": label}, {"moons": text})
        >>> chunk_ceiling(dataset, {"all": text}, tokenizer=str.split).scores["precision_omega"]
        array([0.39285714])
    """
    if matcher is not None and not isinstance(matcher, SpanMatcher):
        raise InvalidInput("matcher", matcher, "a SpanMatcher, which knows where labels are")
    dataset = RetrievalDataset.of(dataset)
    labels = Places(dataset.corpus, matcher)
    wanted = {
        query_id: spans
        for query_id, judged in dataset.relevance.items()
        if query_id in dataset.queries and (spans := _places(labels.of_relevance(judged)))
    }
    if not wanted:
        remedy = "Give Relevance.of_spans(...), or matcher=SpanMatcher(nodes=...)."
        raise InvalidInput("dataset", dataset, "labels with places in documents", remedy)
    known = {*dataset.corpus, *(span.source for spans in wanted.values() for span in spans)}
    nodes, n_documents = _chunks(index_or_nodes)
    places, n_ambiguous = _located(nodes, dataset.corpus, known)
    if not places:
        sources = {node.ref_doc_id for node in nodes if node.ref_doc_id}
        of = f" of {join_first(sorted(sources))}" if sources else ""
        placeless = f"{counted(len(nodes), 'chunk', 'chunks')}{of} with neither"
        these = join_first(sorted(known))
        expected = f"offsets or texts in the documents that labels are in ({these})"
        remedy = "Give the documents the ids that the labels name, and the dataset a corpus."
        raise InvalidInput("index_or_nodes", placeless, expected, remedy)
    chunks = _Chunks(nodes, places, TokenCounter.of(tokenizer))
    columns = zip(*map(chunks.best, wanted.values()), strict=True)
    references = [
        chunks.reference(query_id, span, dataset.corpus.get(span.source))
        for query_id, spans in wanted.items()
        for span in spans
    ]
    scores = Scores(
        [*wanted],
        dict(zip((MOST_IOU, MOST_RECALL, FEWEST_TOKENS, OMEGA), columns, strict=True)),
        queries={query_id: dataset.queries[query_id] for query_id in wanted},
        metadata={query_id: dataset.metadata.get(query_id, {}) for query_id in wanted},
        name=name,
    )
    documents = counted(n_documents, "document", "documents")
    notes = [
        *chunks.notes(dataset.corpus, n_ambiguous),
        *_label_notes(dataset, wanted, references),
        *([f"not counted as chunks: {documents} that others were cut from"] * bool(n_documents)),
    ]
    n_unlocated = len(nodes) - len(places)
    return ChunkCeiling(scores, references, len(places), n_unlocated, chunks.overlap, notes, name)


class _Chunks:
    """The chunks that have a place, by document."""

    def __init__(
        self, nodes: Sequence[BaseNode], places: Mapping[int, Span], counter: TokenCounter
    ) -> None:
        self._nodes, self._places = nodes, places
        rows = defaultdict(list)
        for number, (source, start, end) in places.items():
            rows[source].append((start, end, number))
        self._rows = {source: np.array(sorted(rows[source]), np.int64) for source in rows}

        @cache
        def tokens(number: int) -> int:
            """Of a chunk as a model reads it."""
            return counter.count([nodes[number].get_content(MetadataMode.LLM)])[0]

        self._tokens = tokens

    @property
    def overlap(self) -> float:
        parts = [rows[:, :2] for rows in self._rows.values()]
        return 1 - sum(map(length, map(merged, parts))) / sum(map(length, parts))

    def notes(self, corpus: Mapping[str, str], n_ambiguous: int) -> list[str]:
        """How many chunks can't be trusted, or count less than once."""
        placed = [(self._nodes[number], place) for number, place in self._places.items()]
        counts = {
            "not in any of the dataset's documents, so left out": len(self._nodes) - len(placed),
            "of a document that the dataset doesn't have, found in one that it has": sum(
                node.ref_doc_id not in (None, place.source) for node, place in placed
            ),
            "placed by offsets, though the document has another text there": sum(
                corpus.get(source, "")[start:end].strip() not in node.get_content()
                for node, (source, start, end) in placed
            ),
            "without offsets and of a text that is there again, so taken in order": n_ambiguous,
        }
        of = counted(len(self._nodes), "chunk", "chunks")
        return [f"{what}: {n:,} of {of}" for what, n in counts.items() if n]

    def best(self, spans: Sequence[Span]) -> tuple[float, float, float, float]:
        """The highest span_iou and span_recall, the fewest tokens, and Precision Ω."""
        lines, tokens = [], 0.0
        wanted = found = touched = held = 0
        for source in dict.fromkeys(span.source for span in spans):
            parts = merged(np.array([span[1:] for span in spans if span.source == source]))
            union, sharing = merged(self._near(source, parts, 1)[:, :2]), self._near(source, parts)
            lines.append(line := Line(parts, sharing[:, :2]))
            costs = np.array([*map(self._tokens, sharing[:, 2].tolist())], np.float64)
            tokens += costs[line.fewest(costs)].sum()
            wanted, held = wanted + length(parts), held + length(shared(parts, sharing))
            found, touched = found + length(shared(parts, union)), touched + length(union)
        omega = found / (wanted + touched - found)
        return best_overlap(lines), held / wanted, tokens if held else math.nan, omega

    def reference(self, query_id: str, span: Span, document: str | None) -> Reference:
        """A relevant passage, the blanks around it left out."""
        text = "" if document is None else document[span.start : span.end]
        if text.strip():
            start = span.start + len(text) - len(text.lstrip())
            span = Span(span.source, start, start + len(text.strip()))
        part = np.array([span[1:]])
        rows = self._near(span.source, part)
        each = np.minimum(rows[:, 1], span.end) - np.maximum(rows[:, 0], span.start)
        together = length(shared(part, rows))
        return Reference(query_id, span, int(each.max(initial=0)), together, len(rows), text)

    def _near(self, source: str, parts: IntArray, reach: int = 0) -> IntArray:
        """(chunks, 3) start, end and number of those that share any part, or within reach of it."""
        rows = self._rows.get(source, np.empty((0, 3), np.int64))
        near = (rows[:, :1] < parts[:, 1] + reach) & (rows[:, 1:2] > parts[:, 0] - reach)
        return np.asarray(rows[near.any(axis=1)])


def _places(judged: Relevance) -> list[Span]:
    spans = judged.spans or {}
    return [span for item, span in spans.items() if judged.grades[item] >= _LEAST_GRADE]


def _chunks(source: PassagesLike) -> tuple[list[BaseNode], int]:
    """The nodes that are chunks, and how many are documents that others were cut from."""
    passages = Passages.of(source)
    texts = (TextNode(id_=key, text=text) for key, text in passages.texts.items())
    nodes: list[BaseNode] = list(passages.nodes or texts)
    parents = {node.ref_doc_id for node in nodes}
    chunks = [
        node for node in nodes if not (isinstance(node, Document) and node.node_id in parents)
    ]
    return chunks, len(nodes) - len(chunks)


def _located(
    nodes: Sequence[BaseNode], corpus: Mapping[str, str], known: set[str]
) -> tuple[dict[int, Span], int]:
    """The places of chunks, by number, and how many have a text that is in several places."""
    by_offset = SpanMatcher(nodes=nodes)
    finder = Places(corpus, by_offset)
    last: dict[str, int] = {}

    def next_occurrence(text: str, document: str) -> Span | None:
        # chunks come in order, a document after another
        for begin in (last, dict[str, int]()):
            for source in [document] if document in known else chain(reversed(last), corpus):
                place = finder.search(text, source, begin.get(source, -1) + 1)
                if place is not None:
                    return place
        return None

    places, n_ambiguous = {}, 0
    for number, node in enumerate(nodes):
        place, own = finder.of_node(node), by_offset.span_of(node.node_id)
        if place is not None and place.source not in known:
            place = None
        if place is None or own is None or place != by_offset.resolve(own):
            found = next_occurrence(node.get_content(), node.ref_doc_id or "")
            if found is not None:
                text = corpus[found.source]
                n_ambiguous += text.count(text[found.start : found.end]) > 1
            place = found or place
        if place is not None:
            places[number] = place
            last.pop(place.source, None)
            last[place.source] = place.start
    return places, n_ambiguous


def _label_notes(
    dataset: RetrievalDataset, wanted: Mapping[str, Sequence[Span]], references: Sequence[Reference]
) -> list[str]:
    """How many labels have no place, or are in no chunk."""
    n_relevant = sum(
        grade >= _LEAST_GRADE
        for query_id, judged in dataset.relevance.items()
        if query_id in dataset.queries
        for grade in judged.grades.values()
    )
    n_placeless = n_relevant - len(references)
    n_gone = sum(not reference.together for reference in references)
    n_beyond = sum(
        span.source in dataset.corpus and span.end > len(dataset.corpus[span.source])
        for spans in wanted.values()
        for span in spans
    )
    of = counted(len(references), "relevant passage", "relevant passages")
    notes = {
        f"in no chunk: {n_gone:,} of {of}": n_gone,
        f"reaching beyond their documents' ends: {n_beyond:,} of {of}": n_beyond,
        f"left out without a place: {n_placeless:,} of {n_relevant:,} labels": n_placeless,
    }
    return [note for note, n in notes.items() if n]


_REACHED, _CUT = "What can be reached", "Relevant passages cut by a boundary"
_MOST_SHOWN, _MOST_ON_PAGE = 5, 500
_MEANINGS = {
    MOST_IOU: "span_iou, of the best selection",
    MOST_RECALL: "span_recall, of all chunks",
    FEWEST_TOKENS: "tokens, at least",
    OMEGA: "Precision Ω (Chroma)",
}
_EXPLAINED = (
    "Without any retrieval: the highest span_iou of any selection of chunks, found exactly; the "
    "share of what is relevant that is in any chunk; the fewest tokens of chunks that have all "
    "of it; and Chroma's Precision Ω, the span_iou of all chunks that touch a relevant passage, "
    "which is also their precision where the chunks leave nothing out."
)


def _decision(ceiling: ChunkCeiling) -> list[m.Statement]:
    means = ceiling.scores.means
    lacking = 1 - means[MOST_RECALL]
    these, lost = "these chunks", "no chunk: no retriever finds it"
    if ceiling.n_unlocated:
        placed = counted(ceiling.n_chunks, "chunk that has a place", "chunks that have a place")
        these, others = f"the {placed}", counted(ceiling.n_unlocated, "other", "others")
        lost = f"none of these; {others} can't be found in the documents and may have it"
    if not means[MOST_RECALL]:
        text = f"No retriever can find anything with {these}: none has any relevant passage."
        return [m.Statement(text, "alarm", evidence=_REACHED)]
    wanted = "all that they have of what" if lacking > _NOTICED else "all that"
    reached = carried(means[MOST_IOU], len(ceiling.scores.query_ids))
    first = (
        f"With {these} no retriever can have more than {reached} on span_iou, and finding "
        f"{wanted} is relevant takes at least {count(means[FEWEST_TOKENS])} tokens a question."
    )
    statements = [m.Statement(first, "leading", evidence=_REACHED)]
    n_cut, n_references = len(ceiling.cut), len(ceiling.references)
    if n_cut:
        text = f"A boundary cuts {n_cut:,} of {n_references:,} relevant passages: no chunk has"
        listing = f"{_CUT}: {n_cut:,}"
        statements.append(m.Statement(f"{text} them whole.", evidence=listing))
    if lacking > _NOTICED:
        text = f"{whole_percent(lacking)} of what is relevant is in {lost}."
        statements.append(m.Statement(text, "alarm", evidence=_REACHED))
    return statements


_NOTICED = 0.01
"""Splitters drop the blanks between chunks, which is less."""


def _table(ceiling: ChunkCeiling) -> m.Table:
    rows = [_row(meaning, ceiling.scores[metric], metric) for metric, meaning in _MEANINGS.items()]
    overlap = whole_percent(ceiling.overlap)
    remark = "" if overlap == "0%" else f"({overlap} of the chunks is text that another has, too)"
    head = ["mean", "standard deviation", "lowest", "highest"]
    return m.Table(_REACHED, head, [rows], first="at best", remark=remark)


def _row(label: str, values: FloatArray, metric: str) -> m.Row:
    if not len(values):
        return m.Row(label, [m.Cell(None)] * 4)
    form: m.Form = "count" if metric == FEWEST_TOKENS else "score"
    numbers = (values.mean(), values.std(), values.min(), values.max())
    cells = [mean_of(m.Cell(float(number), form), len(values)) for number in numbers]
    return m.Row(label, cells)


def _remarks(reference: Reference) -> list[str]:
    whole = reference.place.end - reference.place.start
    share, n = whole_percent(reference.whole / whole), reference.n_chunks
    parted = f"over {counted(n, 'chunk', 'chunks')}; the best has {share} of it"
    source, start, end = reference.place
    said = f": “{excerpt(reference.text)}”" if reference.text else ""
    return [f"{parted} ({source} {start:,}–{end:,}){said}"]


def _records(ceiling: ChunkCeiling) -> m.Records:
    scores = ceiling.scores
    of_each = Counter(reference.query_id for reference in ceiling.references)
    cut = Counter(reference.query_id for reference in ceiling.cut)
    columns: dict[str, Sequence[object]] = {
        "query_id": scores.query_ids,
        **{metric: column.tolist() for metric, column in scores.columns.items()},
        "references": [of_each[query_id] for query_id in scores.query_ids],
        "cut": [cut[query_id] for query_id in scores.query_ids],
    }
    return m.Records(columns, index="query_id")


@dataclass(frozen=True, eq=False)
class Line:
    """(parts, 2) what is wanted of a document, without overlaps, and the chunks that have some."""

    wanted: IntArray
    chunks: IntArray

    def counts(self, chosen: Sequence[int]) -> tuple[int, int]:
        """How many wanted characters these chunks have, and how many characters in all."""
        union = merged(self.chunks[chosen])
        return length(shared(self.wanted, union)), length(union)

    def best(self, worth: float, price: float, costs: FloatArray | None = None) -> list[int]:
        """The chunks worth most by their wanted characters, less a price of others, less costs.

        A selection of which no chunk lies within another, by its starts, is ordered by its ends,
        too. So it is the best chain of chunks, each of which adds what is behind the one before.
        """
        start, end = self.chunks.T
        until_start, until_end = (self._wanted_before(place) for place in self.chunks.T)
        total, before = np.zeros(len(start)), np.full(len(start), -1)
        for chunk in range(len(start)):
            found = until_end[chunk] - np.maximum(until_start[chunk], until_end[:chunk])
            others = end[chunk] - np.maximum(start[chunk], end[:chunk]) - found
            follows = np.where(end[:chunk] <= end[chunk], total[:chunk], -math.inf)
            alone = until_end[chunk] - until_start[chunk]
            value = np.append(
                worth * found - price * others + follows,
                worth * alone - price * (end[chunk] - start[chunk] - alone),
            )
            nearest = int(value.argmax())
            total[chunk] = value[nearest] - (0.0 if costs is None else costs[chunk])
            before[chunk] = nearest if nearest < chunk else -1
        chain = []
        chunk = int(total.argmax()) if (total > 0).any() else -1
        while chunk >= 0:
            chain.append(chunk)
            chunk = int(before[chunk])
        return chain

    def fewest(self, tokens: FloatArray) -> list[int]:
        """The chunks that together have all that any has of the wanted, with the fewest tokens."""
        return self.best(1 + tokens.sum(), 0.0, tokens)

    def _wanted_before(self, place: IntArray) -> IntArray:
        first, last = self.wanted.T
        counts: IntArray = np.clip(place[:, np.newaxis] - first, 0, last - first).sum(axis=1)
        return counts


def best_overlap(lines: Sequence[Line]) -> float:
    """The highest |E∩T| / |E∪T| of any selection of chunks, found by Dinkelbach's method."""
    wanted = sum(length(line.wanted) for line in lines)
    best = 0.0
    while True:
        counts = [line.counts(line.best(1.0, best)) for line in lines]
        found, taken = (sum(column) for column in zip(*counts, strict=True))
        ratio = found / (wanted + taken - found)
        if ratio <= best * (1 + 1e-12):
            return best
        best = ratio


def merged(parts: IntArray) -> IntArray:
    """(parts, 2) the same characters without overlaps, in order.

    >>> merged(np.array([[4, 9], [0, 2], [8, 12]])).tolist()
    [[0, 2], [4, 12]]
    """
    apart: list[list[int]] = []
    for start, end in sorted(parts.tolist()):
        if apart and start <= apart[-1][1]:
            apart[-1][1] = max(apart[-1][1], end)
        else:
            apart.append([start, end])
    return np.array(apart, np.int64).reshape(-1, 2)


def shared(parts: IntArray, others: IntArray) -> IntArray:
    """(parts, 2) the characters that are in both.

    >>> shared(np.array([[0, 5], [8, 9]]), np.array([[3, 6], [4, 9]])).tolist()
    [[3, 5], [8, 9]]
    """
    start = np.maximum(parts[:, :1], others[:, 0]).ravel()
    end = np.minimum(parts[:, 1:], others[:, 1]).ravel()
    return merged(np.stack([start, end], axis=1)[start < end])


def length(parts: IntArray) -> int:
    """How many characters parts without overlaps have."""
    return int((parts[:, 1] - parts[:, 0]).sum())
