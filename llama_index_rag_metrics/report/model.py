"""Report: a result as plain data, every number unrounded, which renderers turn into an output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index_rag_metrics.runtime.masking import join_first

from .text import excerpt, passage_line

VARIES = "score varies"  # said of a question that runs score differently
MOST_ABREAST = 4  # systems that stand side by side; of more each has a row, the best first

# how a value or a sentence looks: better, worse or failed, undecided
Tone: TypeAlias = Literal["normal", "best", "quiet", "alarm", "open"]
# what a value is, and so how `numbers.shown` writes it
Several: TypeAlias = Literal["range", "bounds", "tally"]
Form: TypeAlias = Literal["text", "outcome", "score", "signed", "count", "seconds", Several]


class Cell(NamedTuple):
    # of "tally" three numbers; of "bounds" "signed" or not
    value: float | int | str | tuple[float, ...] | None
    form: Form = "text"
    tone: Tone = "normal"
    low: float | None = None
    high: float | None = None
    limit: float | None = None  # what it must be told apart from, however many digits that takes
    digits: int = 4  # how many decimals it carries, and its interval
    losses: str = ""  # a click shows the questions that lost passages in one of these ways: "a|b"

    @classmethod
    def of(cls, value: float | None, form: Form, tone: Tone = "normal") -> Cell:
        if value is None or (form == "count" and not value):
            tone = "quiet"
        return cls(value, form, tone)


class Row(NamedTuple):
    label: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    title: str  # "" for none
    head: Sequence[str]
    rows: Sequence[Row]
    label_head: str = "system"  # the heading of the column of labels
    is_detail: bool = False  # whether a page folds it
    text: str = ""  # how to read it
    n_core: int = 0  # columns of values that a narrow screen shows unasked; 0 for all

    def is_text(self, column: int) -> bool:
        return all(row.cells[column].form in ("text", "outcome") for row in self.rows)


class Statement(NamedTuple):
    """A sentence; its label and colon, if it begins with them, become a badge on a page."""

    text: str
    tone: Tone = "normal"
    label: str = ""
    losses: str = ""  # as a cell's


class Wanted(NamedTuple):
    """A passage that a metric wants, or alternatives of which one is enough."""

    ids: Sequence[str]
    name: str  # with its grade, ids shortened
    text: str = ""  # what it says, from the corpus or from any system that retrieved it
    ranks: Sequence[int | None] = ()  # of each system, also beyond the cutoff
    losses: Sequence[str] = ()  # how each system, or the last stage, lost it; "" where it didn't
    where: str = ""  # where the systems have it or how they lost it, in words
    remark: str = ""  # the same without ranks, which a page has in columns
    places: Sequence[str] = ()  # "hit" or "lost" of each system or stage, "" where nobody knows
    is_missed: bool = False  # by every system; of stages by the last one
    grade: str = ""  # as in the name

    def __str__(self) -> str:
        line = self.name
        passage = excerpt(self.text)
        if passage:
            line += f" “{passage}”"
        if self.where:
            line += f": {self.where}"
        return line


class ReportedItem(NamedTuple):
    id: str
    name: str  # with its grade, the id shortened
    text: str | None = None
    rank: int | None = None  # None for a copy
    is_hit: bool = False  # whether it is relevant to the metric
    grade: str = ""  # of its label, or its score by a metric of texts, as in the name

    def __str__(self) -> str:
        place = "again:" if self.rank is None else f"{self.rank}."
        return f"{place} {self.name}  {passage_line(self.text)}".rstrip()


class ReportedAnswer(NamedTuple):
    system: str
    score: Cell
    retrieved: Sequence[ReportedItem] | None = None  # best first; None where none is known
    error: str | None = None
    searches: Sequence[str] | None = None  # an agent's, in words; None where it made none itself

    @property
    def outcome(self) -> str:
        """Why there are no passages; "" where there are some, or nobody knows."""
        if self.error is not None:
            return f"failed: {self.error}"
        if self.searches is not None and not self.searches:
            return "no search was made"
        if self.retrieved is not None and not self.retrieved:
            return "nothing retrieved"
        return ""


class QueryAnswers(NamedTuple):
    query_id: str
    text: str  # "" where it isn't known
    wanted: Sequence[Wanted] = ()  # what was missed first
    answers: Sequence[ReportedAnswer] = ()
    why: Sequence[str] = ()  # how many of the relevant passages were lost, and how
    summary: Sequence[str] = ()  # the same in fewer words
    remarks: Sequence[str] = ()
    left_out: str = ""  # why metrics of labels leave it out; "" where they don't
    legend: str = ""  # what the numbers in brackets are
    cutoff: int | None = None  # after how many passages the metric stops reading
    measure: str = ""  # what the grades of its passages are; "" where none tells them apart

    @property
    def is_of_many(self) -> bool:
        return len(self.answers) > MOST_ABREAST

    def more_wanted(self, n_listed: int) -> str:
        n = len(self.wanted) - n_listed
        return f"and {n:,} more relevant" * (n > 0)


@dataclass(frozen=True, slots=True)
class Listing:
    title: str
    queries: Sequence[QueryAnswers]
    n_unlisted: int = 0  # how many there are beyond these
    n_items: int = 1  # how many retrieved items of each answer a text shows; 0: the scores alone
    n_wanted: int = 5  # how many relevant passages of a question it lists
    on_request: str = ""  # where to find them, as `str()` leaves them out and says that instead
    lead: str = ""  # sentences shown below it

    @property
    def more_in_words(self) -> str:
        return f"and {self.n_unlisted:,} more" * (self.n_unlisted > 0)

    @property
    def legend(self) -> str:
        return next((query.legend for query in self.queries if query.legend), "")

    @classmethod
    def of(
        cls, title: str, remarks: Sequence[tuple[str, str, Sequence[str]]], n_listed: int
    ) -> Listing:
        n, queries = len(remarks), []
        for query_id, text, lines in remarks[:n_listed]:
            queries.append(QueryAnswers(query_id, text, remarks=lines))
        return cls(f"{title}: {n:,}", queries, n - len(queries))


class Failure(NamedTuple):
    system: str
    error: str
    query_ids: Sequence[str]

    @property
    def text(self) -> str:
        return f"{self.error} ({join_first(list(dict.fromkeys(self.query_ids)), 3)})"


@dataclass(frozen=True, slots=True)
class Queries:
    metric: str
    systems: Sequence[str]  # as the answers of each question have them
    stories: Iterable[QueryAnswers]
    compared: bool = False  # whether the first system is the baseline
    stages: bool = False  # whether the baseline of a system is the one before it
    lower_is_better: bool = False
    of_runs: bool = False  # whether the systems are the runs of one, and their mean
    places: Mapping[str, int] = field(default_factory=dict)  # as asked, where another order is


class Mark(NamedTuple):
    x: float
    y: float | str  # in "points", the metric whose row it is
    title: str = ""  # shown under the pointer
    low: float | None = None
    high: float | None = None
    label: str = ""  # written beside it


class Series(NamedTuple):
    name: str
    number: int  # the system's position, for its colour and symbol
    marks: Sequence[Mark]


class Figure(NamedTuple):
    form: Literal["points", "lines", "marks"]
    x: str  # the title of the axis
    y: str
    series: Sequence[Series]
    has_zero_line: bool = False  # whether a line marks x = 0


CAPTIONS: Mapping[str, str] = {
    "differences": "Differences from the baseline, with intervals",
    "by_cutoff": "By cutoff k",
    "tradeoff": "Quality against tokens (numbers are ranks)",
}

# makes a figure; None where there is nothing to draw
Draw: TypeAlias = Callable[[], "Figure | None"]


@dataclass(frozen=True, slots=True)
class Records:
    """Columns of equal length, unrounded, for programs; `index` is the one that names the rows."""

    columns: Mapping[str, Sequence[Any]]
    index: str | None = None

    @classmethod
    def of_fields(cls, rows: Sequence[object], names: Iterable[str]) -> Records:
        return cls({name: list(map(attrgetter(name), rows)) for name in names})


@dataclass(frozen=True, slots=True)
class Report:
    """A result, ready to be shown; tables and listings that are empty are left out."""

    title: str
    lead: str = ""  # how much there is of it, in a few words
    outcome: Cell | None = None  # whether all is well, in a word
    decision: Sequence[Statement] = ()  # the most important first
    about: Sequence[tuple[str, str]] = ()  # what was evaluated and how, as (label, value)
    tables: Sequence[Table] = ()
    listings: Sequence[Listing] = ()  # queries worth a look
    failures: Sequence[Failure] = ()
    notes: Sequence[str] = ()
    glossary: Sequence[tuple[str, str]] = ()  # metrics and their meanings
    figures: Mapping[str, Draw] = field(default_factory=dict)  # by kind
    queries: Callable[[], Queries] | None = field(default=None, repr=False)  # for a page
    records: Records = field(default=Records({}), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", list(filter(attrgetter("rows"), self.tables)))
        object.__setattr__(self, "listings", list(filter(attrgetter("queries"), self.listings)))

    @property
    def failures_title(self) -> str:
        query_ids = set[str]().union(*map(attrgetter("query_ids"), self.failures))
        return f"Failed: {len(query_ids):,}"
