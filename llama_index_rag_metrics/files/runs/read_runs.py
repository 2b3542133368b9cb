"""Reading runs and qrels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from llama_index_rag_metrics.files.conversations import CONVERSATION
from llama_index_rag_metrics.files.dataset_objects import is_dataset, read_object
from llama_index_rag_metrics.files.fields import REPEAT, Fields
from llama_index_rag_metrics.files.lines import LacksField, Location
from llama_index_rag_metrics.files.records import (
    SEPARATORS,
    Judgements,
    Qrels,
    QuestionIds,
    looks_like_several,
    read_grade,
    read_id,
    read_labels,
    read_number,
    read_relevance,
)
from llama_index_rag_metrics.files.sources import Source, open_source
from llama_index_rag_metrics.files.trec import ONCE, by_score, read_trec_qrels, read_trec_run
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning, unknown_format

from .run_records import number_or_none, read_ids, read_ranking, read_repeat

_RUNS = (
    "a TREC run",
    "JSONL, CSV, TSV, Parquet, Arrow or a data frame, one row per question (query_id, "
    "retrieved_ids) or a document (query_id, doc_id, score or rank)",
    "{query id: {document id: score}}, as a mapping or in JSON",
)
_QRELS = (
    "TREC qrels",
    "BEIR's qrels",
    "JSONL, CSV, Parquet, Arrow or a data frame, one row per question (query_id, expected_ids) "
    "or a judgement (query_id, doc_id, grade)",
    "{query id: {document id: grade}}, as a mapping or in JSON",
)
_NO_RANKING = "a field 'retrieved_ids', or 'doc_id' with a 'score' or a 'rank'"
_NO_LABELS = "a field 'expected_ids', or 'doc_id' with a 'grade'"
_LABELS_AS_RUN = "a 'score' or a 'rank': labels, which have a grade, are read by read_qrels"
_SEVERAL = (
    "{path}: {passage!r} is read as one document, as a row is of one. "
    "If it means several, write a row for each."
)
_LABELS = ("expected_ids", "expected_spans")
_DISORDER = "a {order}, a number, as in the first record"


def read_run(source: Any, *, name: str = "", columns: Mapping[str, str] | None = None) -> Run:
    """Read rankings, from a file or from objects of other tools.

    Scores are ordered as by trec_eval: by score as 64-bit float, descending, and ties by document
    id, descending. That holds for TREC runs, whose rank column isn't read, for {query id:
    {document id: score}}, and for tables without ranks. A table with one row per document is
    ordered by its column `rank` if it has one. A list of ids is a ranking as it is.

    Args:
        source: a path, whose ending says the format: .jsonl, .json {query id: {document id:
            score}}, .csv, .tsv, .parquet, .arrow, any other a TREC run, each also packed as .gz,
            .bz2 or .xz; or in memory {query id: {document id: score} or ids}, a data frame of
            pandas or polars, an Arrow table, a ranx Run, or an iterable of ir_measures' ScoredDoc
            or of records. A record or row holds a query (`query_id`, `retrieved_ids`, perhaps
            `scores`, `retrieved_texts`) or a document (`query_id`, `doc_id`, `score` or `rank`);
            the names that other tools use are known. Without `query_id`, a question's id is a
            digest of its text. With `repeat`, which time a question was asked, the run has
            `repeats`. Files of traces are read by `read_traces`, which has further arguments.
        name: what to call the run; by default the tag of a TREC run, or the file's name.
        columns: what fields are called in the source: {"retrieved_ids": "my_ids"}, or {"repeat":
            "epoch"}.

    Raises:
        FileFormatError: a line can't be read, or repeats a document; says where and why.
        FileFormatError: the source is nothing that is understood.
        MissingExtra: Parquet and Arrow need the extra `batch`.
        FileNotFoundError: there is no such file.

    Examples:
        >>> run = read_run({"q1": {"d1": 0.2, "d2": 0.9, "d3": 0.2}})
        >>> run["q1"].ids
        ['d2', 'd3', 'd1']
    """
    if isinstance(source, Run):
        return source.replaced(source, name=name, repeats=source.repeats)
    if isinstance(source, (str, os.PathLike)):
        from llama_index_rag_metrics.files.traces.trace_reading import read_traces
        from llama_index_rag_metrics.files.traces.trace_spans import is_trace_file

        if is_trace_file(Path(source)):
            if columns:
                sentence = "columns can't be given for traces."
                raise InvalidInput("columns", columns, sentence=sentence)
            return read_traces(source, name=name)
    fields = Fields(columns)
    opened = _open(source, fields, "a run", _RUNS)
    if opened.is_trec:
        rankings, tag, notes = read_trec_run(Path(source))
        return Run(rankings, name=name or tag or opened.name, notes=notes)
    reader = _RunReader(fields)
    for location, row in opened.rows:
        reader.add(row, location)
    for key, value in (opened.value or {}).items():
        location = Location(f"{opened.location.path}, question {key!r}")
        reader.add_ranking(read_id(key, location), 1, _ranking(value, location), location)
    return reader.run(name or opened.name)


def read_qrels(source: Any, *, columns: Mapping[str, str] | None = None) -> Qrels:
    """Read judgements, from a file or from objects of other tools.

    Args:
        source: a path, whose ending says the format: .jsonl, .json {query id: {document id:
            grade}} or a dataset, .csv, .tsv (BEIR's, too), .parquet, .arrow, any other TREC qrels,
            each also packed as .gz, .bz2 or .xz; or in memory {query id: {document id: grade}, ids
            or Relevance}, a data frame of pandas or polars, an Arrow table, ranx Qrels, or an
            iterable of ir_measures' Qrel or of records. A record or row holds a query (`query_id`,
            `expected_ids`, perhaps `grades`) or a judgement (`query_id`, `doc_id`, `grade`); the
            names that other tools use are known. Without `query_id`, a question's id is a digest of
            its text.
        columns: what fields are called in the source: {"labels": "gold_ids"}.

    Raises:
        FileFormatError: a line can't be read, or contradicts another; says where and why.
        FileFormatError: the source is nothing that is understood.
        MissingExtra: Parquet and Arrow need the extra `batch`.
        FileNotFoundError: there is no such file.

    Examples:
        >>> read_qrels({"q1": {"d1": 2, "d7": 0}})
        {'q1': Relevance({'d1': 2.0, 'd7': 0.0})}
    """
    if isinstance(source, Qrels):
        return source
    fields = Fields(columns)
    opened = _open(source, fields, "qrels", _QRELS)
    if opened.is_trec:
        return Qrels(read_trec_qrels(Path(source)))
    reader = _QrelsReader(fields)
    for location, row in opened.rows:
        reader.add(row, location)
    if opened.value is not None:
        reader.add_object(opened.value, opened.location)
    return reader.qrels()


def _open(source: Any, fields: Fields, kind: str, understood: tuple[str, ...]) -> Source:
    if isinstance(source, (str, os.PathLike)) and Path(source).is_dir():
        raise unknown_format(str(source), "it is a folder", understood, kind)
    opened = open_source(source, fields)
    if opened.fault:
        raise unknown_format(opened.location.path, opened.fault, understood, kind)
    return opened


class _PassageIds:
    """The ids of the passages of rows; warns once of ids that may be several."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._has_warned = False

    def read(self, row: Mapping[str, Any], location: Location) -> str:
        passage = read_id(self._fields.value(row, "doc_id") or None, location)
        if not self._has_warned and SEPARATORS.search(passage) and looks_like_several(passage):
            self._has_warned = True
            path = location.path
            if location.line is not None:
                path = f"{path}, line {location.line}"
            warn_caller(LabelWarning(_SEVERAL.format(path=path, passage=passage)))
        return passage


class _RunReader:
    """Rows are ordered as the first allows: by rank, else by score, else as they came."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._question_ids, self._passages = QuestionIds(fields), _PassageIds(fields)
        self._order: Literal["rank", "score", "line"] | None = None
        self._rankings: dict[int, dict[str, Ranking]] = {}
        self._rows: dict[int, dict[str, dict[object, tuple[str, float | None]]]] = {}
        self._queries: dict[str, str] = {}

    def add(self, row: Mapping[str, Any], location: Location) -> None:
        fields = self._fields
        has_ranking = fields.value(row, "retrieved_ids") is not None
        is_passage = fields.has(row, "doc_id") and not has_ranking
        if not is_passage and not has_ranking:
            raise location.lacks(_NO_RANKING, row)
        query_id = self._question_id(row, location, is_passage)
        repeat = read_repeat(row, location, fields)
        if is_passage:
            self._add_passage(query_id, repeat, row, location)
        else:
            ranking = read_ranking(row, location, fields)
            self.add_ranking(query_id, repeat, ranking, location)

    def _question_id(self, row: Mapping[str, Any], location: Location, is_passage: bool) -> str:
        text = self._fields.value(row, "query")
        query_id = self._question_ids.read(row, location, is_whole=not is_passage)
        if isinstance(text, str):
            self._queries.setdefault(query_id, text)
        return query_id

    def add_ranking(self, query_id: str, repeat: int, ranking: Ranking, location: Location) -> None:
        rankings = self._rankings.setdefault(repeat, {})
        location.check(query_id not in rankings, "every query id once", query_id)
        rankings[query_id] = ranking

    def _add_passage(
        self, query_id: str, repeat: int, row: Mapping[str, Any], location: Location
    ) -> None:
        passage = self._passages.read(row, location)
        score, rank = (
            number_or_none(self._fields.value(row, field), location) for field in ("score", "rank")
        )
        if self._order is None:
            self._order = self._first_order(score, rank, row, location)
        order = self._order
        if (rank is None and order == "rank") or (score is None and order == "score"):
            expected = _DISORDER.format(order=order)
            raise location.wrong(expected, f"{query_id} {passage}")
        rows = self._rows.setdefault(repeat, {}).setdefault(query_id, {})
        keys: dict[str, object] = {"rank": rank, "score": passage, "line": len(rows)}
        if keys[order] in rows:
            expected = ONCE if order == "score" else "every rank once a question"
            raise location.wrong(expected, f"{query_id} {keys[order]}")
        rows[keys[order]] = passage, score

    def _first_order(
        self, score: float | None, rank: float | None, row: Mapping[str, Any], location: Location
    ) -> Literal["rank", "score", "line"]:
        if rank is not None:
            return "rank"
        if score is not None:
            return "score"
        if self._fields.has(row, "grade"):
            raise location.wrong(_LABELS_AS_RUN, sorted(row))
        return "line"

    def _ordered(self, rows: Mapping[Any, tuple[str, float | None]]) -> Ranking:
        if self._order == "score":
            return by_score({item: score for item, score in rows.values() if score is not None})
        ordered = [*rows.values()]
        if self._order == "rank":
            ordered = [rows[rank] for rank in sorted(rows)]
        scores = [score for _, score in ordered]
        has_scores = any(score is not None for score in scores)
        return Ranking([item for item, _ in ordered], scores if has_scores else None)

    def run(self, name: str) -> Run:
        """The first rankings of all questions; `repeats` has the second ones, and so on."""
        times: dict[str, list[Ranking]] = {}
        for repeat in sorted({1, *self._rows, *self._rankings}):
            of_rows = self._rows.get(repeat, {})
            rankings = {query_id: self._ordered(rows) for query_id, rows in of_rows.items()}
            rankings |= self._rankings.get(repeat, {})
            for query_id, ranking in rankings.items():
                times.setdefault(query_id, []).append(ranking)
        runs = []
        for number in range(max(map(len, times.values()), default=1)):
            rankings = {
                key: ranked[number] for key, ranked in times.items() if number < len(ranked)
            }
            runs.append(Run(rankings, name=name, queries=self._queries))
        return Run(runs[0], name=name, queries=self._queries, repeats=runs if len(runs) > 1 else ())


def _ranking(value: Any, location: Location) -> Ranking:
    """What a mapping has for a question: ids in order, or their scores."""
    if isinstance(value, Ranking):
        return value
    if not isinstance(value, Mapping):
        return Ranking(read_ids(value, location))
    scores = {}
    for item, score in value.items():
        number = read_number(score)
        if number != number:  # noqa: PLR0124
            raise location.wrong("a score, a number", score)
        scores[read_id(item, location)] = number
    location.check(len(scores) == len(value), "every document once", list(value))
    return by_score(scores)


class _QrelsReader:
    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._question_ids, self._passages = QuestionIds(fields), _PassageIds(fields)
        self._judgements = Judgements()
        self._labels: dict[str, Relevance] = {}
        self._metadata: dict[str, dict[str, Any]] = {}
        self._unlabelled: list[LacksField] = []

    def add(self, row: Mapping[str, Any], location: Location) -> None:
        is_again = self._fields.value(row, REPEAT) is not None
        has_labels = any(self._fields.value(row, field) is not None for field in _LABELS)
        if self._fields.has(row, "doc_id"):
            self._add_judgement(row, location)
        elif not is_again:
            self._add_labels(row, location)
        elif has_labels and str(self._fields.value(row, "query_id")) not in self._labels:
            # beside what a question that was asked again retrieved, labels may stand again
            self._add_labels(row, location)

    def _add_judgement(self, row: Mapping[str, Any], location: Location) -> None:
        grade = self._fields.value(row, "grade")
        # what a reviewer skipped, or only remarked on; a document of a dataset's corpus
        if grade is None and ("skipped" in row or {"document_id", "text"} <= row.keys()):
            return
        if not self._fields.has(row, "grade"):
            raise location.lacks("a field 'grade'", row)
        query_id = self._question_ids.read(row, location, is_whole=False)
        passage = self._passages.read(row, location)
        self._judgements.add(query_id, passage, read_grade(grade, location), location)

    def _add_labels(self, row: Mapping[str, Any], location: Location) -> None:
        relevance = read_labels(row, self._fields, location)
        if relevance is None:
            fields = (*_LABELS, "retrieved_ids")
            if not any(self._fields.has(row, field) for field in fields):
                raise location.lacks(_NO_LABELS, row)
            self._unlabelled.append(location.lacks(_NO_LABELS, row))
            return
        query_id = self._question_ids.read(row, location)
        location.check(query_id not in self._labels, "every query id once", query_id)
        self._labels[query_id] = relevance
        self._note_conversation(query_id, row)

    def _note_conversation(self, query_id: str, row: Mapping[str, Any]) -> None:
        if row.get(CONVERSATION) not in (None, ""):
            self._metadata[query_id] = {CONVERSATION: row[CONVERSATION]}

    def add_object(self, value: Mapping[Any, Any], location: Location) -> None:
        """Add the labels of a dataset, or {query id: labels}."""
        if is_dataset(value):
            parts = read_object(value, location)
            self._labels |= parts["relevance"]
            for query_id, row in parts["metadata"].items():
                self._note_conversation(query_id, row)
            return
        for key, labels_of_query in value.items():
            place = Location(f"{location.path}, question {key!r}")
            query_id = read_id(key, place)
            place.check(query_id not in self._labels, "every query id once", query_id)
            self._labels[query_id] = read_relevance(labels_of_query, place)

    def qrels(self) -> Qrels:
        qrels = Qrels({**self._judgements.relevance(), **self._labels})
        if self._unlabelled and not qrels:
            raise self._unlabelled[0]
        qrels.metadata = self._metadata
        return qrels
