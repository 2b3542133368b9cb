"""Reading runs and qrels: which format a source is in, and what is made of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.formats.beir import HEADER, read_judgements
from llama_index_rag_metrics.formats.judgements import Qrels, read_number
from llama_index_rag_metrics.formats.lines import Faults, OnError, Place
from llama_index_rag_metrics.formats.mapping import has_judgements, read_mapping
from llama_index_rag_metrics.formats.records import read_id, read_relevance
from llama_index_rag_metrics.formats.runs.mistaken import QRELS, RUN
from llama_index_rag_metrics.formats.runs.order import by_score
from llama_index_rag_metrics.formats.runs.rankings import read_ids
from llama_index_rag_metrics.formats.runs.reader import Reader, is_heading
from llama_index_rag_metrics.formats.runs.records import QrelsRecords, RunRecords
from llama_index_rag_metrics.formats.runs.trec_run import read_trec_run
from llama_index_rag_metrics.formats.trec import read_qrels as read_trec_qrels
from llama_index_rag_metrics.formats.trec import split_columns
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.run import Ranking, Run

TRACES = "traces"

RUN_FORMATS = ("trec", "jsonl", "json", "csv", "tsv", "parquet", "arrow", TRACES)
QRELS_FORMATS = ("trec", "beir", *RUN_FORMATS[1:-1])


def read_run(
    source: Any,
    *,
    format: str | None = None,  # noqa: A002
    name: str = "",
    on_error: OnError = "raise",
    columns: Mapping[str, str] | None = None,
) -> Run:
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
            `doc_id`, `score` or `rank`); the names that other tools use are known. Files of traces
            are read by `read_traces`, which has further arguments for them.
        format: "trec", "jsonl", "json", "csv", "tsv", "parquet", "arrow" or "traces"; None tells it
            by the file's name, and where that says nothing, by its beginning.
        name: what to call the run; by default the tag of a TREC run, or the file's name.
        on_error: "raise" ends at the first line that can't be read; "skip" leaves such lines out,
            warns of them, and lists them in the run's `skipped`.
        columns: what fields are called in the source: {"retrieved_ids": "my_ids"}.

    Raises:
        FileFormatError: a line can't be read, or repeats a document; says where and why.
        MistakenFile: it is another kind of file, such as qrels; says which, and what reads it.
        UnknownFormat: the source is nothing that is understood.
        MissingExtra: Parquet and Arrow need the extra `batch`.
        FileNotFoundError: there is no such file.

    Examples:
        >>> run = read_run({"q1": {"d1": 0.2, "d2": 0.9, "d3": 0.2}})
        >>> run["q1"].ids
        ['d2', 'd3', 'd1']
    """
    if isinstance(source, Run):
        return source.replaced(source, name=name)
    if isinstance(source, (str, os.PathLike)) and (format or run_format(Path(source))) == TRACES:
        if columns:
            raise InvalidInput("columns", columns, "none for traces")
        from llama_index_rag_metrics.formats.traces import read_traces

        return read_traces(source, name=name, on_error=on_error)
    faults, reader = Faults(on_error), _RunReader(columns)
    reader.read(source, format, faults)
    faults.warn()
    return Run(reader.result(), name=name or reader.name, skipped=faults.skipped)


def read_qrels(
    source: Any,
    *,
    format: str | None = None,  # noqa: A002
    on_error: OnError = "raise",
    columns: Mapping[str, str] | None = None,
) -> Qrels:
    """Read judgements, from a file or from objects of other tools.

    Args:
        source: a path, plain or .gz, to TREC qrels, BEIR's qrels (.tsv), JSONL, CSV, JSON {query
            id: {document id: grade}}, Parquet, Arrow IPC or Feather, or to the JSON of a dataset;
            or in memory {query id: {document id: grade}, ids or Relevance}, a data frame of pandas
            or polars, an Arrow table, ranx Qrels, or an iterable of ir_measures' Qrel or of
            records. A record or row holds a query (`query_id`, `expected_ids`, perhaps `grades`) or
            a judgement (`query_id`, `doc_id`, `grade`); the names that other tools use are known.
        format: "trec", "beir", "jsonl", "json", "csv", "tsv", "parquet" or "arrow"; None tells it
            by the file's name, and where that says nothing, by its beginning.
        on_error, columns: as of `read_run`.

    Raises:
        FileFormatError: a line can't be read, or repeats a judgement; says where and why.
        MistakenFile: it is another kind of file, such as a run; says which, and what reads it.
        UnknownFormat: the source is nothing that is understood.
        MissingExtra: Parquet and Arrow need the extra `batch`.
        FileNotFoundError: there is no such file.

    Examples:
        >>> read_qrels({"q1": {"d1": 2, "d7": 0}})
        {'q1': Relevance({'d1': 2.0, 'd7': 0.0})}
    """
    if isinstance(source, Qrels):
        return source
    faults, reader = Faults(on_error), _QrelsReader(columns)
    reader.read(source, format, faults)
    faults.warn()
    qrels = Qrels(reader.result())
    qrels.skipped = tuple(faults.skipped)
    return qrels


def run_format(path: Path) -> str:
    """Which of a run's formats a file is in, "empty" if there is nothing in it.

    Raises:
        FileFormatError: the file isn't text.
        FileNotFoundError: there is no such file.
    """
    return _RunReader().form_of(path)


def qrels_format(path: Path) -> str:
    """Which of the formats of qrels a file is in, "empty" if there is nothing in it."""
    return _QrelsReader().form_of(path)


class _RunReader(Reader[Ranking]):
    kind = RUN
    loader = "run"
    understood = (
        "a TREC run",
        "JSONL, CSV, TSV, Parquet, Arrow or a data frame, one row per query (query_id, "
        "retrieved_ids) or a document (query_id, doc_id, score or rank)",
        "{query id: {document id: score}}, as a mapping or in JSON",
    )
    formats = RUN_FORMATS
    make_records = RunRecords

    def value(self, value: Any, place: Place) -> Ranking:
        if isinstance(value, Ranking):
            return value
        if not isinstance(value, Mapping):
            return Ranking(read_ids(value, place))
        scores = {read_id(item, place): read_number(score) for item, score in value.items()}
        if wrong := next((item for item, score in scores.items() if score != score), None):  # noqa: PLR0124
            raise place.wrong("a score, a number", value.get(wrong))
        if len(scores) < len(value):
            raise place.wrong("every document once", list(value))
        return by_score(scores)

    def lines(self, path: Path, form: str, faults: Faults) -> None:
        self.whole, tag = read_trec_run(path, faults)
        self.name = tag or self.name

    def form_of(self, path: Path) -> str:
        from llama_index_rag_metrics.formats.traces.containers import is_trace_file

        form = super().form_of(path)
        return TRACES if form in ("json", "jsonl") and is_trace_file(path) else form

    def text_form(self, columns: list[str]) -> str:
        return "tsv" if is_heading(columns) else "trec"


class _QrelsReader(Reader[Relevance]):
    kind = QRELS
    loader = "qrels"
    understood = (
        "TREC qrels",
        "BEIR's qrels",
        "JSONL, CSV, Parquet, Arrow or a data frame, one row per query (query_id, expected_ids) "
        "or a judgement (query_id, doc_id, grade)",
        "{query id: {document id: grade}}, as a mapping or in JSON",
    )
    formats = QRELS_FORMATS
    make_records = QrelsRecords

    def value(self, value: Any, place: Place) -> Relevance:
        return read_relevance(value, place)

    def read_value(self, data: object, place: Place, faults: Faults) -> None:
        if has_judgements(data):
            data = read_mapping(data, place, faults).relevance
        super().read_value(data, place, faults)

    def lines(self, path: Path, form: str, faults: Faults) -> None:
        read: Callable[[Path, Faults], dict[str, Relevance]]
        read = read_judgements if form == "beir" else read_trec_qrels
        self.whole = read(path, faults)

    def text_form(self, columns: list[str]) -> str:
        if len(columns) == len(HEADER):
            is_named = is_heading(columns)
            # TREC's columns may have tabs or spaces between them, and even both
            if not is_named and len(split_columns("\t".join(columns))) > len(HEADER):
                return "trec"
            return "tsv" if is_named and tuple(columns) != HEADER else "beir"
        return "tsv" if is_heading(columns) else "trec"
