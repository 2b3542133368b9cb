"""What rankings carry beside their ids, judged: tokens of items, and their places in documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Ranking, Run, first_of_each
from llama_index_rag_metrics.rankings.span import read_span
from llama_index_rag_metrics.runtime.containers import BoolArray, FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput

RankingLike: TypeAlias = "Ranking | Sequence[str]"

Tokenizer: TypeAlias = "Callable[[str], Sequence[Any]] | Any"
"""A function from a text to its tokens, or an object whose `encode` is one."""

TOKENS, SPANS = "tokens", "spans"
_COUNTED = "tokens by {name}, of the texts alone: a prompt may hold metadata of passages, too"


class TokenCounter:
    """Counts the tokens of texts; each distinct text is counted once."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        if tokenizer is None:
            from llama_index.core.utils import get_tokenizer

            tokenizer = get_tokenizer()
        encode = getattr(tokenizer, "encode", tokenizer)
        if not callable(encode) or isinstance(tokenizer, (str, type)):
            raise InvalidInput("tokenizer", tokenizer, "a function from a text to its tokens")
        self.name = _name(tokenizer)
        self._encode = encode
        self._counts: dict[str, int] = {}

    @classmethod
    def of(cls, tokenizer: Tokenizer | TokenCounter | None) -> TokenCounter:
        return tokenizer if isinstance(tokenizer, cls) else cls(tokenizer)

    def count(self, texts: Iterable[str]) -> list[int]:
        counts: list[int] = []
        for text in texts:
            if text not in self._counts:
                tokens = self._encode(text)
                # Hugging Face's tokenizers, called, return a mapping
                if isinstance(tokens, Mapping):
                    tokens = tokens["input_ids"]
                self._counts[text] = len(tokens)
            counts.append(self._counts[text])
        return counts


def _name(tokenizer: Any) -> str:
    function = getattr(tokenizer, "func", tokenizer)  # LlamaIndex's has arguments filled in
    owner = getattr(function, "__self__", function)
    name = getattr(owner, "name", None) or getattr(owner, "name_or_path", None)
    return str(name or getattr(owner, "__qualname__", type(owner).__qualname__))


def needs_of(metrics: Iterable[object]) -> frozenset[str]:
    return frozenset().union(*(getattr(metric, "needs", ()) for metric in metrics))


def ids_of(ranking: RankingLike) -> Sequence[str]:
    return ranking.ids if isinstance(ranking, Ranking) else ranking


def with_tokens(run: Run, tokenizer: Tokenizer | TokenCounter | None) -> Run:
    """A run with the tokens of all its texts counted, for stories as well."""
    rankings, notes, counter = dict(run), run.notes, tokenizer
    for query_id, ranking in run.items():
        if ranking.tokens is None and ranking.texts is not None:
            counter = TokenCounter.of(counter)
            rankings[query_id] = replace(ranking, tokens=counter.count(ranking.texts))
            notes = (*run.notes, _COUNTED.format(name=counter.name))
    counted = run.replaced(rankings, repeats=[with_tokens(time, counter) for time in run.repeats])
    counted.notes = notes
    return counted


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
        texts = getattr(ranking, "texts", None)
        if not len(ids):
            continue
        if tokens is None and texts is not None:
            counter = counter or TokenCounter.of(tokenizer)
            tokens = counter.count(texts)
        if tokens is None:
            remedy = "Give texts or token counts, or use a cutoff by rank, such as @10."
            raise _lacking("tokens or the texts", remedy, query, query_ids, ids)
        counts.extend(first_of_each(ids, tokens))
    for count in counts:
        if not isinstance(count, Integral) or count < 0:
            raise InvalidInput("tokens", count, "whole numbers from 0 on")
    return np.array(counts, np.int64)


def _lacking(
    what: str, remedy: str, query: int, query_ids: Sequence[str] | None, ids: object
) -> InvalidInput:
    query_id = query if query_ids is None else query_ids[query]
    expected = f"the {what} of what was retrieved"
    return InvalidInput(f"ranking of question {query_id!r}", ids, expected, remedy)


@dataclass(frozen=True, eq=False)
class JudgedSpans:
    """Where what was expected and what was retrieved is, on one line of all documents."""

    query: IntArray  # (spans,) the query of each span
    start: IntArray  # (spans,) the first character, ascending; documents lie one after another
    end: IntArray  # (spans,) the character after the last
    rank: IntArray  # (spans,) the rank of a retrieved item; 0 for expected passages
    grade: FloatArray  # (spans,) the grade of an expected passage; 0 for retrieved items

    @classmethod
    def of(
        cls,
        relevance: Sequence[RelevanceLike | None],
        rankings: Sequence[RankingLike],
        query_ids: Sequence[str] | None = None,
    ) -> JudgedSpans:
        rows: list[tuple[float, ...]] = []  # query, start, end, rank, grade, document
        documents: dict[tuple[int, str], int] = {}
        for query, (labels, ranking) in enumerate(zip(relevance, rankings, strict=True)):
            ids, retrieved = ids_of(ranking), getattr(ranking, "spans", None)
            if retrieved is None and len(ids):
                remedy = "Give spans beside the ids, as in Ranking(ids, spans=...)."
                raise _lacking("spans", remedy, query, query_ids, ids)
            judged = Relevance(() if labels is None else labels)
            spans = [(span, 0, judged.grades[item]) for item, span in (judged.spans or {}).items()]
            for rank, place in enumerate(first_of_each(ids, retrieved or ()), 1):
                if place is not None:
                    spans.append((read_span(f"rank {rank}", place, may_be_empty=True), rank, 0.0))
            for (source, *ends), rank, grade in spans:
                document = documents.setdefault((query, source), len(documents))
                rows.append((query, *ends, rank, grade, document))
        columns = np.array(rows, np.float64).reshape(-1, 6).T
        of_query, start, end, ranks, document_of = columns[[0, 1, 2, 3, 5]].astype(np.int64)
        room = np.zeros(len(documents), np.int64)
        np.maximum.at(room, document_of, end)
        begin = (np.cumsum(room) - room)[document_of]
        order = np.argsort(begin + start)
        start, end = (begin + start)[order], (begin + end)[order]
        return cls(of_query[order], start, end, ranks[order], columns[4][order])

    def cover(self, counted: BoolArray, n_queries: int) -> IntArray:
        """(queries,) how many characters the counted spans cover."""
        start, end = self.start[counted], self.end[counted]
        length = end - start
        # only what reaches beyond all spans before is new
        end_so_far = np.maximum.accumulate(end)[:-1]
        length[1:] = np.maximum(end[1:] - np.maximum(start[1:], end_so_far), 0)
        # exact: whole numbers, far below 2**53
        return np.bincount(self.query[counted], length, n_queries).astype(np.int64)
