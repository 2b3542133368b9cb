"""Rankings and judgements as records: one a query, or one a document."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Generic, Literal, TypeVar

from llama_index_rag_metrics.files import fields as f
from llama_index_rag_metrics.files.judgements import Judgements, read_grade
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.records import (
    SEPARATORS,
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
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import FieldsUnread, InvalidInput, LabelWarning

Whole = TypeVar("Whole")


class Records(ABC, Generic[Whole]):
    """Records, each of a whole query, which has one of `fields`, or of one document."""

    fields: ClassVar[Sequence[str]]
    expected: ClassVar[str]

    def __init__(self, read: Callable[[Mapping[str, Any], Place], Whole]) -> None:
        self._read = read
        self._whole: dict[str, Whole] = {}
        self._has_warned = False

    def add(self, record: Mapping[str, Any], place: Place) -> None:
        if f.is_long(record):
            self.row_reader(list(record))(list(record.values()), place)
            return
        if f.first_of(record, self.fields) is None:
            raise place.lacks(self.expected, record)
        if (given_id := f.first_of(record, f.QUERY_ID)) is None:
            raise place.lacks(f"a field {f.QUERY_ID[0]!r}", record)
        query_id = read_id(given_id, place)
        if query_id in self._whole:
            raise place.wrong("every query id once", query_id)
        self._whole[query_id] = self._read(record, place)

    def _document_id(self, value: Any, place: Place) -> str:
        """The id of a row's document; warns once of ids that may be several."""
        item = _id(value, place)
        if not self._has_warned and SEPARATORS.search(item) and looks_like_several(item):
            self._has_warned = True
            where = place.path if place.line is None else f"{place.path}, line {place.line}"
            several = f"{where}: {item!r} is read as one document, as a row is of one"
            warn_caller(LabelWarning(f"{several}. If it means several, write a row for each."))
        return item

    @abstractmethod
    def row_reader(self, names: Sequence[str]) -> Callable[[Sequence[Any], Place], None]:
        """What reads the rows, one document each, of a table with these columns."""

    @abstractmethod
    def by_query(self) -> dict[str, Whole]: ...


class RunRecords(Records[Ranking]):
    """Rankings; rows are ordered as the first allows: by rank, else by score, else as they came."""

    fields = f.RETRIEVED
    expected = f"a field {f.RETRIEVED[0]!r}, or {f.DOC_ID[0]!r} with a 'score' or a 'rank'"

    def __init__(self) -> None:
        super().__init__(read_ranking)
        self._rows: dict[str, dict[object, tuple[str, float | None]]] = {}
        self._order: Literal["rank", "score", "line"] | None = None

    def row_reader(self, names: Sequence[str]) -> Callable[[Sequence[Any], Place], None]:
        fields = (f.QUERY_ID, f.DOC_ID, f.SCORE, f.RANK)
        query_id, item, score, rank = (_column(names, field) for field in fields)

        def read(row: Sequence[Any], place: Place) -> None:
            key, document = _id(query_id(row), place), self._document_id(item(row), place)
            values = number_or_none(score(row), place), number_or_none(rank(row), place)
            self._add_row(key, document, *values, place)

        return read

    def by_query(self) -> dict[str, Ranking]:
        ranked = {query_id: self._ordered(rows) for query_id, rows in self._rows.items()}
        return {**ranked, **self._whole}

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
    fields = (*f.RELEVANCE, *f.EXPECTED_SPANS)
    expected = f"a field 'expected_ids', or {f.DOC_ID[0]!r} with a {f.GRADE[0]!r}"

    def __init__(self) -> None:
        super().__init__(_read_expected)
        self._rows = Judgements()

    def add(self, record: Mapping[str, Any], place: Place) -> None:
        # what a reviewer skipped, or only remarked on, has no grade
        is_ungraded = f.is_long(record) and set(f.GRADE).isdisjoint(record)
        if not (is_ungraded and "skipped" in record):
            super().add(record, place)

    def row_reader(self, names: Sequence[str]) -> Callable[[Sequence[Any], Place], None]:
        query_id, item, grade = (_column(names, field) for field in (f.QUERY_ID, f.DOC_ID, f.GRADE))
        is_ungraded = set(f.GRADE).isdisjoint(names)

        def read(row: Sequence[Any], place: Place) -> None:
            if is_ungraded:
                raise place.lacks(f"a field {f.GRADE[0]!r}", names)
            ids = _id(query_id(row), place), self._document_id(item(row), place)
            self._rows.add(*ids, grade(row), place)

        return read

    def by_query(self) -> dict[str, Relevance]:
        return {**self._rows.relevance(), **self._whole}


def column_fields(columns: Mapping[str, str]) -> dict[str, str]:
    for field in columns:
        if field not in f.KNOWN:
            known = "query_id, retrieved_ids, scores, retrieved_texts, relevance, grades or doc_id"
            raise InvalidInput("columns", field, f"fields such as {known}")
    return {column: field for field, column in columns.items()}


def rename(names: Sequence[str], fields: Mapping[str, str]) -> list[str]:
    """Names of columns as fields; a column that was called like such a field isn't read."""
    taken = set(fields.values())
    return [fields.get(name, f"another {name}" if name in taken else name) for name in names]


def renamed(record: Any, fields: Mapping[str, str]) -> Any:
    if not fields or not isinstance(record, Mapping):
        return record
    return dict(zip(rename(list(record), fields), record.values(), strict=True))


def warn_unread(what: str, records: Iterable[Collection[str]]) -> None:
    unread = {name: field for names in records for name, field in f.unread_fields(names).items()}
    if unread:
        named = sorted(unread.items(), key=str)
        meant = ", ".join(f"{name!r} (did you mean {field!r}?)" for name, field in named)
        warn_caller(FieldsUnread(f"{what} has fields that aren't read: {meant}"))


def check_long(names: Sequence[str], place: Place) -> None:
    """Refuse a table of a document a row without a column of query ids."""
    if f.is_long(names) and set(f.QUERY_ID).isdisjoint(names):
        raise place.lacks(f"a column {f.QUERY_ID[0]!r}", names)


def as_record(item: object, place: Place) -> Mapping[str, Any]:
    """The fields of a mapping, a named tuple or any object that has some."""
    if isinstance(item, Mapping):
        return {key: value for key, value in item.items() if value is not None}
    fields = {name: getattr(item, name) for name in f.KNOWN if hasattr(item, name)}
    if not fields:
        example = '{"query_id": "q1", "doc_id": "d1", "score": 1}'
        raise place.wrong(f"a record, such as {example} or a Qrel of ir_measures", item)
    return fields


def relevance_record(query_id: str, relevance: Relevance) -> dict[str, Any]:
    if relevance.alternatives is not None:
        return {"query_id": query_id, "expected_ids": relevance.to_plain()}
    grades, spans = relevance.grades, relevance.spans
    numbers = list(grades.values())
    record = {"query_id": query_id, "expected_ids": list(grades), "grades": numbers}
    if spans is not None:
        record["expected_spans"] = [place_record(spans.get(item)) for item in grades]
    return record


def _read_expected(record: Mapping[str, Any], place: Place) -> Relevance:
    names = (f.RELEVANCE, f.GRADES, f.EXPECTED_SPANS)
    expected_ids, grades, spans = (f.first_of(record, field) for field in names)
    numbers, places = list_of(grades, place, read_grade), list_of(spans, place, read_place)
    if expected_ids is None and places is not None:
        known = [span for span in places if span is not None]
        try:
            return Relevance.of_spans(known, numbers if len(known) == len(places) else [])
        except InvalidInput as error:
            expected = "a place for each judgement, and every place once"
            raise place.wrong(expected, str(error)) from error
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
    spans_of = zip(ids, places, strict=True)
    return relevance.with_spans({item: span for item, span in spans_of if span is not None})


def _column(names: Sequence[str], known: Iterable[str]) -> Callable[[Sequence[Any]], Any]:
    """The value of the first known column of a row, or None."""
    for name in known:
        if name in names:
            return itemgetter(names.index(name))
    return lambda row: None


def _id(value: Any, place: Place) -> str:
    return value if type(value) is str and value else read_id(None if value == "" else value, place)
