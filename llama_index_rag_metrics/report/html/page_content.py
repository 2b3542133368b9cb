"""Per-query data embedded in the page: scores for the table, rankings in chunks, and their texts.

Each distinct text is kept once, cut, and in compressed chunks; the page unpacks only the chunks
that somebody looks at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.html.assets import packed
from llama_index_rag_metrics.report.numbers import kept_score, kept_seconds
from llama_index_rag_metrics.report.query_lines import place_of

CUT = 300
"""How many characters of each text are kept by default."""

_SHORTEST_CUT = 40
"""Texts are never cut shorter than this to keep the file small."""

_CHUNK_CHARACTERS = 400_000
"""Characters of text in one chunk: more compress better, fewer open faster."""

_CHUNK_QUERIES = 200


class Texts:
    """Distinct texts, numbered as they come, each cut to `cut` characters; None keeps them whole.

    >>> texts = Texts(cut=5)
    >>> texts.add("a long text"), texts.add("other"), texts.add("a long text")
    (0, 1, 0)
    >>> list(texts.chunks())
    [[['a lon', 11], 'other']]
    """

    def __init__(self, cut: int | None = CUT) -> None:
        self.cut = cut
        self.starts: list[int] = []  # the number of the first text of each chunk
        self._numbers: dict[str, int] = {}
        self._room = 0

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def n_cut(self) -> int:
        """How many texts are cut."""
        return sum(text != text[: self.cut] for text in self._numbers)

    def add(self, text: str) -> int:
        """The number of a text, which is kept if it's new."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self)
            self._room -= len(text[: self.cut])
            if self._room < 0:
                self.starts.append(number)
                self._room = _CHUNK_CHARACTERS
        return number

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
        texts.cut = max(_SHORTEST_CUT, int(texts.cut * max(room, 0) / size * 0.98))


@dataclass
class Content:
    """The data of the page: columns for the table of queries; rankings in chunks; their texts."""

    index: dict[str, Any]
    rankings: list[list[Any]]
    texts: Texts


def content_of(queries: m.Queries, metric: str, cut: int | None) -> Content:
    """Gather what the page shows: `metric` first, texts cut to `cut` characters."""
    texts = Texts(cut)
    matchers = range(max(queries.matcher_of_metric, default=0) + 1)
    rows = []
    remarks: dict[int, list[str]] = {}
    if queries.answer is not None:
        for position in range(len(queries.ids)):
            by_matcher = [queries.answer(position, matcher) for matcher in matchers]
            rows.append(_query(by_matcher, texts))
            if by_matcher[0].remarks:
                remarks[position] = list(by_matcher[0].remarks)
    index = {
        "systems": list(queries.systems),
        "compared": queries.compared,
        "metrics": list(queries.metrics),
        "lowerIsBetter": list(queries.lower_is_better),
        "shown": list(queries.metrics).index(metric),
        "matcherOfMetric": list(queries.matcher_of_metric),
        "ids": [str(query_id) for query_id in queries.ids],
        "queries": list(queries.texts),
        "scores": [
            [[kept_score(score) for score in column] for column in by_system]
            for by_system in queries.scores
        ],
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


def _query(by_matcher: Sequence[m.QueryAnswers], texts: Texts) -> list[Any]:
    """[wanted, answers] as the first matcher sees them; then the same of each other matcher.

    Of another matcher each answer has only what is its own: [grades, what the items stand for].
    """
    first, *others = by_matcher
    answers = [_answer(answer, texts) for answer in first.answers]
    row: list[Any] = [list(_wanted(first, texts)), answers]
    of_others = [[list(_wanted(each, texts)), list(map(_grades, each.answers))] for each in others]
    return [*row, of_others] if others else row


def _wanted(query: m.QueryAnswers, texts: Texts) -> Iterator[list[Any]]:
    """[id, grade]; with a passage also the number of its text; in groups also that of the group."""
    in_groups = any(len(need) > 1 for need in query.wanted)
    for number, need in enumerate(query.wanted):
        for item in need:
            wanted: list[Any] = [str(item.id), item.grade]
            if item.passage is not None or in_groups:
                passage = place_of(item.passage) if isinstance(item.passage, Span) else item.passage
                wanted.append(None if passage is None else texts.add(passage))
            yield [*wanted, number] if in_groups else wanted


def _answer(answer: m.Answer, texts: Texts) -> Any:
    """[ids, grades, texts, latency, error], what the items stand for, calls."""
    if answer.retrieved is None:
        return None
    grades, *stands_for = _grades(answer)
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


def _call(call: m.CallAnswer) -> list[Any]:
    return [
        " ".join(call.query.split()),
        call.asked_by,
        [str(item.id) for item in call.retrieved],
        [item.grade for item in call.retrieved],
        [int(is_new) for is_new in call.is_new],
        kept_seconds(call.latency),
        call.error,
    ]


def _grades(answer: m.Answer) -> list[Any]:
    """[grades], and what the items stand for, if any isn't itself."""
    retrieved = answer.retrieved or ()
    names = [[str(wanted.id) for wanted in item.stands_for] or None for item in retrieved]
    return [[item.grade for item in retrieved], *([names] if any(names) else [])]
