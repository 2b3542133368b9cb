"""The report of a chunking's ceiling: what can be reached, and relevant passages that are cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from llama_index_rag_metrics.decisions.chunk_ceiling import (
    FEWEST_TOKENS,
    MOST_IOU,
    MOST_RECALL,
    OMEGA,
    ChunkCeiling,
    Reference,
)
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
from llama_index_rag_metrics.runtime.arrays import FloatArray

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


def ceiling_report(ceiling: ChunkCeiling, *, full: bool = False) -> m.Report:
    cut, of = ceiling.cut, f" of {ceiling.name}" if ceiling.name else ""
    texts = ceiling.scores.queries
    return m.Report(
        title=f"Chunk ceiling{of}",
        lead=f"{counted(ceiling.n_chunks, 'chunk', 'chunks')}, "
        f"{counted(len(ceiling.references), 'relevant passage', 'relevant passages')} of "
        f"{questions(len(ceiling.scores.query_ids))}",
        decision=_decision(ceiling),
        sections=[m.Section(_REACHED, [_table(ceiling)], _EXPLAINED)],
        listings=[
            m.Listing.of(
                _CUT,
                [(each.query_id, texts[each.query_id], _remarks(each)) for each in cut],
                _MOST_ON_PAGE if full else _MOST_SHOWN,
            )
        ],
        notes=ceiling.notes,
        metrics=ceiling.scores.metric_names,
        records=_records(ceiling),
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
