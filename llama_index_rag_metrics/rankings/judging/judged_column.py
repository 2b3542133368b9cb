"""What a ranking carries beside its ids, as metrics read it: a class a column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
from typing_extensions import Self

from llama_index_rag_metrics.rankings.judging.hashes import (
    IdLists,
    as_lists,
    check_column,
    check_lengths,
    list_lengths,
)
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.tokens import DocumentTokens, TokenCounter, Tokenizer
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

RankingLike: TypeAlias = "Ranking | Sequence[str]"

ForbiddenIds: TypeAlias = "Mapping[str, Collection[str] | None] | Sequence[Collection[str] | None]"
"""Query id to the ids that its asker may not see, or one collection of ids a query."""

QUERY_ID, RETRIEVED, EXPECTED = "query_id", "retrieved_ids", "expected_ids"
TOKENS = "retrieved_tokens"

_WANTED = "the tokens or the texts of what was retrieved"
_REMEDY = "Give Ranking(ids, tokens=...) or texts, or use a cutoff by rank, such as @10."


@dataclass(frozen=True)
class ColumnSources:
    """What columns are made of where the rankings don't have them; query ids are for errors."""

    query_ids: Sequence[str] | None = None
    tokenizer: Tokenizer | TokenCounter | None = None
    documents: Mapping[str, str] | None = None
    forbidden: ForbiddenIds | None = None

    @property
    def ruler(self) -> DocumentTokens | None:
        """Where the tokens of documents end."""
        return None if self.documents is None else DocumentTokens(self.documents, self.tokenizer)

    def lacks(self, column: str, query: int, ids: object, expected: str, remedy: str) -> Exception:
        query_id = query if self.query_ids is None else self.query_ids[query]
        where = f"ranking of question {query_id!r}"
        return InvalidInput(where, ids, expected, remedy, lacks=column)


NO_SOURCES = ColumnSources()


class Batch(NamedTuple):
    relevance: Sequence[RelevanceLike | None]
    rankings: Sequence[RankingLike]
    sources: ColumnSources = NO_SOURCES


class JudgedTable(NamedTuple):
    """A table, and the ids of its lists without copies; `grade` is that of the expected ones."""

    frame: pl.DataFrame
    retrieved: IdLists
    expected: IdLists
    grade: FloatArray


class JudgedColumn(ABC):
    """What the rankings of a batch carry beside their ids, as flat arrays.

    Attributes:
        name: in the `needs` of metrics and, where it is a field of `Ranking`, that of the field.
        argument: what `compute` calls it.
        fields: the columns of tables and files that hold it.
    """

    name: ClassVar[str]
    argument: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]

    @classmethod
    @abstractmethod
    def of_rankings(cls, batch: Batch) -> Self | None:
        """The column of rankings, copies of items dropped; None where nobody gave it."""

    @classmethod
    def of_table(cls, table: JudgedTable) -> Self | None:
        """The same of a table, whose ids are given without copies."""
        return None

    @classmethod
    def cells(cls, frame: pl.DataFrame) -> Mapping[str, Sequence[Any]]:
        """The fields of `Ranking` that hold it, and the value of each in every row of a table."""
        return {}

    @abstractmethod
    def reranked(self, rank: IntArray, begin: IntArray) -> Self:
        """The same where items have other ranks.

        Args:
            rank: (retrieved,) the new rank of every retrieved item; 0 where it doesn't count.
            begin: (queries,) where each query's items begin there.
        """


@dataclass(frozen=True, eq=False)
class TokenCounts(JudgedColumn):
    """(retrieved,) the length in tokens of every distinct retrieved item, by query, then rank."""

    name = "tokens"
    argument = TOKENS
    fields = (TOKENS,)
    counts: IntArray

    def __post_init__(self) -> None:
        if self.counts.size and self.counts.min() < 0:
            raise InvalidInput("tokens", int(self.counts.min()), "numbers from 0 on")

    @classmethod
    def of_rankings(cls, batch: Batch) -> TokenCounts:
        counter: TokenCounter | None = None
        distinct: list[int] = []
        for query, ranking in enumerate(batch.rankings):
            ids, tokens = ids_of(ranking), getattr(ranking, "tokens", None)
            if tokens is None and len(ids):
                if (texts := getattr(ranking, "texts", None)) is None:
                    raise batch.sources.lacks(cls.name, query, ids, _WANTED, _REMEDY)
                counter = counter or TokenCounter.of(batch.sources.tokenizer)
                tokens = counter.count(texts)
            distinct.extend(first_of_each(ids, () if tokens is None else tokens))
        return cls(np.array(distinct, np.int64))

    @classmethod
    def of_table(cls, table: JudgedTable) -> TokenCounts:
        return cls(table.retrieved.kept(_read_tokens(table.frame)))

    @classmethod
    def cells(cls, frame: pl.DataFrame) -> Mapping[str, Sequence[Any]]:
        _read_tokens(frame)
        return {cls.name: [counts or [] for counts in frame[TOKENS].to_list()]}

    def reranked(self, rank: IntArray, begin: IntArray) -> TokenCounts:
        return TokenCounts(self.counts[rank > 0])


def ids_of(ranking: RankingLike) -> Sequence[str]:
    return ranking.ids if isinstance(ranking, Ranking) else ranking


def first_of_each(ids: Sequence[str], values: Sequence[T]) -> Iterable[T]:
    """What belongs to the items of a ranking that are left when copies are dropped."""
    if len(set(ids)) == len(values):
        return values
    first: dict[str, T] = {}
    for item, value in zip(ids, values, strict=True):
        first.setdefault(item, value)
    return first.values()


def _read_tokens(frame: pl.DataFrame) -> IntArray:
    """(retrieved,) the tokens of every retrieved item, copies included."""
    remedy = "Or use cutoffs by rank, such as @10."
    check_column(frame, TOKENS, ", the tokens of each retrieved id", remedy)
    return np.asarray(item_numbers(frame, TOKENS, whole=True).to_numpy(), np.int64)


def item_numbers(frame: pl.DataFrame, column: str, *, whole: bool = False) -> pl.Series:
    """(retrieved,) the numbers of every retrieved item, copies included, as a column has them."""
    import polars as pl

    lists = as_lists(frame[column])
    inner = lists.dtype.inner if isinstance(lists.dtype, pl.List) else None
    fits = inner is not None and (inner.is_integer() if whole else inner.is_numeric())
    if not (fits or inner == pl.Null):
        expected = f"a list of {'whole ' * whole}numbers in every row"
        raise InvalidInput(f"column {column}", lists.dtype, expected)
    counts, n_ids = list_lengths(frame, column), list_lengths(frame, RETRIEVED)
    check_lengths(frame, column, counts, n_ids, "numbers, one for each retrieved id")
    numbers: pl.Series = lists.filter(pl.Series(counts > 0)).explode()
    if numbers.null_count():
        raise InvalidInput(f"column {column}", None, "a number for each retrieved id")
    cast: pl.Series = numbers.cast(pl.Int64 if whole else pl.Float64)
    return cast
