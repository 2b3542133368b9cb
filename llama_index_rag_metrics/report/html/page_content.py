"""Per-query data embedded in the page: scores for the table, rankings in chunks, and their texts.

Each distinct text is kept once, cut, in compressed chunks, which are unpacked when looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.html.assets import packed
from llama_index_rag_metrics.report.numbers import digits_apart, kept_score, seconds
from llama_index_rag_metrics.report.query_lines import call_outcome, place_of, short_ids_of
from llama_index_rag_metrics.report.whereabouts import LOSSES, Standing, best_place, standings
from llama_index_rag_metrics.report.why import why_lines

CUT = 2000  # how many characters of each text are kept by default
_SHORTEST_CUT = 40  # texts are never cut shorter than this to keep the file small
# characters of text in one chunk: more compress better, fewer open faster
_CHUNK_CHARACTERS = 400_000
_CHUNK_QUERIES = 200

# by how a metric reads labels and where it stops: each loss to the positions of queries
_Lost: TypeAlias = dict[tuple[int, m.Cutoff | None], dict[str, list[int]]]


class Texts:
    """Distinct texts, numbered as they come, each cut to `cut` characters unless that is None."""

    def __init__(self, cut: int | None = CUT) -> None:
        self.cut = cut
        self.starts: list[int] = []  # the number of the first text of each chunk
        self._numbers: dict[str, int] = {}
        self._room = 0

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def n_cut(self) -> int:
        return sum(text != text[: self.cut] for text in self._numbers)

    def add(self, text: str | None) -> int | None:
        if not text:
            return None
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self)
            self._room -= len(text[: self.cut])
            if self._room < 0:
                self.starts.append(number)
                self._room = _CHUNK_CHARACTERS
        return number

    def shorten(self, share: float) -> None:
        """Cut so that at most this share of the characters is left, but to no less than 40."""
        lengths = np.array([len(text) for text in self._numbers])
        longest = int(lengths.max(initial=0)) if self.cut is None else self.cut
        left = share * np.minimum(lengths, longest).sum()
        cuts = range(_SHORTEST_CUT, longest)
        n = bisect_right(cuts, left, key=lambda cut: np.minimum(lengths, cut).sum())
        self.cut = max(_SHORTEST_CUT, _SHORTEST_CUT + n - 1)

    def chunks(self) -> Iterator[list[str | list[str | int]]]:
        """The texts, chunk by chunk; one that was cut as [text, length of the whole]."""
        texts = list(self._numbers)
        for start, end in pairwise([*self.starts, len(texts)]):
            yield [
                text if text == text[: self.cut] else [text[: self.cut], len(text)]
                for text in texts[start:end]
            ]


def packed_texts(texts: Texts, room: int | None) -> list[str]:
    """The chunks of the texts, which are cut shorter until they fit into `room` characters."""
    while True:
        chunks = [packed(chunk) for chunk in texts.chunks()]
        size = sum(map(len, chunks))
        if room is None or size <= room or texts.cut is None or texts.cut <= _SHORTEST_CUT:
            return chunks
        texts.shorten(max(room, 0) / size * 0.98)


@dataclass
class Content:
    """The data of the page: columns for the table of queries; rankings in chunks; their texts."""

    index: dict[str, Any]
    rankings: list[list[dict[str, Any]]]
    texts: Texts


def content_of(queries: m.Queries, cut: int | None) -> Content:
    texts = Texts(cut)
    readings = range(max(queries.matcher_of_metric, default=0) + 1)
    rows = []
    remarks: dict[int, list[str]] = {}
    cutoffs = queries.cutoffs or [None] * len(queries.metrics)
    ways = list(zip(queries.matcher_of_metric, cutoffs, strict=True))
    lost: _Lost = {way: {} for way in ways}
    if queries.answer is not None:
        for position in range(len(queries.ids)):
            by_reading = [queries.answer(position, reading) for reading in readings]
            told = _told(by_reading, position, lost, queries.systems)
            rows.append({**_query(by_reading, texts), "told": told})
            if said := dict.fromkeys(remark for query in by_reading for remark in query.remarks):
                remarks[position] = list(said)
    scores = [
        [[kept_score(score) for score in column] for column in by_system]
        for by_system in queries.scores
    ]
    index = {
        "systems": list(queries.systems),
        "compared": queries.compared,
        "lowerIsBetter": list(queries.lower_is_better),
        "digits": list(map(_digits, scores)),
        "matcherOfMetric": list(queries.matcher_of_metric),
        "cutoffs": [cutoff and cutoff._asdict() for cutoff in queries.cutoffs],
        "lost": list(lost.values()),
        "wayOfMetric": [list(lost).index(way) for way in ways],
        "stages": queries.stages,
        "ofRuns": queries.of_runs,
        "ids": [str(query_id) for query_id in queries.ids],
        "queries": list(queries.texts),
        "scores": scores,
        **queries.failed_or_empty,
        **queries.unanswerable,
        "slices": [
            {"key": slice_key.key, "values": slice_key.values, "ofQuery": slice_key.of_query}
            for slice_key in queries.slices
        ],
        "remarks": remarks,
        "perChunk": _CHUNK_QUERIES,
        "textStarts": texts.starts,
    }
    starts = range(0, len(rows), _CHUNK_QUERIES)
    return Content(index, [rows[start : start + _CHUNK_QUERIES] for start in starts], texts)


def _told(
    by_reading: Sequence[m.QueryAnswers], position: int, lost: _Lost, systems: Sequence[str]
) -> list[Any]:
    """Where passages are, and why some were missed, by way; or the position of an equal one."""
    told: list[Any] = []
    before: list[tuple[int, list[Any]]] = []
    for (reading, cutoff), positions in lost.items():
        query = by_reading[reading]._replace(cutoff=cutoff)
        is_named = any(answer.same_text for answer in query.answers)
        found = standings(query, short_ids_of(query) if is_named else None)
        where = [_where(query, standing, systems) for standing in found]
        seen = (reading, where)
        # equal places have equal reasons
        told.append(before.index(seen) if seen in before else [where, why_lines(query)])
        before.append(seen)
        losses = {place.loss for standing in found for place in standing.places}
        for loss in filter(losses.__contains__, LOSSES):
            positions.setdefault(loss, []).append(position)
    return told


def _digits(by_system: Sequence[Sequence[float | None]]) -> list[int]:
    """Of each query, how many decimals its scores carry."""
    n = max((len(column) - list(column).count(None) for column in by_system), default=0)
    return [digits_apart(scores, n) for scores in zip(*by_system, strict=True)]


def _where(query: m.QueryAnswers, standing: Standing, systems: Sequence[str]) -> list[Any]:
    """[need, 0 met, 1 missed or 2 elsewhere, [[place, whose], …], the best placed alternative]"""
    items = query.wanted[standing.need]
    found = [
        (place, number)
        for number, item in enumerate(items if len(items) > 1 else ())
        for answer in query.answers
        if (place := best_place(answer, [item])) is not None
    ]
    best = [min(found)[1]] if found else []
    loss = standing.is_missed + standing.is_elsewhere
    return [standing.need, loss, standing.words(systems), *best]


def _query(by_reading: Sequence[m.QueryAnswers], texts: Texts) -> dict[str, Any]:
    """What each system answered, and how each way of reading the labels sees it."""
    return {
        "answers": [_answer(answer, texts) for answer in by_reading[0].answers],
        "seen": [
            {
                "wanted": _wanted(each, texts),
                "answers": [_judged(answer, each.wanted) for answer in each.answers],
            }
            for each in by_reading
        ],
    }


def _wanted(query: m.QueryAnswers, texts: Texts) -> dict[str, list[Any]]:
    items = [(number, item) for number, need in enumerate(query.wanted) for item in need]
    in_groups = len(items) > len(query.wanted)
    passages = [item.passage for _, item in items]
    return _columns(
        ids=[str(item.id) for _, item in items],
        grades=[item.grade for _, item in items],
        texts=[texts.add(item.text) for _, item in items],
        passages=[texts.add(each) if isinstance(each, str) else None for each in passages],
        places=[place_of(each) if isinstance(each, Span) else None for each in passages],
        needs=[number if in_groups else None for number, _ in items],
    )


def _answer(answer: m.Answer, texts: Texts) -> dict[str, Any] | None:
    if answer.retrieved is None:
        return None
    calls: Sequence[Any] | None = answer.calls and [
        {
            "query": " ".join(call.query.split()),
            "askedBy": call.asked_by,
            **_came(call.retrieved, texts, call.latency),
        }
        for call in answer.calls
    ]
    came = _came(answer.retrieved, texts, answer.latency)
    return {**came, **_known(error=answer.error, calls=calls)}


def _came(items: Sequence[m.ReportedItem], texts: Texts, latency: float | None) -> dict[str, Any]:
    return {
        "ids": [str(item.id) for item in items],
        **_columns(texts=[texts.add(item.text) for item in items]),
        **_known(latency=None if latency is None else seconds(latency)),
    }


def _judged(answer: m.Answer, wanted: Sequence[Sequence[m.Item]]) -> dict[str, Any]:
    """Grades, why items are hits, unusual ranks, ranks of needs, and positions of wanted texts."""
    retrieved = answer.retrieved or ()
    ids = [item.id for item in retrieved]
    same = {str(wanted): ids.index(came.id) for wanted, came in answer.same_text.items()}
    places = {need: best_place(answer, items) for need, items in enumerate(wanted)}
    found = {str(need): place.rank for need, place in places.items() if place is not None}
    labels = [[str(wanted.id) for wanted in item.stands_for] or None for item in retrieved]
    calls: Sequence[Any] | None = answer.calls and [
        {
            **_graded(call.retrieved),
            "isNew": list(map(int, call.is_new)),
            "outcome": call_outcome(call),
        }
        for call in answer.calls
    ]
    return {
        **_graded(retrieved),
        **_columns(standsFor=labels),
        **_known(ranks=answer.ranks, found=found or None, sameText=same or None, calls=calls),
    }


def _graded(items: Sequence[m.ReportedItem]) -> dict[str, list[Any]]:
    return _columns(
        grades=[item.grade for item in items],
        why=[item.why if item.is_hit else None for item in items],
    )


def _columns(**columns: list[Any]) -> dict[str, list[Any]]:
    """Those in which something is known."""
    return {name: values for name, values in columns.items() if any(v is not None for v in values)}


def _known(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
