"""What a ranking carries beside its ids, as metrics read it: a class a column."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from llama_index_rag_metrics.rankings.judging import hashes
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.rankings.run import SCORED, UNSCORED, Ranking, is_number
from llama_index_rag_metrics.rankings.tokens import TokenCounter, Tokenizer
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.lazy import Lazy

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Lazy("polars")

T = TypeVar("T")

RankingLike: TypeAlias = "Ranking | Sequence[str]"

QUERY_ID, RETRIEVED, EXPECTED = "query_id", "retrieved_ids", "expected_ids"
TOKENS, SCORES = "retrieved_tokens", "scores"

_WANTED = "the tokens or the texts of what was retrieved"
_REMEDY = "Give Ranking(ids, tokens=...) or texts, or use a cutoff by rank, such as @10."


@dataclass(frozen=True)
class ColumnSources:
    """What columns are made of where the rankings don't have them; query ids are for errors."""

    query_ids: Sequence[str] | None = None
    tokenizer: Tokenizer | TokenCounter | None = None

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
    retrieved: hashes.IdLists
    expected: hashes.IdLists
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
        """The same for (retrieved,) new ranks, 0 for none, and where each query's items begin."""


@dataclass(frozen=True, eq=False)
class ItemNumbers(JudgedColumn):
    """(retrieved,) a number of every distinct retrieved item, that of its first rank."""

    values: npt.NDArray[Any]

    @classmethod
    @abstractmethod
    def read(cls, frame: pl.DataFrame) -> npt.NDArray[Any]:
        """(retrieved,) the numbers of every retrieved item of a table, copies included."""

    @classmethod
    def of_table(cls, table: JudgedTable) -> Self:
        return cls(table.retrieved.kept(cls.read(table.frame)))

    @classmethod
    def cells(cls, frame: pl.DataFrame) -> Mapping[str, Sequence[Any]]:
        cls.read(frame)
        return {cls.name: [row or [] for row in hashes.as_lists(frame[cls.fields[0]]).to_list()]}

    def reranked(self, rank: IntArray, begin: IntArray) -> Self:
        return type(self)(self.values[rank > 0])


@dataclass(frozen=True, eq=False)
class TokenCounts(ItemNumbers):
    """The length of each item in tokens."""

    name = "tokens"
    argument = TOKENS
    fields = (TOKENS,)

    def __post_init__(self) -> None:
        if self.counts.size and self.counts.min() < 0:
            raise InvalidInput("tokens", int(self.counts.min()), "numbers from 0 on")

    @property
    def counts(self) -> IntArray:
        return self.values

    @classmethod
    def of_rankings(cls, batch: Batch) -> Self:
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
    def read(cls, frame: pl.DataFrame) -> IntArray:
        remedy = "Or use cutoffs by rank, such as @10."
        hashes.check_column(frame, TOKENS, ", the tokens of each retrieved id", remedy)
        return np.asarray(_item_numbers(frame, TOKENS, whole=True).to_numpy(), np.int64)


class RetrievalScores(ItemNumbers):
    """The retriever's score of each item; thresholds are on these."""

    name = SCORES
    argument = "retrieved_scores"
    fields = (SCORES,)

    @classmethod
    def of_rankings(cls, batch: Batch) -> Self:
        distinct: list[float] = []
        for query, ranking in enumerate(batch.rankings):
            if ids := ids_of(ranking):
                scores = getattr(ranking, SCORES, None)
                if scores is None or not all(map(is_number, scores)):
                    raise batch.sources.lacks(cls.name, query, scores, SCORED, UNSCORED)
                distinct.extend(first_of_each(ids, scores))
        return cls(np.array(distinct, np.float64))

    @classmethod
    def read(cls, frame: pl.DataFrame) -> FloatArray:
        hashes.check_column(frame, SCORES, ", the retriever's scores of the retrieved ids")
        scores = np.asarray(_item_numbers(frame, SCORES).to_numpy(), np.float64)
        if np.isnan(scores).any():
            raise InvalidInput(f"column {SCORES}", math.nan, SCORED)
        return scores


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


def _item_numbers(frame: pl.DataFrame, column: str, *, whole: bool = False) -> pl.Series:
    """(retrieved,) the numbers of every retrieved item, copies included, as a column has them."""
    lists = hashes.as_lists(frame[column])
    inner = lists.dtype.inner if isinstance(lists.dtype, pl.List) else None
    fits = inner is not None and (inner.is_integer() if whole else inner.is_numeric())
    if not (fits or inner == pl.Null):
        expected = f"a list of {'whole ' * whole}numbers in every row"
        raise InvalidInput(f"column {column}", lists.dtype, expected)
    counts, n_ids = hashes.list_lengths(frame, column), hashes.list_lengths(frame, RETRIEVED)
    hashes.check_lengths(frame, column, counts, n_ids, "numbers, one for each retrieved id")
    numbers: pl.Series = lists.filter(pl.Series(counts > 0)).explode()
    if numbers.null_count():
        raise InvalidInput(f"column {column}", None, "a number for each retrieved id")
    cast: pl.Series = numbers.cast(pl.Int64 if whole else pl.Float64)
    return cast
