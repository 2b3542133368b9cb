"""What files hold: a dataset, a run, judgements, …, what tells each, and what reads it.

A file that was taken for another is one that can't be read as what it was given for, and that
another row of `CONTENTS` knows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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

_POOLED, _PASSAGE, _NUGGET = {"query_id", "query"}, {"doc_id", "text"}, {"nugget_id", "nugget"}
"""The fields of an item of a pool, which has no others but its scale."""


class _Fields:
    """The fields of a record: all of them, and those with a value."""

    def __init__(self, record: Mapping[str, object]) -> None:
        self.all = record.keys()
        self.known = {name for name, value in record.items() if value is not None}

    def has(self, *names: str) -> bool:
        """Whether a field of one of these names has a value."""
        return not self.known.isdisjoint(names)


@dataclass(frozen=True)
class Content:
    """What a file may hold.

    Attributes:
        read_by: what reads it, for messages.
        enough: the fields that make a record one of these where that is wanted, whatever else it
            has: alternatives, each of fields that are all needed, each under any of its names.
        record: whether the first of several lines is a record of this.
        columns: whether the first line of a text has the columns of this.
        json: whether this is the value of a JSON file.
        unlike: contents whose lines could be read as this, and would mean nothing.
    """

    read_by: str
    enough: list[list[Sequence[str]]]
    record: Callable[[_Fields], bool]
    columns: Callable[[list[str]], bool] = lambda columns: False
    json: Callable[[object], bool] = lambda data: False
    unlike: Collection[str] = ()


def _is_review(fields: _Fields) -> bool:
    is_given = fields.has("reviewer", "skipped") and "grade" in fields.all
    return is_given and not fields.has(*RETRIEVED)


def _is_pool(fields: _Fields) -> bool:
    names = fields.known
    is_item = names >= _POOLED and (names >= _PASSAGE or names >= _NUGGET)
    return is_item and names <= {*_POOLED, *_PASSAGE, *_NUGGET, "scale"}


def _are_qrels(fields: _Fields) -> bool:
    return fields.has(*DOC_ID) and fields.has("grade") and not fields.has(*RETRIEVED)


def _is_run(fields: _Fields) -> bool:
    return fields.has(*RETRIEVED) or (fields.has(*DOC_ID) and fields.has(*RANK))


def _are_qrels_columns(columns: list[str]) -> bool:
    is_trec = len(columns) == 4 and columns[1] != "Q0" and columns[3].lstrip("-").isdigit()
    return is_trec or tuple(columns) == HEADER


def _are_run_columns(columns: list[str]) -> bool:
    if len(columns) != 6 or columns[1] != "Q0":
        return False
    return not math.isnan(read_number(columns[4]))


CONTENTS = {
    FACTS: Content(
        "Nuggets.load() reads them; on the command line they are the --qrels of `score` and the "
        "--nuggets of `labels nuggets`.",
        [[(NUGGETS,)]],
        lambda fields: fields.has(NUGGETS),
    ),
    REVIEW: Content(
        "read_judgements() reads them; on the command line they are the --qrels of `score` and "
        "`labels pool`, and `labels agree` compares two.",
        [[("grade",), ("doc_id", "nugget_id")]],
        _is_review,
    ),
    POOL: Content(
        "write_review_page() and `rag-metrics labels review` make a page of it, in which people "
        "judge.",
        [[("query",), ("doc_id", "nugget_id")]],
        _is_pool,
    ),
    QRELS: Content(
        "read_qrels() reads them; on the command line they are the --qrels of `score` and "
        "`labels pool` and the --human of `judge`.",
        [[(*RELEVANCE, *EXPECTED_SPANS)], [DOC_ID, GRADE]],
        _are_qrels,
        _are_qrels_columns,
    ),
    RUN: Content(
        "read_run() reads it; on the command line it is the RUN of `score`, `judge` and `labels "
        "pool`.",
        [[RETRIEVED], [DOC_ID, (*SCORE, *RANK)]],
        _is_run,
        _are_run_columns,
        unlike={POOL, REVIEW, QRELS},
    ),
    DATASET: Content(
        "RetrievalDataset.load() reads it; on the command line it is the DATASET of `labels` and "
        "the --dataset of `evaluate`.",
        [[QUERY, (*RELEVANCE, *EXPECTED_TEXTS, REFERENCES, *EXPECTED_SPANS, SUPPORTING_FACTS)]],
        lambda fields: fields.has(*QUERY) and not fields.has(*DOC_ID),
        json=is_dataset,
        unlike={POOL},
    ),
}
"""The contents of files, in the order in which they are tried."""


@contextmanager
def read_as(
    wanted: str, path: Path, form: str | None = None, fields: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Reading a file as one of the kinds in `CONTENTS`.

    Args:
        form: the format that it was said to be in; None where nobody said.
        fields: column to the field that it was said to be.
    """
    # whoever says how to read a file knows what it is
    unlike = () if form or fields else CONTENTS[wanted].unlike
    try:
        yield
    except (FileFormatError, UnknownFormat) as error:
        line = error.line if isinstance(error, FileFormatError) else None
        kind = _kind_of_file(path, wanted, fields or {}, unlike, line)
        if kind in (None, wanted):
            raise
        raise MistakenFile(str(path), wanted, kind, CONTENTS[kind].read_by) from error
    if unlike and path.is_file() and kind_of(path) == "jsonl":
        kind = _kind_of_file(path, wanted, {}, unlike)
        if kind is not None and kind in unlike:
            raise MistakenFile(str(path), wanted, kind, CONTENTS[kind].read_by)


def _kind_of_file(
    path: Path,
    wanted: str,
    fields: Mapping[str, str],
    unlike: Collection[str],
    line: int | None = None,
) -> str | None:
    """Which of the kinds in `CONTENTS` a file is by its beginning; None where that can't tell.

    Args:
        unlike: the kinds of which a line that can be read would mean nothing.
        line: that can't be read; after the first it is a fault, and tells no kind.
    """
    try:
        if path.is_dir():
            return DATASET if is_beir(path) else None
        if not path.is_file():
            return None  # a pipe can't be read again
        form = kind_of(path)
        if form == "json":
            data = json.loads(read_text(path))
            if wanted == QRELS and has_judgements(data):
                return wanted
            return _first(lambda content: content.json(data))
        if form not in ("jsonl", "text", "tsv"):
            return None
        lines = read_lines(path)
        place, text = next(lines)
        is_later = line is not None and line > (place.line or 0)
        if form != "jsonl":
            columns = text.split()
            return None if is_later else _first(lambda content: content.columns(columns))
        record = renamed(json.loads(text), fields)
        kind = _of_record(record, wanted)
        if not is_later or kind in unlike:
            return kind
        # a dataset's questions can be read as qrels, up to its first document
        faulty = next((text for place, text in lines if place.line == line), "")
        is_question = _of_record(record, DATASET) == DATASET
        return DATASET if is_question and _is_document(json.loads(faulty)) else None
    except (RagMetricsError, OSError, ValueError, RecursionError, StopIteration):
        return None


def _first(sniff: Callable[[Content], bool]) -> str | None:
    return next((name for name, content in CONTENTS.items() if sniff(content)), None)


def _of_record(record: object, wanted: str) -> str | None:
    """The content of lines of which this is the first: the wanted one if it has enough for that."""
    if not isinstance(record, Mapping):
        return None
    fields = _Fields(record)
    if any(all(fields.has(*names) for names in needed) for needed in CONTENTS[wanted].enough):
        return wanted
    return _first(lambda content: content.record(fields))


def _is_document(record: object) -> bool:
    """Whether this is a document's line in a dataset."""
    if not isinstance(record, Mapping):
        return False
    names = record.keys()
    has_text = not names.isdisjoint((*TEXT, TEXT_HASH))
    return "document_id" in names and has_text and names.isdisjoint((*QUERY_ID, *GRADE))
