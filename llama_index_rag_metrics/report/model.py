"""Report: a result as plain data, every number unrounded, which renderers turn into an output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index_rag_metrics.rankings.span import Span

from .figure import Draw

# how a value or a sentence looks: better, worse or failed, undecided
Tone: TypeAlias = Literal["normal", "best", "quiet", "alarm", "open"]
# what a value is, and so how `numbers.shown` writes it
Several: TypeAlias = Literal["range", "bounds", "change", "tally", "share"]
Form: TypeAlias = Literal["text", "outcome", "score", "signed", "count", "seconds", Several]
TablePlace: TypeAlias = Literal["summary", "detail"]  # a page folds details


class Cell(NamedTuple):
    """A value of a table."""

    # of "share", "tally" and "change" several numbers; of "bounds" "signed" or not
    value: float | int | str | tuple[float, ...] | None
    form: Form = "text"
    tone: Tone = "normal"
    low: float | None = None
    high: float | None = None
    limit: float | None = None  # what it must be told apart from, however many digits that takes
    digits: int = 4  # how many decimals it carries, and its interval

    @classmethod
    def of(cls, value: float | None, form: Form, tone: Tone = "normal") -> Cell:
        """A number, quiet where there is none, or where it counts 0."""
        is_nothing = value is None or (form == "count" and not value)
        return cls(value, form, "quiet" if is_nothing else tone)


class Row(NamedTuple):
    label: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the headings of its columns but the first, and groups of rows."""

    title: str  # "" for none
    head: Sequence[str]
    parts: Sequence[Sequence[Row]]
    first: str = "metric"  # the heading of the column of labels
    place: TablePlace = "summary"
    remark: str = ""  # shown beside the title
    text_columns: int = 0  # how many of the first columns are texts, and set to the left

    @property
    def rows(self) -> list[Row]:
        return [row for part in self.parts for row in part]


class Statement(NamedTuple):
    """A sentence; its label and colon, if it begins with them, become a badge on a page."""

    text: str
    tone: Tone = "normal"
    label: str = ""
    evidence: str = ""  # the heading of what it rests on, for a link; "questions" is all of them
    command: str = ""  # what to run next, ready to copy


@dataclass(frozen=True, slots=True)
class Section:
    """Tables that belong together, how to read them, and remarks on their numbers."""

    heading: str
    tables: Sequence[Table]
    text: str = ""
    notes: Sequence[str] = ()


class Item(NamedTuple):
    """A wanted item."""

    id: str
    grade: float  # 0 of a group, or a facet, that no relevant passage meets; its name is the id
    passage: str | Span | None = None  # what it is recognised by, if not by its id
    text: str | None = None  # what it says, from the corpus or from any system that retrieved it


class ReportedItem(NamedTuple):
    """A retrieved item."""

    id: str
    grade: float | None  # the best grade of what it stands for; None where nothing of it was judged
    text: str | None = None
    stands_for: Sequence[Item] = ()  # what it was recognised as; empty where it is itself
    least: float = 1.0  # the grade from which the metric takes an item as relevant

    @property
    def is_hit(self) -> bool:
        return self.grade is not None and self.grade >= self.least

    @property
    def why(self) -> Literal["id", "text", "place", ""]:
        """What it was recognised by; "" where nothing of it was judged."""
        if self.grade is None:
            return ""
        for item in self.stands_for:
            if item.passage is not None:
                return "place" if isinstance(item.passage, Span) else "text"
        return "id"


class CallAnswer(NamedTuple):
    """One of the retrievals that a system made for a query; latency in seconds."""

    query: str
    asked_by: str  # the tool or the step that asked; "" where that isn't known
    retrieved: Sequence[ReportedItem]
    is_new: Sequence[bool]  # whether each stands for anything that no earlier one did
    error: str | None = None
    latency: float | None = None


class Found(NamedTuple):
    """Where a wanted item is in a ranking: its rank, copies dropped, and the tokens up to it."""

    rank: int
    tokens: int | None = None


class SameText(NamedTuple):
    """The rank and the id of a retrieved item that has the text of a wanted one."""

    rank: int
    id: str


class Answer(NamedTuple):
    """What one system gave for one query; latency in seconds."""

    system: str
    score: Cell
    retrieved: Sequence[ReportedItem] | None = None  # best first; None where none is known
    error: str | None = None
    latency: float | None = None
    calls: Sequence[CallAnswer] | None = None  # what it is the sum of; None where it is one
    found: Mapping[str, Found] | None = None  # wanted id to its place; None where nobody knows
    same_text: Mapping[str, SameText] = {}  # wanted id to what came with its text
    ranks: Sequence[int | None] | None = None  # None for 1, 2, 3 and so on; of copies None
    in_call: Mapping[str, int] = {}  # wanted id to the first call that alone had it
    absent: Collection[str] = ()  # wanted ids that are known not to be in the index
    min_score: float | None = None  # below which passages are left out, where that is known

    @property
    def all_ranks(self) -> Sequence[int | None]:
        return range(1, len(self.retrieved or ()) + 1) if self.ranks is None else self.ranks


class Cutoff(NamedTuple):
    """Where a metric stops reading a ranking: after so many items, or so many tokens."""

    at: int
    unit: Literal["items", "tokens"] = "items"


class QueryAnswers(NamedTuple):
    """One query: what was asked ("" if not known), what was wanted, what came from each system."""

    query_id: str
    text: str
    wanted: Sequence[Sequence[Item]] = ()  # best grade first; any item of an entry meets that need
    answers: Sequence[Answer] = ()
    remarks: Sequence[str] = ()
    cutoff: Cutoff | None = None  # that of the metric by which the answers are scored
    stages: bool = False  # whether the systems are the stages of one pipeline, in order

    @property
    def grades(self) -> set[float]:
        """The grades of all that was wanted or came."""
        grades = {item.grade for need in self.wanted for item in need if item.grade}
        for answer in self.answers:
            rankings = [call.retrieved for call in answer.calls or ()]
            for ranking in (*rankings, answer.retrieved or ()):
                grades.update(item.grade for item in ranking if item.grade is not None)
        return grades


@dataclass(frozen=True, slots=True)
class Listing:
    """Some of the queries, with what was wanted and what came."""

    title: str
    queries: Sequence[QueryAnswers]
    remark: str = ""  # shown beside the title
    more: int = 0  # how many there are beyond these
    most: int = 1  # how many retrieved items of each answer are shown
    on_request: bool = False  # whether `str()` leaves them out
    lead: str = ""  # sentences shown below it

    @property
    def more_in_words(self) -> str:
        return f"and {self.more:,} more" if self.more > 0 else ""

    @property
    def legend(self) -> str:
        """What the grades in brackets mean, with the largest of these questions; "" without any."""
        grades: set[float] = set().union(*(query.grades for query in self.queries))
        if not grades:
            return ""
        scale = "[1] relevant" if grades == {1} else f"[grade] 0 to {max(grades):g}"
        calls = (answer.calls for query in self.queries for answer in query.answers)
        order = "searches, then what is relevant; " if any(calls) else ""
        return f"{order}{scale}; none: unlabelled"

    @classmethod
    def of(
        cls,
        title: str,
        remarks: Sequence[tuple[str, str, Sequence[str]]],
        most: int,
        *,
        on_request: bool = False,
    ) -> Listing:
        """The first queries, by id, text and remarks, of as many as the title says."""
        queries = [QueryAnswers(key, text, remarks=lines) for key, text, lines in remarks[:most]]
        n = len(remarks)
        return cls(f"{title}: {n:,}", queries, more=n - len(queries), on_request=on_request)


class Failure(NamedTuple):
    system: str
    query_id: str
    error: str


class Term(NamedTuple):
    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Queries:
    """Every question of a page, as the metric that decides sees it."""

    metric: str
    systems: Sequence[str]  # as the answers of each question have them
    stories: Iterable[QueryAnswers]
    compared: bool = False  # whether the first system is the baseline
    lower_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Records:
    """Columns of equal length, unrounded, for programs; `index` is the one that names the rows."""

    columns: Mapping[str, Sequence[Any]]
    index: str | None = None

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> Records:
        """The columns of these names, of rows that all have them."""
        return cls({name: [row[name] for row in rows] for name in names})

    @classmethod
    def of_fields(cls, rows: Sequence[object], names: Iterable[str]) -> Records:
        """The columns of these names, of objects that have such attributes."""
        return cls({name: [getattr(row, name) for row in rows] for name in names})

    @property
    def rows(self) -> Iterable[tuple[Any, ...]]:
        return zip(*self.columns.values(), strict=True)


def headline(metrics: Sequence[str]) -> str:
    """The metric that stands for the others: the first."""
    return next(iter(metrics), "")


@dataclass(frozen=True, slots=True)
class Report:
    """A result, ready to be shown; empty sections and listings are left out."""

    title: str
    lead: str = ""  # how much there is of it, in a few words
    outcome: Cell | None = None  # whether all is well, in a word
    decision: Sequence[Statement] = ()  # the most important first
    further: Sequence[Statement] = ()  # statements that a page folds
    about: Sequence[tuple[str, str]] = ()  # what was evaluated and how, as (label, value)
    sections: Sequence[Section] = ()
    listings: Sequence[Listing] = ()  # queries worth a look
    failures: Sequence[Failure] = ()
    notes: Sequence[str] = ()
    glossary: Sequence[Term] = ()
    metrics: Sequence[str] = ()
    primary: str = ""  # the metric that stands for the others; "" takes `headline`
    figures: Mapping[str, Draw] = field(default_factory=dict)  # by kind
    queries: Callable[[], Queries] | None = field(default=None, repr=False)  # for a page
    records: Records = field(default=Records({}), repr=False)

    def __post_init__(self) -> None:
        sections = [section for section in self.sections if section.tables]
        listings = [listing for listing in self.listings if listing.queries]
        object.__setattr__(self, "sections", sections)
        object.__setattr__(self, "listings", listings)

    @property
    def headline(self) -> str:
        return self.primary or headline(self.metrics)

    def tables(self, *places: TablePlace) -> list[Table]:
        tables = [table for section in self.sections for table in section.tables]
        return [table for table in tables if table.place in places]
