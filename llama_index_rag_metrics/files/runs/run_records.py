"""Rankings and judgements as records: one a query, or one a document."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Generic, Literal, TypeVar

from llama_index_rag_metrics.files.fields import (
    DOC_ID,
    EXPECTED_SPANS,
    GRADE,
    GRADES,
    KNOWN,
    QUERY_ID,
    RANK,
    RELEVANCE,
    RETRIEVED,
    SCORE,
    SCORES,
    TEXTS,
    first_of,
    is_long,
    unread_fields,
)
from llama_index_rag_metrics.files.judgements import Judgements, read_grade
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.records import (
    looks_like_several,
    place_record,
    read_id,
    read_place,
    read_relevance,
)
from llama_index_rag_metrics.files.runs.run_fields import (
    list_of,
    number_or_none,
    read_ids,
    read_ranking,
)
from llama_index_rag_metrics.files.runs.trec_run import by_score
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import FieldsUnread, InvalidInput, LabelWarning

Whole = TypeVar("Whole")

_SEPARATORS = frozenset(",;|")


class Records(ABC, Generic[Whole]):
    """What is read record by record, each of a whole query or of one document.

    Attributes:
        fields: the names of the field that makes a record one of a whole query.
    """

    fields: ClassVar[Sequence[str]]
    expected: ClassVar[str]

    def __init__(self, read: Callable[[Mapping[str, Any], Place], Whole]) -> None:
        self._read = read
        self._whole: dict[str, Whole] = {}
        self._has_warned = False

    def add(self, record: Mapping[str, Any], place: Place) -> None:
        """Read a record."""
        if is_long(record):
            self.row_reader(list(record))(list(record.values()), place)
            return
        if first_of(record, self.fields) is None:
            raise place.lacks(self.expected, record)
        if (given_id := first_of(record, QUERY_ID)) is None:
            raise place.lacks(f"a field {QUERY_ID[0]!r}", record)
        query_id = read_id(given_id, place)
        if query_id in self._whole:
            raise place.wrong("every query id once", query_id)
        self._whole[query_id] = self._read(record, place)

    def _document_id(self, value: Any, place: Place) -> str:
        """The id of a row's document; the first one that may be several is told."""
        item = _id(value, place)
        if not self._has_warned and not _SEPARATORS.isdisjoint(item) and looks_like_several(item):
            self._has_warned = True
            where = place.path if place.line is None else f"{place.path}, line {place.line}"
            several = f"{where}: {item!r} is read as one document, as a row is of one"
            warn_caller(LabelWarning(f"{several}. If it means several, write a row for each."))
        return item

    @abstractmethod
    def row_reader(self, names: Sequence[str]) -> Callable[[Sequence[Any], Place], None]:
        """What reads the rows, one document each, of a table with these columns."""

    @abstractmethod
    def by_query(self) -> dict[str, Whole]:
        """All that was read, in the order in which the queries came."""


class RunRecords(Records[Ranking]):
    """Rankings, read record by record.

    Records of one document each are ordered by rank where the first of them has one, else by score
    as trec_eval does, and else stand as they came.
    """

    fields = RETRIEVED
    expected = f"a field {RETRIEVED[0]!r}, or {DOC_ID[0]!r} with a 'score' or a 'rank'"

    def __init__(self) -> None:
        super().__init__(read_ranking)
        self._rows: dict[str, dict[object, tuple[str, float | None]]] = {}
        self._order: Literal["rank", "score", "line"] | None = None

    def row_reader(self, names: Sequence[str]) -> Callable[[Sequence[Any], Place], None]:
        query_id, item, score, rank = (
            _column(names, field) for field in (QUERY_ID, DOC_ID, SCORE, RANK)
        )

        def read(row: Sequence[Any], place: Place) -> None:
            self._add_row(
                _id(query_id(row), place),
                self._document_id(item(row), place),
                number_or_none(score(row), place),
                number_or_none(rank(row), place),
                place,
            )

        return read

    def by_query(self) -> dict[str, Ranking]:
        made = {query_id: self._ordered(rows) for query_id, rows in self._rows.items()}
        return {**made, **self._whole}

    def _add_row(
        self, query_id: str, item: str, score: float | None, rank: float | None, place: Place
    ) -> None:
        order = self._order
        if order is None:
            order = "rank" if rank is not None else "score" if score is not None else "line"
        if (rank is None and order == "rank") or (score is None and order == "score"):
            raise place.wrong(f"a {order}, a number, as in the first record", f"{query_id} {item}")
        self._order = order
        rows = self._rows.setdefault(query_id, {})
        key = rank if order == "rank" else item if order == "score" else len(rows)
        if key in rows:
            once = f"every {'rank' if order == 'rank' else 'document'} once a query"
            raise place.wrong(once, f"{query_id} {key}")
        rows[key] = item, score

    def _ordered(self, rows: Mapping[Any, tuple[str, float | None]]) -> Ranking:
        if self._order == "score":
            return by_score({item: score for item, score in rows.values() if score is not None})
        ordered = [rows[rank] for rank in sorted(rows)] if self._order == "rank" else rows.values()
        scores = [score for _, score in ordered]
        known = any(score is not None for score in scores)
        return Ranking([item for item, _ in ordered], scores if known else None)


class QrelsRecords(Records[Relevance]):
    """Judgements, read record by record."""

    fields = (*RELEVANCE, *EXPECTED_SPANS)
    expected = f"a field 'expected_ids', or {DOC_ID[0]!r} with a {GRADE[0]!r}"

    def __init__(self) -> None:
        super().__init__(_read_expected)
        self._rows = Judgements()

    def add(self, record: Mapping[str, Any], place: Place) -> None:
        # what a reviewer skipped, or only remarked on, has no grade
        is_ungraded = is_long(record) and set(GRADE).isdisjoint(record)
        if not (is_ungraded and "skipped" in record):
            super().add(record, place)

    def row_reader(self, names: Sequence[str]) -> Callable[[Sequence[Any], Place], None]:
        query_id, item, grade = (_column(names, field) for field in (QUERY_ID, DOC_ID, GRADE))
        is_ungraded = set(GRADE).isdisjoint(names)

        def read(row: Sequence[Any], place: Place) -> None:
            if is_ungraded:
                raise place.lacks(f"a field {GRADE[0]!r}", names)
            ids = _id(query_id(row), place), self._document_id(item(row), place)
            self._rows.add(*ids, read_grade(grade(row), place), place)

        return read

    def by_query(self) -> dict[str, Relevance]:
        return {**self._rows.relevance(), **self._whole}


def column_fields(columns: Mapping[str, str]) -> dict[str, str]:
    """What a reader calls the columns of a source, from {field: column}."""
    for field in columns:
        if field not in KNOWN:
            known = [name for name, *_ in (QUERY_ID, RETRIEVED, SCORES, TEXTS, RELEVANCE, GRADES)]
            raise InvalidInput("columns", field, f"fields such as {', '.join(known)} or doc_id")
    return {column: field for field, column in columns.items()}


def rename(names: Sequence[str], fields: Mapping[str, str]) -> list[str]:
    """The names of columns, with the fields that they were said to be.

    A column that was called like such a field before means nothing any more.
    """
    taken = set(fields.values())
    return [fields.get(name, f"another {name}" if name in taken else name) for name in names]


def renamed(record: Any, fields: Mapping[str, str]) -> Any:
    """A record with its fields renamed in the same way; anything but a mapping stays as it is."""
    if not fields or not isinstance(record, Mapping):
        return record
    return dict(zip(rename(list(record), fields), record.values(), strict=True))


def warn_unread(what: str, records: Iterable[Collection[str]]) -> None:
    """Warn of fields that aren't read, but are called nearly like others that are missing."""
    unread = {name: field for names in records for name, field in unread_fields(names).items()}
    if unread:
        named = sorted(unread.items(), key=str)
        meant = ", ".join(f"{name!r} (did you mean {field!r}?)" for name, field in named)
        warn_caller(FieldsUnread(f"{what} has fields that aren't read: {meant}"))


def check_long(names: Sequence[str], place: Place) -> None:
    """Whether the rows of a table with these columns, of a document each, say of which query."""
    if is_long(names) and set(QUERY_ID).isdisjoint(names):
        raise place.lacks(f"a column {QUERY_ID[0]!r}", names)


def as_record(item: object, place: Place) -> Mapping[str, Any]:
    """The fields of an item of a list: of a mapping, a named tuple or any object that has some."""
    if isinstance(item, Mapping):
        return {key: value for key, value in item.items() if value is not None}
    fields = {name: getattr(item, name) for name in KNOWN if hasattr(item, name)}
    if not fields:
        example = '{"query_id": "q1", "doc_id": "d1", "score": 1}'
        raise place.wrong(f"a record, such as {example} or a Qrel of ir_measures", item)
    return fields


def relevance_record(query_id: str, relevance: Relevance) -> dict[str, Any]:
    """The record of one query's judgements: groups, or ids with their grades and places."""
    if relevance.alternatives is not None:
        return {"query_id": query_id, "expected_ids": relevance.to_plain()}
    grades = relevance.grades
    spans = relevance.spans
    record = {
        "query_id": query_id,
        "expected_ids": list(grades),
        "grades": list(grades.values()),
    }
    if spans is not None:
        record["expected_spans"] = [place_record(spans.get(item)) for item in grades]
    return record


def _read_expected(record: Mapping[str, Any], place: Place) -> Relevance:
    expected_ids, grades, spans = (
        first_of(record, names) for names in (RELEVANCE, GRADES, EXPECTED_SPANS)
    )
    numbers, places = list_of(grades, place, read_grade), list_of(spans, place, read_place)
    if expected_ids is None and places is not None:
        return _of_places(places, numbers, place)
    if numbers is None and places is None:
        return read_relevance(expected_ids, place)
    ids = read_ids(expected_ids, place)
    beside = [column for column in (numbers, places) if column is not None]
    if len(ids) != len(set(ids)) or any(len(column) != len(ids) for column in beside):
        expected = "every expected id once, and as many grades and places where there are any"
        raise place.wrong(expected, dict(record))
    relevance = Relevance(ids if numbers is None else dict(zip(ids, numbers, strict=True)))
    if places is None:
        return relevance
    known = {item: span for item, span in zip(ids, places, strict=True) if span is not None}
    return relevance.with_spans(known)


def _of_places(
    places: Sequence[Span | None], grades: Sequence[float] | None, place: Place
) -> Relevance:
    """Relevance by place alone."""
    known = [span for span in places if span is not None]
    try:
        return Relevance.of_spans(known, grades if len(known) == len(places) else [])
    except InvalidInput as problem:
        expected = "a place for each judgement, and every place once"
        raise place.wrong(expected, str(problem)) from problem


def _column(names: Sequence[str], known: Iterable[str]) -> Callable[[Sequence[Any]], Any]:
    """What takes the value of the first known column from a row; None where there is no such."""
    for name in known:
        if name in names:
            return itemgetter(names.index(name))
    return lambda row: None


def _id(value: Any, place: Place) -> str:
    return value if type(value) is str and value else read_id(None if value == "" else value, place)
