"""What the page carries of every query: scores for the table, rankings for who unfolds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.html.packing import Texts
from llama_index_rag_metrics.report.model import Answer, CallAnswer, Item, Queries, QueryAnswers
from llama_index_rag_metrics.report.numbers import kept_score, kept_seconds
from llama_index_rag_metrics.report.query_lines import place_of

_QUERIES_PER_CHUNK = 200


@dataclass
class Content:
    """The data of the page: columns for the table of queries; rankings in chunks; their texts."""

    index: dict[str, Any]
    rankings: list[list[Any]]
    texts: Texts = field(repr=False)


def content_of(queries: Queries, metric: str, cut: int | None) -> Content:
    """Gather what the page shows: `metric` first, texts cut to `cut` characters."""
    texts = Texts(cut)
    ways = max(queries.matcher_of_metric, default=0) + 1
    rows = []
    remarks: dict[int, list[str]] = {}
    if queries.answer is not None:
        for position in range(len(queries.ids)):
            by_way = [queries.answer(position, way) for way in range(ways)]
            rows.append(_query(by_way, texts))
            if by_way[0].remarks:
                remarks[position] = list(by_way[0].remarks)
    index = {
        "systems": list(queries.systems),
        "compared": queries.compared,
        "metrics": list(queries.metrics),
        "lower": list(queries.lower_is_better),
        "shown": list(queries.metrics).index(metric),
        "ways": list(queries.matcher_of_metric),
        "ids": [str(query_id) for query_id in queries.ids],
        "queries": list(queries.texts),
        "scores": [
            [[kept_score(score) for score in column] for column in by_system]
            for by_system in queries.scores
        ],
        **queries.failed_or_empty,
        **queries.unanswerable,
        "slices": [slice_key._asdict() for slice_key in queries.slices],
        "remarks": remarks,
        "perChunk": _QUERIES_PER_CHUNK,
        "textStarts": list(texts.starts),
    }
    chunks = [
        rows[start : start + _QUERIES_PER_CHUNK]
        for start in range(0, len(rows), _QUERIES_PER_CHUNK)
    ]
    return Content(index, chunks, texts)


def _query(by_way: Sequence[QueryAnswers], texts: Texts) -> list[Any]:
    """[wanted, answers] as the first matcher sees them; then the same of each other matcher.

    Of another matcher each answer has only what is its own: [grades, what the items stand for].
    """
    first, *others = by_way
    row: list[Any] = [
        list(_wanted(first, texts)),
        [_answer(answer, texts) for answer in first.answers],
    ]
    if others:
        row.append(
            [
                [list(_wanted(other, texts)), [_seen(answer) for answer in other.answers]]
                for other in others
            ]
        )
    return row


def _wanted(query: QueryAnswers, texts: Texts) -> Iterator[list[Any]]:
    """[id, grade]; with a passage also the number of its text; in groups also that of the group."""
    in_groups = any(len(need) > 1 for need in query.wanted)
    for number, need in enumerate(query.wanted):
        for item in need:
            wanted: list[Any] = [str(item.id), item.grade]
            if item.passage is not None or in_groups:
                wanted.append(_passage(item, texts))
            yield [*wanted, number] if in_groups else wanted


def _passage(item: Item, texts: Texts) -> int | None:
    if item.passage is None:
        return None
    return texts.add(place_of(item.passage) if isinstance(item.passage, Span) else item.passage)


def _answer(answer: Answer, texts: Texts) -> Any:
    """[ids, grades, texts, latency, error], what the items stand for, calls."""
    if answer.retrieved is None:
        return None
    grades, *stands_for = _seen(answer)
    calls: list[Any] = []
    if answer.calls is not None:
        calls = [[_call(call) for call in answer.calls]]
        stands_for = stands_for or [None]
    return [
        [str(item.id) for item in answer.retrieved],
        grades,
        [texts.add(item.text) if item.text else None for item in answer.retrieved],
        kept_seconds(answer.latency),
        answer.error,
        *stands_for,
        *calls,
    ]


def _call(call: CallAnswer) -> list[Any]:
    """[query, who asked, ids, grades, whether each is new, latency, error]"""
    return [
        " ".join(call.query.split()),
        call.asked_by,
        [str(item.id) for item in call.retrieved],
        [item.grade for item in call.retrieved],
        [int(is_new) for is_new in call.is_new],
        kept_seconds(call.latency),
        call.error,
    ]


def _seen(answer: Answer) -> list[Any]:
    retrieved = answer.retrieved or ()
    grades = [item.grade for item in retrieved]
    if not any(item.stands_for for item in retrieved):
        return [grades]
    return [
        grades,
        [[str(item_id.id) for item_id in item.stands_for] or None for item in retrieved],
    ]
