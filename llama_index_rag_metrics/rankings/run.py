"""Run: what was retrieved, query by query."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain, compress
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from llama_index_rag_metrics.runtime.containers import FloatArray, map_values, picked, present
from llama_index_rag_metrics.runtime.errors import InvalidInput, check_amount
from llama_index_rag_metrics.runtime.masking import describe_error

from .span import Span

T = TypeVar("T")

PER_ITEM = ("ids", "scores", "texts", "spans", "tokens")
_UNSCORED = (
    "Return nodes that have scores. Those of an agent's several calls don't compare: put "
    "SimilarityPostprocessor into the engine that its tool asks."
)
_CUT_BEST = "most scores rise with the rank, as distances do: min_score leaves out the best"
_CUT_ALL = (
    "min_score leaves nothing of {n:,} of {rankings:,} rankings: the highest score of all is "
    "{highest:g}"
)
_FEW = 10  # one ranking in this many is next to nothing


@dataclass(frozen=True, slots=True, repr=False)
class Ranking:
    """What was retrieved for one query, best first.

    Attributes:
        ids: the retrieved ids, best first, as returned: an id may repeat.
        scores: the retriever's score of each item, if it gave any.
        texts: the text of each item.
        latency: seconds that retrieval took, while other workers asked their queries.
        error: what went wrong, where retrieval failed, keys masked; the ranking is then empty.
        spans: where each item is in its document, or None where that isn't known.
        tokens: how many tokens each item has; for cutoffs by tokens.
        concurrency: how many queries ran at once with this one, itself included.
        calls: the calls that make up the ranking, in order, where the question could have several.

    Raises:
        InvalidInput: a column is no list, or hasn't a value for each id.

    Examples:
        >>> from llama_index_rag_metrics import read_run
        >>> ranking = read_run({"q1": {"d1": 0.4, "d2": 0.9}})["q1"]
        >>> ranking.ids, ranking.scores
        (['d2', 'd1'], [0.9, 0.4])
    """

    ids: Sequence[str] = field(default_factory=list)
    scores: Sequence[float | None] | None = None
    texts: Sequence[str] | None = None
    latency: float | None = None
    error: str | None = None
    spans: Sequence[Span | None] | None = None
    tokens: Sequence[int] | None = None
    concurrency: int | None = field(default=None, compare=False)
    calls: Sequence[Call] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if type(self.ids) in (list, tuple) and "" in self.ids:
            raise InvalidInput("ids", self.ids, "an id of every passage, a text that isn't empty")
        for name, column in item_columns(self).items():
            if type(column) is not list and not has_order(column):
                raise InvalidInput(name, column, "a list, best first")
            if len(column) != len(self.ids):
                raise InvalidInput(name, len(column), f"one for each of the {len(self.ids)} ids")
        if type(self.ids) is list:  # the caller may change it later
            object.__setattr__(self, "ids", [*self.ids])
        if self.error == "":  # as tables have it where nothing went wrong
            object.__setattr__(self, "error", None)
        elif self.error is not None:
            object.__setattr__(self, "error", describe_error(self.error))
            for name in item_columns(self):
                object.__setattr__(self, name, [])

    def __repr__(self) -> str:
        if self.error is not None:
            return f"<{type(self).__name__}: failed: {self.error!r}>"
        return f"<{type(self).__name__} of {len(self.ids):,}: {reprlib.repr(list(self.ids[:7]))}>"

    def at_least(self, min_score: float, query_id: str = "") -> Ranking:
        """The ranking of the items with this score or more, as behind SimilarityPostprocessor."""
        check_min_score(min_score)
        scores: Sequence[Any] = [None] * len(self.ids) if self.scores is None else self.scores
        if not all(map(_is_number, scores)):
            argument = f"scores of question {query_id!r}" if query_id else "scores"
            expected = "a score of every retrieved passage, a number"
            raise InvalidInput(argument, self.scores, expected, _UNSCORED)
        return self.only([float(score) >= min_score for score in scores])

    def without_copies(self, *columns: Sequence[Hashable]) -> Ranking:
        """The ranking of the items that differ from all above in id, or in one of the columns."""
        items = list(zip(self.ids, *columns, strict=True))
        positions = range(len(items))
        is_first = set(first_of_each(items, positions)).__contains__
        return self.only(list(map(is_first, positions)))

    def only(self, is_kept: Sequence[bool]) -> Ranking:
        if all(is_kept):
            return self
        columns = item_columns(self)
        for name, column in columns.items():
            columns[name] = list(compress(column, is_kept))
        return replace(self, **columns)


@dataclass(frozen=True, slots=True, repr=False)
class Call(Ranking):
    """One of several retrievals that were made for a question, by an agent or a workflow.

    Only the outermost counts. The columns are those of `Ranking`.

    Attributes:
        query: what was asked; an agent's own words, not the question's.
        asked_by: the tool or the step that asked, "" where that isn't known.

    Examples:
        >>> Call(["d3", "d1"], query="moons of Saturn", asked_by="search").ids
        ['d3', 'd1']
    """

    query: str = field(default="", kw_only=True)
    asked_by: str = field(default="", kw_only=True)


def combine_calls(calls: Sequence[Call]) -> Ranking:
    """Combine the calls of a question into its ranking: their items in order, copies dropped."""
    answered = [call for call in calls if call.ids]
    columns: dict[str, Any] = {}
    for name in PER_ITEM:
        per_call = [getattr(call, name) for call in answered]
        if answered and not any(column is None for column in per_call):
            columns[name] = list(chain.from_iterable(per_call))
    if len(answered) != 1:  # scores of several calls don't compare
        columns["scores"] = None
    latencies = list(map(attrgetter("latency"), calls))
    if calls and None not in latencies:
        columns["latency"] = sum(latencies)
    return Ranking(**columns, calls=tuple(calls)).without_copies()


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds a query took: percentiles over the queries that were timed and didn't fail."""

    n: int
    p50: float
    p95: float
    p99: float
    concurrency: int | None = None  # how many were asked at once; None if not known, or varied


class Run(Mapping[str, Ranking]):
    """The rankings of a retriever, by query id, in the order in which they were added.

    Args:
        rankings: query id to ranked ids, or to a `Ranking`.
        name: what to call the retriever in reports.
        queries: query id to its text, where the source of the rankings holds it, as traces do.
        metadata: query id to its metadata, such as its conversation, where the source holds them.
        notes: what a reader should know about how the rankings came about.
        repeats: a run for each time that questions were asked; without `rankings` the first counts.

    Attributes:
        min_score: the score below which passages are known to be left out; None for none.
        label_notes: those of the notes that first lines repeat, since the scores may be wrong.
        is_log: whether labelled questions that aren't in it weren't asked, and aren't scored.

    Examples:
        >>> run = Run({"q1": ["d3", "d1"]}, name="bm25")
        >>> list(run["q1"].ids)
        ['d3', 'd1']
    """

    def __init__(
        self,
        rankings: Mapping[str, Ranking | Sequence[str]] | None = None,
        *,
        name: str = "",
        queries: Mapping[str, str] | None = None,
        metadata: Mapping[str, Mapping[str, Any]] | None = None,
        notes: Iterable[str] = (),
        repeats: Iterable[Run] = (),
    ) -> None:
        if rankings is not None and not isinstance(rankings, Mapping):
            remedy = "read_run() reads runs of ranx, files, frames and lists of records."
            raise InvalidInput("run", rankings, "a mapping of query id to ranking", remedy)
        self.name = name
        self.queries = dict(queries or {})
        self.metadata = dict(metadata or {})
        self.notes = tuple(notes)
        self.repeats = tuple(repeats)
        self.min_score: float | None = None
        self.label_notes: tuple[str, ...] = ()
        self.is_log = False
        self._rankings: dict[str, Ranking] = {}
        sources = self.repeats if rankings is None else [rankings]
        for query_id, ranking in chain.from_iterable(source.items() for source in sources):
            if query_id not in self._rankings:
                if not isinstance(ranking, Ranking):
                    ranking = Ranking(ranked_ids(ranking, f"ranking of question {query_id!r}"))  # noqa: PLW2901
                self._rankings[query_id] = ranking

    @property
    def failed(self) -> dict[str, str]:
        """Query id to error of the queries on which the retriever failed."""
        return present(map_values(attrgetter("error"), self))

    @property
    def calls(self) -> dict[str, Sequence[Call]]:
        """Query id to its calls, in order, for the queries that could have several."""
        return present(map_values(attrgetter("calls"), self))

    @property
    def every_ranking(self) -> list[Ranking]:
        """All rankings, of every time that a question was asked."""
        return list(chain.from_iterable(map(Run.values, self.repeats or [self])))

    @property
    def depth(self) -> int:
        """How many items were retrieved for a query at most."""
        return max((len(ranking.ids) for ranking in self.every_ranking), default=0)

    @property
    def latency(self) -> Latency | None:
        """Percentiles of the seconds that a query took; failed ones are left out. None: no time."""
        seconds: list[float] = []
        at_once: set[int | None] = set()
        for ranking in self.every_ranking:
            if ranking.error is None and ranking.latency is not None:
                seconds.append(ranking.latency)
                at_once.add(ranking.concurrency)
        if not seconds:
            return None
        p50, p95, p99 = np.percentile(seconds, [50, 95, 99]).tolist()
        return Latency(len(seconds), p50, p95, p99, at_once.pop() if len(at_once) == 1 else None)

    @property
    def mean_tokens(self) -> float | None:
        """The tokens of what a query that didn't fail retrieved, copies dropped; None: unknown."""
        spent: list[int] = []
        for ranking in self.every_ranking:
            if ranking.error is None:
                if ranking.tokens is None:
                    return None
                spent.append(sum(first_of_each(ranking.ids, ranking.tokens)))
        return float(np.mean(spent)) if spent else None

    def at_least(self, min_score: float) -> Run:
        """The run without items below this score; notes say what looks wrong about the scores.

        Raises:
            InvalidInput: an item has no score; names the query. Or `min_score` is no number.

        Examples:
            >>> dict(Run({"q1": Ranking(["a", "b"], scores=[0.9, 0.2])}).at_least(0.5))["q1"].ids
            ['a']
        """
        rankings = {key: ranking.at_least(min_score, key) for key, ranking in self.items()}
        cut = self.replaced(rankings, repeats=(run.at_least(min_score) for run in self.repeats))
        cut.min_score = min_score if self.min_score is None else max(min_score, self.min_score)
        scores: list[Any] = []
        n_before = n_left = n_rising = 0
        for query_id, ranking in self.items():
            scores += ranking.scores or ()
            n_before += bool(ranking.ids)
            n_left += bool(rankings[query_id].ids)
            n_rising += slope(ranking.scores)
        if n_rising > 0:
            cut.notes += (_CUT_BEST,)
        if n_before and n_left * _FEW <= n_before:
            fields = {"n": n_before - n_left, "rankings": n_before}
            cut.notes += (_CUT_ALL.format(highest=max(scores), **fields),)
        return cut

    def replaced(self, rankings: Mapping[str, Ranking], *, repeats: Iterable[Run] = ()) -> Run:
        """A run with other rankings and repeats; all else is kept."""
        about: dict[str, Any] = {"queries": self.queries, "metadata": self.metadata}
        run = Run(rankings, name=self.name, notes=self.notes, repeats=repeats, **about)
        run.min_score, run.is_log = self.min_score, self.is_log
        run.label_notes = self.label_notes
        return run

    def select(self, query_ids: Iterable[str]) -> Run:
        """The run for some of the queries only."""
        query_list = list(query_ids)
        repeats = (run.select(picked(run, query_list)) for run in self.repeats)
        return self.replaced({query_id: self[query_id] for query_id in query_list}, repeats=repeats)

    def __getitem__(self, query_id: str) -> Ranking:
        return self._rankings[query_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rankings)

    def __len__(self) -> int:
        return len(self._rankings)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run) or self.repeats != other.repeats:
            return False
        return self._rankings == other._rankings

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        name = "".join(filter(str.isprintable, self.name)) or "unnamed"
        times = f" {len(self.repeats)} times" * bool(self.repeats)
        return f"<Run {name}: {len(self):,} questions{times}, {len(self.failed):,} failed>"


def first_of_each(ids: Sequence[Hashable], values: Sequence[T]) -> Iterable[T]:
    """Return the value of each item of a ranking; of copies, the first one's."""
    value_of: dict[Hashable, T] = {}
    for item, value in zip(ids, values, strict=True):
        value_of.setdefault(item, value)
    return value_of.values()


def item_columns(items: Ranking) -> dict[str, Any]:
    return present({name: getattr(items, name) for name in PER_ITEM})


def slope(scores: Sequence[float | None] | FloatArray | None) -> int:
    """Return 1 where scores rise from first to last, as distances do; -1 where they fall; or 0."""
    if scores is None or not len(scores) or scores[0] is None or scores[-1] is None:
        return 0
    return int(scores[-1] > scores[0]) - int(scores[-1] < scores[0])


def _is_number(score: Any) -> bool:
    try:
        return not math.isnan(score)
    except (TypeError, OverflowError):  # no number, or a whole one beyond all floats
        return False


def check_min_score(value: object) -> None:
    if value is not None:
        check_amount("min_score", value, "a finite number, or None for all", math.isfinite)


def has_order(collection: object) -> bool:
    """Whether a collection can be a ranking: a set's order is another one in every process."""
    if type(collection) in (list, tuple):  # most are, and the tests below take their time
        return True
    is_unordered = isinstance(collection, (str, bytes, Mapping, AbstractSet))
    return isinstance(collection, Iterable) and not is_unordered


def ranked_ids(ranking: Any, argument: str = "retrieved_ids") -> list[str]:
    if not has_order(ranking):
        remedy = "Write one id as ['id']; read_run() orders {question id: {id: score}}."
        raise InvalidInput(argument, ranking, "a list of ids, best first", remedy)
    return list(ranking)
