"""Report: a result as plain data, every number unrounded.

A result's builder makes a `Report`. A renderer turns one into text, a page or a file, and sees
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.figure import Draw

Tone: TypeAlias = Literal["normal", "best", "leading", "quiet", "alarm", "open"]
"""How a value or a sentence looks; "leading" is the best of a row that nothing tested, "open" what
isn't decided."""

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

TablePlace: TypeAlias = Literal["summary", "detail", "page"]
"""Where a table is shown: everywhere; not in a paper, and folded where something can be folded; or
only where something can be folded."""


class Cell(NamedTuple):
    """A value of a table.

    Attributes:
        value: the number itself; a text; the numbers of a "share", "tally" or "change"; whether
            "bounds" are "signed"; None where there is no value.
        limit: a number that it must be told apart from, however many digits that takes.
        digits: how many decimals it carries, and its interval.
    """

    value: float | int | str | tuple[float, ...] | None
    form: Form = "text"
    tone: Tone = "normal"
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    digits: int = 4

    @classmethod
    def of(cls, value: float | None, form: Form, tone: Tone = "normal") -> Cell:
        """A number, quiet where there is none, or where it counts 0."""
        is_nothing = not value if form == "count" else value is None
        return cls(value, form, "quiet" if is_nothing else tone)


class Row(NamedTuple):
    label: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the headings of its columns but the first, and groups of rows.

    Attributes:
        title: "" for none.
        first: the heading of the column of labels.
        fold: what a page calls the parts behind the first, which it folds; "" for showing them all.
        by_system: whether the columns are systems, all alike. Then a narrow output splits the
            table, and marks the best; else it leaves out the last columns and says so.
        system_rows: whether the rows are systems; of a table by system, that it was turned.
        sortable: whether a page lets choose the column that its rows are ordered by.
        remark: shown beside the title.
        text_columns: how many of the first columns are texts, and set to the left.
    """

    title: str
    head: Sequence[str]
    parts: Sequence[Sequence[Row]]
    first: str = "metric"
    fold: str = ""
    by_system: bool = False
    place: TablePlace = "summary"
    sortable: bool = False
    remark: str = ""
    text_columns: int = 0
    system_rows: bool = False

    @property
    def rows(self) -> list[Row]:
        return [row for part in self.parts for row in part]


class Statement(NamedTuple):
    """A sentence, perhaps with a label such as "better".

    It may begin with its label and a colon, which a page replaces by a badge.

    Attributes:
        evidence: the heading of the section, or the title of the listing, that the sentence rests
            on: a page links to it; "questions" is the table of all of them.
        command: what to run next, ready to copy.
    """

    text: str
    tone: Tone = "normal"
    label: str = ""
    evidence: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Tables that belong together, how to read them (`text`), and remarks on their numbers.

    On a page, an `aside` goes to the end, and of a `folded` section every table is folded.
    """

    heading: str
    tables: Sequence[Table]
    text: str = ""
    aside: bool = False
    folded: bool = False
    notes: Sequence[str] = ()


class Item(NamedTuple):
    """A wanted item.

    Attributes:
        grade: 0 of a group, or a facet, that no relevant passage meets; its name is the id.
        passage: the text or place that it is recognised by, if not by its id.
        text: what it says, from the corpus or from any system that retrieved it.
    """

    id: str
    grade: float
    passage: str | Span | None = None
    text: str | None = None


class ReportedItem(NamedTuple):
    """A retrieved item.

    Attributes:
        grade: the best grade of what it stands for; None where nothing of it was judged.
        stands_for: the labelled items that it was recognised as; empty where it is itself.
        least: the grade from which the metric takes an item as relevant.
    """

    id: str
    grade: float | None
    text: str | None = None
    stands_for: Sequence[Item] = ()
    least: float = 1.0

    @property
    def is_hit(self) -> bool:
        return self.grade is not None and self.grade >= self.least

    @property
    def why(self) -> Literal["id", "text", "place", ""]:
        """What it was recognised by; "" where nothing of it was judged."""
        if self.grade is None:
            return ""
        passages = [item.passage for item in self.stands_for if item.passage is not None]
        if not passages:
            return "id"
        return "place" if isinstance(passages[0], Span) else "text"


class CallAnswer(NamedTuple):
    """One of the retrievals that a system made for a query; latency in seconds.

    Attributes:
        asked_by: the tool or the step that asked; "" where that isn't known.
        is_new: of each retrieved item, whether it stands for anything that no earlier one did.
    """

    query: str
    asked_by: str
    retrieved: Sequence[ReportedItem]
    is_new: Sequence[bool]
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
    """What one system gave for one query; latency in seconds.

    Attributes:
        retrieved: best first; None where no ranking is known. Of stored scores, the first items.
        calls: the retrievals that it is the sum of, in order; None where it is one.
        found: id of each wanted item that is anywhere in the ranking to its place; None where that
            isn't known.
        same_text: id of each wanted item that came under another id, as after a new ingestion.
        more: how many items came beyond `retrieved`, of stored scores.
        ranks: of each retrieved item its rank as metrics count, None where it counts at an earlier
            one: a copy. None for 1, 2, 3 and so on.
        in_call: id of each wanted item that only calls had to the number of the first of them.
        known: of stored scores that don't keep all, the ids of which it is known where they are.
        is_stored: whether it has only what stored scores keep, such as the beginnings of texts.
    """

    system: str
    score: Cell
    retrieved: Sequence[ReportedItem] | None = None
    error: str | None = None
    latency: float | None = None
    calls: Sequence[CallAnswer] | None = None
    found: Mapping[str, Found] | None = None
    same_text: Mapping[str, SameText] = {}
    more: int = 0
    ranks: Sequence[int | None] | None = None
    in_call: Mapping[str, int] = {}
    known: Collection[str] | None = None
    is_stored: bool = False

    @property
    def all_ranks(self) -> Sequence[int | None]:
        return range(1, len(self.retrieved or ()) + 1) if self.ranks is None else self.ranks


class Cutoff(NamedTuple):
    """Where a metric stops reading a ranking: after so many items, or so many tokens."""

    at: int
    unit: Literal["items", "tokens"] = "items"


class QueryAnswers(NamedTuple):
    """One query: what was asked ("" if not known), what was wanted, what came from each system.

    Attributes:
        wanted: best grade first; any item of an entry meets that need.
        more: how many needs there are beyond these, of stored scores.
        cutoff: that of the metric by which the answers are scored.
        stages: whether the systems are the stages of one pipeline, in order.
    """

    query_id: str
    text: str
    wanted: Sequence[Sequence[Item]] = ()
    answers: Sequence[Answer] = ()
    remarks: Sequence[str] = ()
    cutoff: Cutoff | None = None
    stages: bool = False
    more: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """Some of the queries, with what was wanted and what came.

    Attributes:
        remark: shown beside the title.
        lead: sentences shown below it.
        more: how many there are beyond these.
        most: how many retrieved items of each answer are shown.
        on_request: whether `str()` leaves them out.
    """

    title: str
    queries: Sequence[QueryAnswers]
    remark: str = ""
    more: int = 0
    most: int = 1
    on_request: bool = False
    lead: str = ""

    @property
    def more_in_words(self) -> str:
        return f"and {self.more:,} more" if self.more > 0 else ""

    @property
    def legend(self) -> str:
        """What the grades in brackets mean, with the largest of these questions; "" without any.

        >>> answer = Answer("bm25", Cell(None), [ReportedItem("a", 3.0), ReportedItem("b", None)])
        >>> Listing("Worst questions", [QueryAnswers("q1", "", answers=[answer])]).legend
        '[grade] 0 to 3; none: unlabelled'
        """
        needs = (item.grade for query in self.queries for need in query.wanted for item in need)
        answers = [answer for query in self.queries for answer in query.answers]
        rankings = [call.retrieved for answer in answers for call in answer.calls or ()]
        rankings += [answer.retrieved or () for answer in answers]
        came = (item.grade for ranking in rankings for item in ranking)
        grades = {*filter(None, needs), *(grade for grade in came if grade is not None)}
        if not grades:
            return ""
        scale = "[1] relevant" if grades == {1} else f"[grade] 0 to {max(grades):g}"
        order = "searches, then what is relevant; " if any(each.calls for each in answers) else ""
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
        shown = [QueryAnswers(key, text, remarks=lines) for key, text, lines in remarks[:most]]
        n = len(remarks)
        return cls(f"{title}: {n:,}", shown, more=n - len(shown), on_request=on_request)


class Failure(NamedTuple):
    system: str
    query_id: str
    error: str


class Term(NamedTuple):
    name: str
    meaning: str


class SliceKey(NamedTuple):
    """A key of the queries' metadata: its values, and the position of each query's value there."""

    key: str
    values: Sequence[str]
    of_query: Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Queries:
    """Every query by every metric and system, column by column.

    Attributes:
        compared: whether the first system is the baseline.
        scores: by metric, by system, by query; None where there is no value.
        failed_or_empty: by "failed" and "empty", by system: positions of queries.
        unanswerable: by "unanswerable" and "unjudged": positions of queries.
        matcher_of_metric: the number of each metric's way to see a query: its matcher, and which
            labels count for it.
        answer: (position, number of such a way) to what was wanted and what came; None where no
            rankings are known.
        cutoffs: of each metric, None where it reads the whole ranking; empty if nobody knows.
        stages: whether the systems are the stages of one pipeline, in order: what an earlier one
            had and a later one lacks was dropped by the later one.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    metrics: Sequence[str]
    systems: Sequence[str]
    compared: bool
    scores: Sequence[Sequence[Sequence[float | None]]]
    failed_or_empty: Mapping[str, Sequence[Sequence[int]]]
    unanswerable: Mapping[str, Sequence[int]]
    slices: Sequence[SliceKey]
    matcher_of_metric: Sequence[int]
    lower_is_better: Sequence[bool]
    answer: Callable[[int, int], QueryAnswers] | None = field(default=None, repr=False)
    cutoffs: Sequence[Cutoff | None] = ()
    stages: bool = False


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


def headline(metrics: Sequence[str]) -> str:
    """The metric that stands for the others: ndcg where there is one, else the first.

    >>> headline(["mrr", "ndcg@10"])
    'ndcg@10'
    """
    return next((name for name in metrics if name.startswith("ndcg")), next(iter(metrics), ""))


@dataclass(frozen=True, slots=True)
class Report:
    """A result, ready to be shown; empty sections and listings are left out.

    Attributes:
        lead: how much there is of it, in a few words.
        outcome: whether all is well, in a word.
        decision: the most important first.
        further: statements that a page folds.
        about: what was evaluated and how, as (label, value).
        listings: queries worth a look.
        primary: the metric that stands for the others; "" takes `headline`.
        figures: by kind.
        queries: the data of every query, for a page.
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

    def __post_init__(self) -> None:
        sections = [section for section in self.sections if section.tables]
        object.__setattr__(self, "sections", sections)
        listings = [listing for listing in self.listings if listing.queries]
        object.__setattr__(self, "listings", listings)

    @property
    def headline(self) -> str:
        return self.primary or headline(self.metrics)

    def tables(self, *places: TablePlace) -> list[Table]:
        return [
            table for section in self.sections for table in section.tables if table.place in places
        ]
