"""Files that were taken for others: what a file is that can't be read as what it was given for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from llama_index_rag_metrics.errors import (
    FileFormatError,
    MistakenFile,
    RagMetricsError,
    UnknownFormat,
)
from llama_index_rag_metrics.formats.beir import HEADER, is_beir
from llama_index_rag_metrics.formats.file_kinds import kind_of
from llama_index_rag_metrics.formats.judgements import read_number
from llama_index_rag_metrics.formats.lines import read_lines, read_text
from llama_index_rag_metrics.formats.mapping import is_mapping
from llama_index_rag_metrics.formats.nuggets import NUGGETS
from llama_index_rag_metrics.formats.records import QUERY
from llama_index_rag_metrics.formats.runs.rankings import RETRIEVED
from llama_index_rag_metrics.formats.runs.records import DOCUMENT_ID, GRADE, RANK

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


@contextmanager
def read_as(wanted: str, path: Path) -> Iterator[None]:
    """Reading a file as one of the kinds in `READERS`.

    Raises:
        MistakenFile: it can't be read as that, and is another kind.
    """
    try:
        yield
    except (FileFormatError, UnknownFormat) as error:
        kind = kind_of_file(path)
        # a line of qrels in JSON may be a reviewer's, who has no name
        is_line = wanted == REVIEW and kind == QRELS and kind_of(path) == "jsonl"
        if kind is None or kind == wanted or is_line:
            raise
        raise MistakenFile(str(path), wanted, kind, READERS[kind]) from error
    if wanted in _ALIKE and path.is_file() and kind_of(path) == "jsonl":
        kind = kind_of_file(path)
        if kind is not None and kind in _ALIKE[wanted]:
            raise MistakenFile(str(path), wanted, kind, READERS[kind])


def kind_of_file(path: Path) -> str | None:
    """Which of the kinds in `READERS` a file is by its beginning; None where that can't tell."""
    try:
        if path.is_dir():
            return DATASET if is_beir(path) else None
        if not path.is_file():
            return None  # a pipe can't be read again
        kind = kind_of(path)
        if kind == "json":
            data = json.loads(read_text(path))
            return DATASET if isinstance(data, Mapping) and is_mapping(data) else None
        if kind not in ("jsonl", "text", "tsv"):
            return None
        line = next((line for _, line in islice(read_lines(path), 1)), "")
        return _of_record(json.loads(line)) if kind == "jsonl" else _of_columns(line.split())
    except (RagMetricsError, OSError, ValueError, RecursionError):
        return None


def _of_record(record: object) -> str | None:
    """What lines are of which this is the first."""
    if not isinstance(record, Mapping):
        return None

    def has(*names: str) -> bool:
        return not record.keys().isdisjoint(names)

    if has(NUGGETS):
        return FACTS
    if has(*RETRIEVED):
        return RUN
    if has("reviewer", "skipped"):
        return REVIEW
    if has("query") and ((has("doc_id") and has("text")) or has("nugget_id")):
        return None if has(*GRADE, *RANK) else POOL
    if has(*DOCUMENT_ID):
        return QRELS if has("grade") else RUN if has(*RANK) else None
    return DATASET if has(*QUERY) else None


def _of_columns(columns: list[str]) -> str | None:
    """What lines of text are of which this is the first."""
    if tuple(columns) == HEADER:
        return QRELS
    is_run = len(columns) == 6 and columns[1] == "Q0"
    if is_run and read_number(columns[4]) == read_number(columns[4]):
        return RUN
    is_qrels = len(columns) == 4 and columns[1] != "Q0" and columns[3].lstrip("-").isdigit()
    return QRELS if is_qrels else None
