"""Files that were taken for others: what a file is that can't be read as what it was given for."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from llama_index_rag_metrics.files.beir import HEADER, is_beir
from llama_index_rag_metrics.files.fields import (
    DOC_ID,
    EXPECTED_SPANS,
    EXPECTED_TEXTS,
    GRADE,
    NUGGETS,
    QUERY,
    QUERY_ID,
    RANK,
    REFERENCES,
    RELEVANCE,
    RETRIEVED,
    SCORE,
    SUPPORTING_FACTS,
    TEXT,
    TEXT_HASH,
)
from llama_index_rag_metrics.files.file_kinds import kind_of
from llama_index_rag_metrics.files.judgements import read_number
from llama_index_rag_metrics.files.lines import read_lines, read_text
from llama_index_rag_metrics.files.mapping import has_judgements, is_dataset
from llama_index_rag_metrics.files.runs.run_records import renamed
from llama_index_rag_metrics.runtime.errors import (
    FileFormatError,
    MistakenFile,
    RagMetricsError,
    UnknownFormat,
)

DATASET, RUN, QRELS = "a dataset", "a run", "qrels"
POOL, REVIEW, FACTS = "a pool to be judged", "reviewers' judgements", "nuggets"

READERS = {
    DATASET: "RetrievalDataset.load() reads it; on the command line it is the DATASET of `labels` "
    "and the --dataset of `evaluate`.",
    RUN: "read_run() reads it; on the command line it is the RUN of `score`, `judge` and `labels "
    "pool`.",
    QRELS: "read_qrels() reads them; on the command line they are the --qrels of `score` and "
    "`labels pool` and the --human of `judge`.",
    POOL: "write_review_page() and `rag-metrics labels review` make a page of it, in which people "
    "judge.",
    REVIEW: "read_judgements() reads them; on the command line they are the --qrels of `score` and "
    "`labels pool`, and `labels agree` compares two.",
    FACTS: "Nuggets.load() reads them; on the command line they are the --qrels of `score` and the "
    "--nuggets of `labels nuggets`.",
}
"""What a file can be, and what reads it."""

_ALIKE = {RUN: {POOL, REVIEW, QRELS}, DATASET: {POOL}}
"""Kinds of JSON lines that could be read as another, and would mean nothing there."""

_NEEDED: dict[str, list[list[Sequence[str]]]] = {
    DATASET: [
        [QUERY, (*RELEVANCE, *EXPECTED_TEXTS, REFERENCES, *EXPECTED_SPANS, SUPPORTING_FACTS)]
    ],
    RUN: [[RETRIEVED], [DOC_ID, (*SCORE, *RANK)]],
    QRELS: [[(*RELEVANCE, *EXPECTED_SPANS)], [DOC_ID, GRADE]],
    POOL: [[("query",), ("doc_id", "nugget_id")]],
    REVIEW: [[("grade",), ("doc_id", "nugget_id")]],
    FACTS: [[(NUGGETS,)]],
}
"""The fields that make a record one of a kind, whatever else it has: alternatives, each of fields
that are all needed, each under any of its names."""

_POOLED, _PASSAGE, _NUGGET = {"query_id", "query"}, {"doc_id", "text"}, {"nugget_id", "nugget"}
"""The fields of an item of a pool, which has no others but its scale."""


@contextmanager
def read_as(
    wanted: str, path: Path, form: str | None = None, fields: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Reading a file as one of the kinds in `READERS`.

    Args:
        wanted: the kind.
        path: the file.
        form: the format that it was said to be in; None where nobody said.
        fields: column to the field that it was said to be.

    Raises:
        MistakenFile: it can't be read as that, or would mean nothing, and is another kind.
    """
    # whoever says how to read a file knows what it is
    alike = set() if form or fields else _ALIKE.get(wanted, set())
    try:
        yield
    except (FileFormatError, UnknownFormat) as error:
        line = error.line if isinstance(error, FileFormatError) else None
        kind = _kind_of_file(path, wanted, fields or {}, alike, line)
        if kind in (None, wanted):
            raise
        raise MistakenFile(str(path), wanted, kind, READERS[kind]) from error
    if alike and path.is_file() and kind_of(path) == "jsonl":
        kind = _kind_of_file(path, wanted, {}, alike)
        if kind in alike:
            raise MistakenFile(str(path), wanted, kind, READERS[kind])


def _kind_of_file(
    path: Path,
    wanted: str,
    fields: Mapping[str, str],
    alike: Collection[str],
    line: int | None = None,
) -> str | None:
    """Which of the kinds in `READERS` a file is by its beginning; None where that can't tell.

    Args:
        path, wanted, fields: as of `read_as`.
        alike: the kinds of which a line that can be read would mean nothing.
        line: that can't be read; after the first it is a fault, and tells no kind.
    """
    try:
        if path.is_dir():
            return DATASET if is_beir(path) else None
        if not path.is_file():
            return None  # a pipe can't be read again
        form = kind_of(path)
        if form == "json":
            return _of_json(json.loads(read_text(path)), wanted)
        if form not in ("jsonl", "text", "tsv"):
            return None
        lines = read_lines(path)
        place, text = next(lines)
        is_later = line is not None and line > (place.line or 0)
        if form != "jsonl":
            return None if is_later else _of_columns(text.split())
        record = renamed(json.loads(text), fields)
        kind = _of_record(record, wanted)
        if not is_later or kind in alike:
            return kind
        # a dataset's questions can be read as qrels, up to its first document
        faulty = next((text for place, text in lines if place.line == line), "")
        is_question = _of_record(record, DATASET) == DATASET
        return DATASET if is_question and _is_document(json.loads(faulty)) else None
    except (RagMetricsError, OSError, ValueError, RecursionError, StopIteration):
        return None


def _of_json(data: object, wanted: str) -> str | None:
    """What a JSON file holds."""
    if wanted == QRELS and has_judgements(data):
        return wanted
    return DATASET if is_dataset(data) else None


def _of_record(record: object, wanted: str) -> str | None:
    """What lines are of which this is the first: the wanted kind if it has all that needs."""
    if not isinstance(record, Mapping):
        return None
    names = {name for name, value in record.items() if value is not None}

    def has(*fields: str) -> bool:
        return not names.isdisjoint(fields)

    if any(all(has(*field) for field in needed) for needed in _NEEDED[wanted]):
        return wanted
    if has(NUGGETS):
        return FACTS
    if has(*RETRIEVED):
        return RUN
    if has("reviewer", "skipped") and "grade" in record:
        return REVIEW
    if (
        names >= _POOLED
        and (names >= _PASSAGE or names >= _NUGGET)
        and names <= {*_POOLED, *_PASSAGE, *_NUGGET, "scale"}
    ):
        return POOL
    if has(*DOC_ID):
        return QRELS if has("grade") else RUN if has(*RANK) else None
    return DATASET if has(*QUERY) else None


def _is_document(record: object) -> bool:
    """Whether this is a document's line in a dataset."""
    if not isinstance(record, Mapping):
        return False
    names = record.keys()
    has_text = not names.isdisjoint((*TEXT, TEXT_HASH))
    return "document_id" in names and has_text and names.isdisjoint((*QUERY_ID, *GRADE))


def _of_columns(columns: list[str]) -> str | None:
    """What lines of text are of which this is the first."""
    if tuple(columns) == HEADER:
        return QRELS
    is_run = len(columns) == 6 and columns[1] == "Q0"
    if is_run and read_number(columns[4]) == read_number(columns[4]):
        return RUN
    is_qrels = len(columns) == 4 and columns[1] != "Q0" and columns[3].lstrip("-").isdigit()
    return QRELS if is_qrels else None
