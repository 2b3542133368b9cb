"""Reading runs and qrels: which format a source is in, and what is made of it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from llama_index_rag_metrics.files import fields as f
from llama_index_rag_metrics.files import trec
from llama_index_rag_metrics.files.conversations import CONVERSATION, TURN, with_turns
from llama_index_rag_metrics.files.dataset_objects import has_judgements, read_mapping
from llama_index_rag_metrics.files.file_kinds import format_of
from llama_index_rag_metrics.files.lines import (
    Place,
    Rows,
    each,
    from_json,
    name_of,
    read_lines,
    read_text,
)
from llama_index_rag_metrics.files.records import (
    SEPARATORS,
    Judgements,
    Qrels,
    looks_like_several,
    read_id,
    read_number,
    read_relevance,
)
from llama_index_rag_metrics.files.runs.arrow_runs import ArrowForm, read_arrow
from llama_index_rag_metrics.files.runs.run_records import (
    number_or_none,
    read_expected,
    read_ids,
    read_ranking,
    read_repeat,
    rename,
    renamed,
)
from llama_index_rag_metrics.files.tables import (
    frame_table,
    is_frame,
    read_cell,
    read_table,
    records_of,
)
from llama_index_rag_metrics.files.trec import by_score
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning, UnknownFormat

T = TypeVar("T")


class Reader(ABC, Generic[T]):
    kind: ClassVar[str]
    held: ClassVar[Literal["run", "qrels"]]
    understood: ClassVar[tuple[str, ...]]
    whole_fields: ClassVar[Sequence[str]]
    """A record of a whole query has one of them; any other is of one document."""

    expected: ClassVar[str]
    name = ""

    def __init__(self, columns: Mapping[str, str] | None = None) -> None:
        self.whole: dict[str, T] = {}
        self._fields = _column_fields(columns or {})
        self._has_warned = False

    @abstractmethod
    def value(self, value: Any, place: Place) -> T:
        """Read what a mapping has for one query."""

    @abstractmethod
    def of_record(self, record: Mapping[str, Any], place: Place) -> T:
        """Read the record of a whole query."""

    @abstractmethod
    def row_reader(self, names: Sequence[str]) -> Callable[[Sequence[Any], Place], None]:
        """What reads the rows, one document each, of a table with these columns."""

    @abstractmethod
    def read_trec(self, path: Path) -> None:
        """Read a file of TREC's."""

    def read(self, source: Any) -> None:
        if isinstance(source, (str, os.PathLike)):
            self._read_path(Path(source))
            return
        place = Place(f"this {type(source).__name__}")
        if is_frame(source):
            names, rows = frame_table(source)
            fields = rename(names, self._fields)
            _check_long(fields, Place("the data frame"))
            if f.is_long(fields):
                each(rows, self.row_reader(fields))
            else:
                each(records_of(names, rows), self._plain_record)
        elif isinstance(source, Mapping):
            self.read_value(source, place)
        elif hasattr(source, "to_dict"):
            self.name = str(getattr(source, "name", None) or "")
            self.read_value(source.to_dict(), place)
        elif isinstance(source, Iterable):
            each(place.numbered(source), self._plain_record)
        else:
            why = "it has none of their attributes"
            raise UnknownFormat(place.path, why, self.understood, self.kind)

    def _read_path(self, path: Path) -> None:
        if path.is_dir():
            raise UnknownFormat(str(path), "it is a folder", self.understood, self.kind)
        self.name = name_of(path)
        form = format_of(path, self.held)
        if form == "trec":
            self.read_trec(path)
        elif form == "jsonl":
            self.read_json_lines(path)
        elif form == "json":
            self._read_json(path)
        elif form in ("csv", "tsv"):
            names, rows = read_table(path, "," if form == "csv" else "\t")
            self.read_table(names, rows, Place(str(path), 1))
        else:
            arrow: ArrowForm = "parquet" if form == "parquet" else "arrow"
            each(read_arrow(path, arrow), self._plain_record)

    def _read_json(self, path: Path) -> None:
        text, place = read_text(path), Place(str(path))
        if text.strip():
            self.read_value(from_json(text, place), place)

    def read_json_lines(self, path: Path) -> None:
        def read(line: str, place: Place) -> None:
            record = from_json(line, place)
            place.check(isinstance(record, dict), "a record, {field: value}", line)
            self._plain_record(record, place)

        each(read_lines(path), read)

    def read_value(self, data: object, place: Place) -> None:
        if isinstance(data, Mapping):
            entries = (
                (Place(f"{place.path}, question {entry[0]!r}"), entry) for entry in data.items()
            )
            each(entries, lambda pair, at: self._keep(pair[0], self.value, pair[1], at))
        elif isinstance(data, list):
            each(place.numbered(data), self._plain_record)
        else:
            raise place.wrong("{query id: …} or a list of records", data)

    def _keep(
        self, given_id: object, read: Callable[[Any, Place], T], value: Any, place: Place
    ) -> None:
        query_id = read_id(given_id, place)
        place.check(query_id not in self.whole, "every query id once", query_id)
        self.whole[query_id] = read(value, place)

    def _plain_record(self, record: Any, place: Place) -> None:
        fields = _as_record(renamed(record, self._fields), place)
        self.add(fields, place)

    def add(self, record: Mapping[str, Any], place: Place) -> None:
        if f.is_long(record):
            self.row_reader(list(record))(list(record.values()), place)
            return
        if f.first_of(record, self.whole_fields) is None:
            raise place.lacks(self.expected, record)
        if (given_id := f.first_of(record, f.QUERY_ID)) is None:
            raise place.lacks(f"a field {f.QUERY_ID[0]!r}", record)
        self._keep(given_id, self.of_record, record, place)

    def _document_id(self, value: Any, place: Place) -> str:
        """The id of a row's document; warns once of ids that may be several."""
        item = _row_id(value, place)
        if not self._has_warned and SEPARATORS.search(item) and looks_like_several(item):
            self._has_warned = True
            where = place.path if place.line is None else f"{place.path}, line {place.line}"
            several = f"{where}: {item!r} is read as one document, as a row is of one"
            warn_caller(LabelWarning(f"{several}. If it means several, write a row for each."))
        return item

    def read_table(self, names: list[str], rows: Rows, place: Place) -> None:
        names = rename([name.strip() for name in names], self._fields)
        _check_long(names, place)

        def read(cells: list[str], place: Place) -> None:
            fields = {
                name: read_cell(text) if name in f.LISTS else text
                for name, text in zip(names, cells, strict=True)
                if text
            }
            self.add(fields, place)

        each(rows, self.row_reader(names) if f.is_long(names) else read)


def read_run(source: Any, *, name: str = "", columns: Mapping[str, str] | None = None) -> Run:
    """Read rankings, from a file or from objects of other tools.

    Scores are ordered as by trec_eval: by score as 64-bit float, descending, and ties by document
    id, descending. That holds for TREC runs, whose rank column isn't read, for {query id:
    {document id: score}}, and for tables without ranks. A table with one row per document is
    ordered by its column `rank` if it has one. A list of ids is a ranking as it is.

    Args:
        source: a path, plain or .gz, to a TREC run, JSONL, CSV, TSV, JSON {query id: {document id:
            score}}, Parquet, Arrow IPC or Feather; or in memory {query id: {document id: score} or
            ids}, a data frame of pandas or polars, an Arrow table, a ranx Run, or an iterable of
            ir_measures' ScoredDoc or of records. A record or row holds a query (`query_id`,
            `retrieved_ids`, perhaps `scores`, `retrieved_texts`) or a document (`query_id`,
            `doc_id`, `score` or `rank`); the names that other tools use are known. With `repeat`,
            which time a question was asked, the run has `repeats`. Files of traces are read by
            `read_traces`, which has further arguments for them.
        name: what to call the run; by default the tag of a TREC run, or the file's name.
        columns: what fields are called in the source: {"retrieved_ids": "my_ids"}, or {"repeat":
            "epoch"}.

    Raises:
        FileFormatError: a line can't be read, or repeats a document; says where and why.
        UnknownFormat: the source is nothing that is understood.
        MissingExtra: Parquet and Arrow need the extra `batch`.
        FileNotFoundError: there is no such file.

    Examples:
        >>> run = read_run({"q1": {"d1": 0.2, "d2": 0.9, "d3": 0.2}})
        >>> run["q1"].ids
        ['d2', 'd3', 'd1']
    """
    if isinstance(source, Run):
        return source.replaced(source, name=name, repeats=source.repeats)
    is_path = isinstance(source, (str, os.PathLike))
    if is_path and format_of(Path(source), "run") == "traces":
        if columns:
            raise InvalidInput("columns", columns, sentence="columns can't be given for traces.")
        from llama_index_rag_metrics.files.traces.trace_reading import read_traces

        return read_traces(source, name=name)
    reader = _RunReader(columns)
    reader.read(source)
    name = name or reader.name
    runs = [Run(rankings, name=name) for rankings in reader.runs()]
    repeats = runs if len(runs) > 1 else ()
    return Run(runs[0], name=name, repeats=repeats)


def read_qrels(source: Any, *, columns: Mapping[str, str] | None = None) -> Qrels:
    """Read judgements, from a file or from objects of other tools.

    Args:
        source: a path, plain or .gz, to TREC qrels, BEIR's qrels (.tsv), JSONL, CSV, JSON {query
            id: {document id: grade}}, Parquet, Arrow IPC or Feather, or to the JSON of a dataset;
            or in memory {query id: {document id: grade}, ids or Relevance}, a data frame of pandas
            or polars, an Arrow table, ranx Qrels, or an iterable of ir_measures' Qrel or of
            records. A record or row holds a query (`query_id`, `expected_ids`, perhaps `grades`) or
            a judgement (`query_id`, `doc_id`, `grade`); the names that other tools use are known.
        columns: as of `read_run`.

    Raises:
        FileFormatError: a line can't be read, or repeats a judgement; says where and why.
        UnknownFormat: the source is nothing that is understood.
        MissingExtra: Parquet and Arrow need the extra `batch`.
        FileNotFoundError: there is no such file.

    Examples:
        >>> read_qrels({"q1": {"d1": 2, "d7": 0}})
        {'q1': Relevance({'d1': 2.0, 'd7': 0.0})}
    """
    if isinstance(source, Qrels):
        return source
    reader = _QrelsReader(columns)
    reader.read(source)
    qrels = Qrels(reader.result())
    qrels.metadata = with_turns(dict.fromkeys(reader.metadata, ""), reader.metadata)
    return qrels


class _RunReader(Reader[Ranking]):
    """Rows are ordered as the first allows: by rank, else by score, else as they came."""

    kind = "a run"
    held = "run"
    understood = (
        "a TREC run",
        "JSONL, CSV, TSV, Parquet, Arrow or a data frame, one row per question (query_id, "
        "retrieved_ids) or a document (query_id, doc_id, score or rank)",
        "{query id: {document id: score}}, as a mapping or in JSON",
    )
    whole_fields = f.RETRIEVED
    of_record = staticmethod(read_ranking)
    expected = f"a field {f.RETRIEVED[0]!r}, or {f.DOC_ID[0]!r} with a 'score' or a 'rank'"

    def __init__(self, columns: Mapping[str, str] | None = None) -> None:
        super().__init__(columns)
        self._again: dict[int, _RunReader] = {}
        self._rows: dict[str, dict[object, tuple[str, float | None]]] = {}
        self._order: Literal["rank", "score", "line"] | None = None

    def read_trec(self, path: Path) -> None:
        self.whole, tag = trec.read_trec_run(path)
        self.name = tag or self.name

    def add(self, record: Mapping[str, Any], place: Place) -> None:
        reader = self if f.is_long(record) else self._of_time(read_repeat(record, place))
        super(_RunReader, reader).add(record, place)

    def _of_time(self, time: int) -> _RunReader:
        """The reader of what questions retrieved when they were asked for this time."""
        return self if time == 1 else self._again.setdefault(time, _RunReader())

    def row_reader(self, names: Sequence[str]) -> Callable[[Sequence[Any], Place], None]:
        fields = (f.QUERY_ID, f.DOC_ID, f.SCORE, f.RANK)
        query_id, item, score, rank = (_column_of(names, field) for field in fields)
        repeat = _column_of(names, [f.REPEAT]) if f.REPEAT in names else None

        def read(row: Sequence[Any], place: Place) -> None:
            key, document = _row_id(query_id(row), place), self._document_id(item(row), place)
            values = number_or_none(score(row), place), number_or_none(rank(row), place)
            time = 1 if repeat is None else read_repeat({f.REPEAT: repeat(row)}, place)
            self._of_time(time)._add_row(key, document, *values, place)

        return read

    def runs(self) -> list[dict[str, Ranking]]:
        """The first rankings of all questions, the second ones, and so on; one at least."""
        if not self._again:
            return [self._rankings()]
        times: dict[str, list[Ranking]] = {}
        for reader in (self, *(self._again[time] for time in sorted(self._again))):
            for query_id, ranking in reader._rankings().items():
                times.setdefault(query_id, []).append(ranking)
        return [
            {query_id: of_query[n] for query_id, of_query in times.items() if n < len(of_query)}
            for n in range(max(map(len, times.values()), default=1))
        ]

    def _rankings(self) -> dict[str, Ranking]:
        ranked = {query_id: self._ordered(rows) for query_id, rows in self._rows.items()}
        return {**ranked, **self.whole}

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
            once = f"every {'rank' if order == 'rank' else 'document'} once a question"
            raise place.wrong(once, f"{query_id} {key}")
        rows[key] = item, score

    def _ordered(self, rows: Mapping[Any, tuple[str, float | None]]) -> Ranking:
        if self._order == "score":
            return by_score({item: score for item, score in rows.values() if score is not None})
        ordered = [rows[rank] for rank in sorted(rows)] if self._order == "rank" else rows.values()
        scores = [score for _, score in ordered]
        known = any(score is not None for score in scores)
        return Ranking([item for item, _ in ordered], scores if known else None)

    def value(self, value: Any, place: Place) -> Ranking:
        if isinstance(value, Ranking):
            return value
        if not isinstance(value, Mapping):
            return Ranking(read_ids(value, place))
        scores = {read_id(item, place): read_number(score) for item, score in value.items()}
        if wrong := next((item for item, score in scores.items() if score != score), None):  # noqa: PLR0124
            raise place.wrong("a score, a number", value.get(wrong))
        place.check(len(scores) == len(value), "every document once", list(value))
        return by_score(scores)


class _QrelsReader(Reader[Relevance]):
    kind = "qrels"
    held = "qrels"
    understood = (
        "TREC qrels",
        "BEIR's qrels",
        "JSONL, CSV, Parquet, Arrow or a data frame, one row per question (query_id, expected_ids) "
        "or a judgement (query_id, doc_id, grade)",
        "{query id: {document id: grade}}, as a mapping or in JSON",
    )
    whole_fields = (*f.RELEVANCE, *f.EXPECTED_SPANS)
    of_record = staticmethod(read_expected)
    expected = f"a field 'expected_ids', or {f.DOC_ID[0]!r} with a {f.GRADE[0]!r}"

    def __init__(self, columns: Mapping[str, str] | None = None) -> None:
        super().__init__(columns)
        self.metadata: dict[str, dict[str, Any]] = {}
        self._rows = Judgements()

    def read_trec(self, path: Path) -> None:
        self.whole = trec.read_qrels(path)

    def add(self, record: Mapping[str, Any], place: Place) -> None:
        # what a reviewer skipped, or only remarked on, has no grade
        is_ungraded = f.is_long(record) and set(f.GRADE).isdisjoint(record)
        if is_ungraded and "skipped" in record:
            return
        # beside what a question that was asked again retrieved, its labels may stand again or not
        if f.REPEAT in record and not f.is_long(record):
            known = str(f.first_of(record, f.QUERY_ID)) in self.whole
            if known or f.first_of(record, self.whole_fields) is None:
                return
        super().add(record, place)
        if not f.is_long(record):
            self._note_conversations({str(f.first_of(record, f.QUERY_ID)): record})

    def _note_conversations(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        for query_id, row in rows.items():
            if row.get(CONVERSATION) not in (None, ""):
                self.metadata[query_id] = {
                    name: row[name] for name in (CONVERSATION, TURN) if name in row
                }

    def row_reader(self, names: Sequence[str]) -> Callable[[Sequence[Any], Place], None]:
        query_id, item, grade = (
            _column_of(names, field) for field in (f.QUERY_ID, f.DOC_ID, f.GRADE)
        )
        is_ungraded = set(f.GRADE).isdisjoint(names)

        def read(row: Sequence[Any], place: Place) -> None:
            if is_ungraded:
                raise place.lacks(f"a field {f.GRADE[0]!r}", names)
            ids = _row_id(query_id(row), place), self._document_id(item(row), place)
            self._rows.add(*ids, grade(row), place)

        return read

    def result(self) -> dict[str, Relevance]:
        return {**self._rows.relevance(), **self.whole}

    def value(self, value: Any, place: Place) -> Relevance:
        return read_relevance(value, place)

    def read_value(self, data: object, place: Place) -> None:
        if has_judgements(data):
            content = read_mapping(data, place)
            self._note_conversations(content.metadata)
            data = content.relevance
        super().read_value(data, place)


def _column_fields(columns: Mapping[str, str]) -> dict[str, str]:
    for field in columns:
        if field not in f.KNOWN:
            known = "query_id, retrieved_ids, scores, retrieved_texts, relevance, grades or doc_id"
            raise InvalidInput("columns", field, f"fields such as {known}")
    return {column: field for field, column in columns.items()}


def _check_long(names: Sequence[str], place: Place) -> None:
    if f.is_long(names) and set(f.QUERY_ID).isdisjoint(names):
        raise place.lacks(f"a column {f.QUERY_ID[0]!r}", names)


def _as_record(item: object, place: Place) -> Mapping[str, Any]:
    if isinstance(item, Mapping):
        return {key: value for key, value in item.items() if value is not None}
    fields = {name: getattr(item, name) for name in f.KNOWN if hasattr(item, name)}
    example = '{"query_id": "q1", "doc_id": "d1", "score": 1}'
    place.check(fields, f"a record, such as {example} or a Qrel of ir_measures", item)
    return fields


def _column_of(names: Sequence[str], known: Iterable[str]) -> Callable[[Sequence[Any]], Any]:
    for name in known:
        if name in names:
            return itemgetter(names.index(name))
    return lambda row: None


def _row_id(value: Any, place: Place) -> str:
    return value if type(value) is str and value else read_id(None if value == "" else value, place)
