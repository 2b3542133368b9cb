"""Report: a result as plain data, every number unrounded; what the renderers know, and all of it.

A result's builder makes a `Report`. A renderer turns one into text, a page or a file, and sees
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.figure import Draw

Tone: TypeAlias = Literal["normal", "best", "quiet", "alarm", "open"]
"""How a value or a sentence looks; "open" is what isn't decided."""

Form: TypeAlias = Literal[
    "text",
    "score",
    "signed",
    "range",
    "bounds",
    "change",
    "p",
    "effect",
    "count",
    "tally",
    "share",
    "seconds",
    "outcome",
]
"""What a value is, and so how `numbers.shown` writes it."""

Place: TypeAlias = Literal["summary", "detail", "page"]
"""Where a table is shown: everywhere; not in a paper, and folded where something can be folded; or
only where something can be folded."""


class Cell(NamedTuple):
    """A value of a table.

    Attributes:
        value: the number itself; a text; the numbers of a "share", "tally" or "change"; whether
            "bounds" are "signed"; None where there is no value.
        form: what it is.
        tone: how it looks.
        low: lower end of its interval.
        high: upper end.
        limit: a number that it must be told apart from, however many digits that takes.
    """

    value: float | int | str | tuple[float, ...] | None
    form: Form = "text"
    tone: Tone = "normal"
    low: float | None = None
    high: float | None = None
    limit: float | None = None


class Row(NamedTuple):
    """One line of a table: a label, and a cell a column."""

    label: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        title: what stands above it; "" for nothing.
        head: the heading of each column but the first.
        parts: groups of rows.
        fold: what a page calls the parts behind the first, which it folds; "" for showing them all.
        first: the heading of the column of labels.
        by_system: whether the columns are systems, all alike. Then a narrow output splits the
            table, and marks the best; else it leaves out the last columns and says so.
        place: where it is shown.
        remark: what stands beside the title.
        text_columns: how many of the first columns are texts, and set to the left.
    """

    title: str
    head: Sequence[str]
    parts: Sequence[Sequence[Row]]
    first: str = "metric"
    fold: str = ""
    by_system: bool = False
    place: Place = "summary"
    remark: str = ""
    text_columns: int = 0

    @property
    def rows(self) -> list[Row]:
        """The rows of all parts."""
        return [row for part in self.parts for row in part]


class Statement(NamedTuple):
    """A sentence with what it amounts to, such as "better"; "" where it has no such label.

    A sentence may begin with its label and a colon, which a badge stands for on a page.
    """

    text: str
    tone: Tone = "normal"
    label: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Tables that belong together.

    Attributes:
        heading: on a page, what stands above them.
        tables: the tables.
        text: how they are to be read.
        aside: whether not everybody needs it, so that a page puts it at its end.
        folded: whether a page folds every table.
        notes: remarks on the numbers of these tables, which a page folds.
    """

    heading: str
    tables: Sequence[Table]
    text: str = ""
    aside: bool = False
    folded: bool = False
    notes: Sequence[str] = ()


class Item(NamedTuple):
    """Something that is wanted.

    Attributes:
        id: its id.
        grade: how relevant it is.
        passage: the text or the place by which it is recognised, if not by its id.
    """

    id: str
    grade: float
    passage: str | Span | None = None


class Retrieved(NamedTuple):
    """Something that came.

    Attributes:
        id: its id.
        grade: the best grade of what it stands for; None where nothing of it was judged.
        text: its text, if known.
        stands_for: the wanted items that it was recognised as; empty where it is itself.
    """

    id: str
    grade: float | None
    text: str | None = None
    stands_for: Sequence[Item] = ()


class CallAnswer(NamedTuple):
    """One of the retrievals that a system made for a query.

    Attributes:
        query: what was asked.
        asked_by: the tool or the step that asked; "" where that isn't known.
        retrieved: what came, best first.
        is_new: of each of these, whether no earlier call had it.
        error: how the call failed.
        latency: seconds.
    """

    query: str
    asked_by: str
    retrieved: Sequence[Retrieved]
    is_new: Sequence[bool]
    error: str | None = None
    latency: float | None = None


class Answer(NamedTuple):
    """What one system gave for one query.

    Attributes:
        system: the system's name.
        score: its score.
        retrieved: what came, best first; None where no ranking is known.
        error: why nothing came, where the retriever failed.
        latency: seconds.
        calls: the retrievals that it is the sum of, in order; None where it is one.
    """

    system: str
    score: Cell
    retrieved: Sequence[Retrieved] | None = None
    error: str | None = None
    latency: float | None = None
    calls: Sequence[CallAnswer] | None = None


class QueryAnswers(NamedTuple):
    """One query: what was asked, what was wanted, what came.

    Attributes:
        query_id: the query.
        text: its text; "" where that isn't known.
        wanted: what is relevant, best grade first; any item of an entry meets that need.
        answers: one a system.
        remarks: what else there is to say.
    """

    query_id: str
    text: str
    wanted: Sequence[Sequence[Item]] = ()
    answers: Sequence[Answer] = ()
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """Some of the queries, with what was wanted and what came.

    Attributes:
        title: what they have in common.
        queries: the queries.
        remark: what stands beside the title.
        more: how many there are beyond these.
        most: how many of the items that came are shown; of one the text, too.
        on_request: whether `str()` leaves them out.
    """

    title: str
    queries: Sequence[QueryAnswers]
    remark: str = ""
    more: int = 0
    most: int = 1
    on_request: bool = False


class Failure(NamedTuple):
    """A query on which a retriever failed."""

    system: str
    query_id: str
    error: str


class Term(NamedTuple):
    """What a name in the report means."""

    name: str
    meaning: str


class SliceKey(NamedTuple):
    """A key of the queries' metadata: its values, and the position of each query's value there."""

    key: str
    values: Sequence[str]
    of: Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Queries:
    """Every query by every metric and system, column by column.

    Attributes:
        ids: the queries.
        texts: the text of each; "" where it isn't known.
        metrics: the metrics.
        systems: the systems, the baseline first if there is one.
        compared: whether the first system is a baseline.
        scores: by metric, by system, by query; None where there is no value.
        marked: what became of queries, by system: positions of those that failed or were empty.
        special: positions of the queries that are unjudged or without anything relevant.
        slices: keys of the metadata to filter by.
        ways: of each metric, the number of the way in which it recognises items.
        lower: of each metric, whether less is better.
        answer: (position, number of a way) to what was wanted and what came; None where no
            rankings are known.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    metrics: Sequence[str]
    systems: Sequence[str]
    compared: bool
    scores: Sequence[Sequence[Sequence[float | None]]]
    marked: Mapping[str, Sequence[Sequence[int]]]
    special: Mapping[str, Sequence[int]]
    slices: Sequence[SliceKey]
    ways: Sequence[int]
    lower: Sequence[bool]
    answer: Callable[[int, int], QueryAnswers] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Records:
    """What programs read: columns of equal length, unrounded.

    Attributes:
        columns: name to values.
        index: the column that names the rows, or None.
    """

    columns: Mapping[str, Sequence[Any]]
    index: str | None = None


def headline(metrics: Sequence[str]) -> str:
    """The metric that stands for the others: ndcg where there is one, else the first.

    >>> headline(["mrr", "ndcg@10"])
    'ndcg@10'
    """
    return next((name for name in metrics if name.startswith("ndcg")), next(iter(metrics), ""))


@dataclass(frozen=True, slots=True)
class Report:
    """A result, ready to be shown.

    Attributes:
        title: what it is about.
        lead: how much there is of it, in a few words.
        outcome: whether all is well, in a word.
        decision: what it comes to, the most important first.
        further: what else it says, in words; a page folds it.
        about: what was evaluated and how, as (label, value).
        sections: the tables.
        listings: queries worth a look.
        failures: queries on which a retriever failed.
        notes: what a reader of the numbers should know.
        glossary: what the metrics mean.
        metrics: the names of the metrics.
        primary: the metric that stands for the others; "" takes `headline`.
        figures: kind to what draws it.
        queries: makes the data of every query, for a page; None where there are none.
        records: the numbers for programs.
    """

    title: str
    lead: str = ""
    outcome: Cell | None = None
    decision: Sequence[Statement] = ()
    further: Sequence[Statement] = ()
    about: Sequence[tuple[str, str]] = ()
    sections: Sequence[Section] = ()
    listings: Sequence[Listing] = ()
    failures: Sequence[Failure] = ()
    notes: Sequence[str] = ()
    glossary: Sequence[Term] = ()
    metrics: Sequence[str] = ()
    primary: str = ""
    figures: Mapping[str, Draw] = field(default_factory=dict)
    queries: Callable[[], Queries] | None = field(default=None, repr=False)
    records: Records = field(default=Records({}), repr=False)

    @property
    def headline(self) -> str:
        """The metric that stands for the others."""
        return self.primary or headline(self.metrics)

    def tables(self, *places: Place) -> list[Table]:
        """The tables that belong in certain places, in order."""
        return [
            table for section in self.sections for table in section.tables if table.place in places
        ]
