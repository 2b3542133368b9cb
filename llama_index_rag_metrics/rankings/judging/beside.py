"""What rankings carry beside their ids, judged: tokens of items, and their places in documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from numbers import Integral
from typing import Any, TypeAlias, TypeVar

import numpy as np

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.span import LONGEST, Span
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput

RankingLike: TypeAlias = "Ranking | Sequence[str]"
T = TypeVar("T")

Tokenizer: TypeAlias = "Callable[[str], Sequence[Any]] | Any"
"""A function from a text to its tokens, or an object whose `encode` is one."""

TOKENS, SPANS = "tokens", "spans"

_LINE = 2**63
"""Characters on the line of all documents: a place on it is a whole number of 64 bits."""


class TokenCounter:
    """Counts the tokens of texts; each distinct text is counted once and kept by its hash."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        if tokenizer is None:
            from llama_index.core.utils import get_tokenizer

            tokenizer = get_tokenizer()
        encode = tokenizer if callable(tokenizer) else getattr(tokenizer, "encode", None)
        if not callable(encode) or isinstance(tokenizer, (str, type)):
            raise InvalidInput("tokenizer", tokenizer, "a function from a text to its tokens")
        self.name = _name(tokenizer)
        self._encode = encode
        self._counts: dict[bytes, int] = {}

    @classmethod
    def of(cls, tokenizer: Tokenizer | TokenCounter | None) -> TokenCounter:
        return tokenizer if isinstance(tokenizer, cls) else cls(tokenizer)

    def count(self, texts: Iterable[str]) -> list[int]:
        counts: list[int] = []
        for text in texts:
            key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if key not in self._counts:
                self._counts[key] = _length(self._encode(text))
            counts.append(self._counts[key])
        return counts


def _length(tokens: Any) -> int:
    """How many tokens: those of Hugging Face come as a mapping, or as an encoding with ids."""
    ids = tokens.get("input_ids", tokens) if hasattr(tokens, "get") else tokens
    return len(getattr(ids, "ids", ids))


def _name(tokenizer: Any) -> str:
    while isinstance(tokenizer, partial):
        tokenizer = tokenizer.func
    owner = getattr(tokenizer, "__self__", tokenizer)
    for attribute in ("name", "name_or_path"):
        name = getattr(owner, attribute, None)
        if isinstance(name, str) and name:
            return name
    return str(getattr(tokenizer, "__qualname__", type(tokenizer).__qualname__))


def needs_of(metrics: Iterable[object]) -> frozenset[str]:
    """What metrics read beside ids: "tokens", "spans"."""
    return frozenset().union(*(getattr(metric, "needs", ()) for metric in metrics))


def compute_arguments(metric: object, ranking: Ranking) -> dict[str, Any]:
    """What `metric.compute` is given of a ranking beside its ids."""
    return {f"retrieved_{name}": getattr(ranking, name) for name in needs_of([metric])}


def ids_of(ranking: RankingLike) -> Sequence[str]:
    return ranking.ids if isinstance(ranking, Ranking) else ranking


def first_of_each(ids: Sequence[str], values: Sequence[T]) -> Iterable[T]:
    """What belongs to the items of a ranking that are left when copies are dropped."""
    if len(set(ids)) == len(values):
        return values
    value_of: dict[str, T] = {}
    for item, value in zip(ids, values, strict=True):
        value_of.setdefault(item, value)
    return value_of.values()


def token_counts(
    rankings: Sequence[RankingLike],
    tokenizer: Tokenizer | TokenCounter | None = None,
    query_ids: Sequence[str] | None = None,
) -> IntArray:
    """(retrieved,) the length in tokens of every distinct item; texts are counted where need be."""
    counter: TokenCounter | None = None
    counts: list[int] = []
    for query, ranking in enumerate(rankings):
        ids, tokens = ids_of(ranking), getattr(ranking, "tokens", None)
        if not len(ids):
            continue
        if tokens is None:
            texts = getattr(ranking, "texts", None)
            if texts is None:
                remedy = (
                    "Give Ranking(ids, tokens=...) or texts, or use a cutoff by rank, such as @10."
                )
                raise _lacking(TOKENS, "tokens or the texts", remedy, query, query_ids, ids)
            counter = counter or TokenCounter.of(tokenizer)
            tokens = counter.count(texts)
        counts.extend(first_of_each(ids, tokens))
    for count in counts:
        if not isinstance(count, Integral) or count < 0:
            raise InvalidInput("tokens", count, "whole numbers from 0 on")
    return np.array(counts, np.int64)


def _lacking(
    name: str, what: str, remedy: str, query: int, query_ids: Sequence[str] | None, ids: object
) -> InvalidInput:
    query_id = query if query_ids is None else query_ids[query]
    expected = f"the {what} of what was retrieved"
    return InvalidInput(f"ranking of question {query_id!r}", ids, expected, remedy, lacks=name)


@dataclass(frozen=True, eq=False)
class JudgedSpans:
    """Where what was expected and what was retrieved is, on one line of all documents."""

    query: IntArray  # (spans,) of each span
    start: IntArray  # (spans,) the first character, ascending; documents lie one after another
    end: IntArray  # (spans,) the character after the last
    rank: IntArray  # (spans,) the rank of a retrieved item; 0 for expected passages
    grade: FloatArray  # (spans,) the grade of an expected passage; 0 for retrieved items
    _covered: dict[object, IntArray] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        relevance: Sequence[RelevanceLike | None],
        rankings: Sequence[RankingLike],
        query_ids: Sequence[str] | None = None,
    ) -> JudgedSpans:
        """The spans of a batch, copies of items dropped."""
        spans: list[Span] = []
        numbers: list[tuple[int, int, float]] = []  # query, rank, grade
        for query, (labels, ranking) in enumerate(zip(relevance, rankings, strict=True)):
            ids, retrieved = ids_of(ranking), getattr(ranking, "spans", None)
            if retrieved is None and len(ids):
                remedy = "Give Ranking(ids, spans=...)."
                raise _lacking(SPANS, "spans", remedy, query, query_ids, ids)
            judged = Relevance(() if labels is None else labels)
            for item, span in (judged.spans or {}).items():
                spans.append(span)
                numbers.append((query, 0, judged.grades[item]))
            for rank, place in enumerate(first_of_each(ids, retrieved or ()), 1):
                if place is not None:
                    spans.append(place)
                    numbers.append((query, rank, 0.0))
        query_of, rank_of, grade = np.array(numbers, np.float64).reshape(-1, 3).T
        start, end = _on_one_line(spans, query_of)
        order = np.argsort(start)
        query_of, rank_of = query_of.astype(np.int64), rank_of.astype(np.int64)
        return cls(query_of[order], start[order], end[order], rank_of[order], grade[order])

    @cached_property
    def is_retrieved(self) -> BoolArray:
        return np.asarray(self.rank > 0, np.bool_)

    def cover(self, key: object, counted: BoolArray, n_queries: int) -> IntArray:
        """(queries,) how much the counted spans cover; remembered by its key."""
        if key not in self._covered:
            start, end = self.start[counted], self.end[counted]
            length = end - start
            # only what reaches beyond all spans before is new
            end_so_far = np.maximum.accumulate(end)[:-1]
            length[1:] = np.maximum(end[1:] - np.maximum(start[1:], end_so_far), 0)
            # exact: whole numbers, far below 2**53
            covered = np.bincount(self.query[counted], length, n_queries)
            self._covered[key] = covered.astype(np.int64)
        return self._covered[key]


def _on_one_line(spans: Sequence[Span], query: FloatArray) -> tuple[IntArray, IntArray]:
    """(spans,) the starts and ends of spans whose documents lie one after another, by query."""
    place = np.array([span[1:] for span in spans], np.float64).reshape(-1, 2)
    is_wrong = (place[:, 0] < 0) | (place[:, 1] < place[:, 0]) | (place[:, 1] > LONGEST)
    if is_wrong.any():
        expected = "a first character from 0 on, and an end that isn't before it"
        raise InvalidInput(
            "span", spans[int(is_wrong.argmax())], f"{expected}, at most {LONGEST:,}"
        )
    number: dict[tuple[float, str], int] = {}
    pairs = zip(query.tolist(), spans, strict=True)
    documents = [number.setdefault((row, span[0]), len(number)) for row, span in pairs]
    start, end = place.astype(np.int64).T
    room = int(end.max(initial=0)) + 1
    if len(number) * room >= _LINE:
        expected = f"at most {_LINE // room:,} documents of such a length"
        raise InvalidInput("spans", f"an end of {room - 1:,}", expected)
    begin = np.array(documents, np.int64) * room
    return begin + start, begin + end
