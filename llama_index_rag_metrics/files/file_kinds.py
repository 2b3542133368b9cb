"""The kinds of files: what tells each, and what reads it as a dataset, a run or judgements."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from llama_index_rag_metrics.files import beir, dataset_objects
from llama_index_rag_metrics.files import fields as f
from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.dataset_objects import has_judgements, is_dataset, read_jsonl
from llama_index_rag_metrics.files.lines import (
    Faults,
    Place,
    from_json,
    name_of,
    read_lines,
    read_text,
)
from llama_index_rag_metrics.files.records import read_number
from llama_index_rag_metrics.files.runs.arrow_runs import ArrowForm, column_names, read_arrow
from llama_index_rag_metrics.files.runs.run_records import renamed
from llama_index_rag_metrics.files.tables import read_table
from llama_index_rag_metrics.files.trec import COMMENT, read_trec_run, split_columns
from llama_index_rag_metrics.files.trec import read_qrels as read_trec_qrels
from llama_index_rag_metrics.runtime.errors import (
    FileFormatError,
    InvalidInput,
    MistakenFile,
    RagMetricsError,
    UnknownFormat,
)
from llama_index_rag_metrics.runtime.open_table import OpenTable

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.runs.read_runs import Reader

Loader: TypeAlias = Callable[[Path], Any]
"""From a file to its content, in any form that can be read from memory."""


Held: TypeAlias = Literal["run", "qrels", "dataset"]
QueriesOf: TypeAlias = "Callable[[Reader[Any], Path, Faults], None]"


@dataclass(frozen=True)
class FileKind:
    """What tells a kind of file, and what reads it as each that it may hold."""

    endings: tuple[str, ...] = ()
    begins: Callable[[list[str]], bool] | None = None
    columns: Callable[[list[str]], bool] | None = None
    dataset: Callable[[Path, Faults], DatasetContent] | None = None
    run: QueriesOf | None = None
    qrels: QueriesOf | None = None
    lacks: str = "it is no JSON"

    def reader(self, held: Held, path: Path) -> Callable[..., Any]:
        read: Callable[..., Any] | None = getattr(self, held)
        if read is not None:
            return read
        path.stat()  # where there is no such file, that is what is wrong with it
        if self.lacks:
            raise UnknownFormat(str(path), self.lacks, dataset_objects.UNDERSTOOD)
        loaders = [name for name in ("run", "qrels", "dataset") if getattr(self, name)]
        raise UnknownFormat(str(path), f"register_format gave no {held} loader for it", loaders)


def is_heading(columns: Iterable[str]) -> bool:
    return not {*f.QUERY_ID}.isdisjoint(name.strip() for name in columns)


_JSON_BEGINS = re.compile(r"""\s*(?:\{\s*(?:["}]|$)|\[\s*(?:[{["\]]|$))""")
"""How an object or a list begins, and an id such as {5F1A…} doesn't."""


def _is_json(lines: list[str]) -> bool:
    return _JSON_BEGINS.match(lines[0]) is not None


def _is_jsonl(lines: list[str]) -> bool:
    if len(lines) == 1 or not _is_json(lines):
        return False
    try:
        json.loads(lines[0])
    except (ValueError, RecursionError):
        return False
    return True


def _is_beir(columns: list[str]) -> bool:
    if is_heading(columns):
        return tuple(columns) == beir.HEADER
    # TREC's columns may have tabs or spaces between them, and even both
    return len(columns) == len(beir.HEADER) >= len(split_columns("\t".join(columns)))


def _json_dataset(path: Path, faults: Faults) -> DatasetContent:
    place = Place(str(path))
    data = from_json(read_text(path), place)
    if data == []:
        raise UnknownFormat(str(path), _NO_QUESTION, dataset_objects.UNDERSTOOD)
    return dataset_objects.read_value(data, place, faults)


def _trec_run(reader: Reader[Any], path: Path, faults: Faults) -> None:
    reader.whole, tag = read_trec_run(path, faults)
    reader.name = tag or reader.name


def _qrels(
    read: Callable[[Path, Faults], Any], reader: Reader[Any], path: Path, faults: Faults
) -> None:
    reader.whole = read(path, faults)


def _lines(reader: Reader[Any], path: Path, faults: Faults) -> None:
    reader.read_json_lines(path, faults)


def _json(reader: Reader[Any], path: Path, faults: Faults) -> None:
    text, place = read_text(path), Place(str(path))
    if text.strip():
        reader.read_value(from_json(text, place), place, faults)


def _table(delimiter: str, reader: Reader[Any], path: Path, faults: Faults) -> None:
    names, rows = read_table(path, delimiter, faults)
    reader.read_table(names, rows, Place(str(path), 1), faults)


def _arrow(form: ArrowForm, reader: Reader[Any], path: Path, faults: Faults) -> None:
    reader.read_records(column_names(path, form), read_arrow(path, form), faults)


def _loaded_dataset(load: Loader) -> Callable[[Path, Faults], DatasetContent]:
    return lambda path, faults: dataset_objects.read_object(load(path), faults)


def _loaded_queries(load: Loader) -> QueriesOf:
    return lambda reader, path, faults: reader.read(load(path), None, faults)


_csv, _tsv = partial(_table, ","), partial(_table, "\t")
_parquet, _ipc = partial(_arrow, "parquet"), partial(_arrow, "arrow")
_NO_QUESTION = "there is no question in it"
_IN_MEMORY = "a table of this kind is read in memory, by from_pandas(frame)"

KINDS: OpenTable[FileKind] = OpenTable(
    "name",
    "formats",
    {
        "empty": FileKind(begins=lambda lines: not lines, lacks=_NO_QUESTION),
        "trec": FileKind(run=_trec_run, qrels=partial(_qrels, read_trec_qrels)),
        "beir": FileKind(columns=_is_beir, qrels=partial(_qrels, beir.read_judgements)),
        "jsonl": FileKind((".jsonl", ".ndjson"), _is_jsonl, None, read_jsonl, _lines, _lines),
        "json": FileKind((), _is_json, None, _json_dataset, _json, _json),
        "csv": FileKind((".csv",), None, None, dataset_objects.read_csv, _csv, _csv),
        "tsv": FileKind((".tsv",), None, is_heading, None, _tsv, _tsv, _IN_MEMORY),
        "parquet": FileKind(
            (".parquet", ".parq", ".pq"), run=_parquet, qrels=_parquet, lacks=_IN_MEMORY
        ),
        "arrow": FileKind((".arrow", ".feather", ".ipc"), run=_ipc, qrels=_ipc, lacks=_IN_MEMORY),
        "traces": FileKind(),
        "text": FileKind((".trec", ".run", ".qrels"), begins=lambda lines: True),
    },
)
"""The kinds by name, in the order in which they are tried."""

RUN_FORMATS = (*(name for name, kind in KINDS.items() if kind.run), "traces")
QRELS_FORMATS = tuple(name for name, kind in KINDS.items() if kind.qrels)


def check_format(form: str, known: Sequence[str]) -> None:
    if form not in known:
        raise InvalidInput("format", form, f"one of {', '.join(known)}")


def kind_by_name(path: Path) -> str | None:
    """The kind that the ending says, ".gz" apart, or None."""
    _, dot, ending = path.name.lower().removesuffix(".gz").rpartition(".")
    return next((name for name, kind in KINDS.items() if dot + ending in kind.endings), None)


def kind_of(path: Path) -> str:
    """The kind of a file by its ending, and where that says nothing, by its beginning."""
    if kind := kind_by_name(path):
        return kind
    lines = [line for _, line in islice(read_lines(path), 2)]
    return next(name for name, kind in KINDS.items() if kind.begins and kind.begins(lines))


def format_of(path: Path, held: Held) -> str:
    """The format of a file of rankings or judgements, "empty" if there is nothing in it."""
    if path.exists() and not path.is_file():
        return "trec"  # a pipe can be read once only, so that its beginning can't tell
    kind = kind_of(path)
    if held == "run" and kind in ("json", "jsonl"):
        from llama_index_rag_metrics.files.traces.containers import is_trace_file

        return "traces" if is_trace_file(path) else kind
    if kind not in ("text", "tsv"):
        return kind
    lines = (line for _, line in read_lines(path, Faults("skip")))
    first = next((line for line in lines if not line.startswith(COMMENT)), None)
    if first is None:
        return "empty"
    columns = first.split("\t")
    fitting = (name for name, kind in KINDS.items() if kind.columns and kind.columns(columns))
    return next((name for name in fitting if getattr(KINDS[name], held)), "trec")


def register_format(
    name: str,
    endings: Iterable[str],
    *,
    run: Loader | None = None,
    qrels: Loader | None = None,
    dataset: Loader | None = None,
) -> None:
    """Let `read_run`, `read_qrels`, `RetrievalDataset.load` and their callers read a format.

    Args:
        name: what `format=` takes.
        endings: of the files, such as ".msm"; ".msm.gz" goes to the same loader.
        run: from a path to what `read_run` takes in memory, such as {query id: [ids]}.
        qrels: from a path to what `read_qrels` takes in memory, such as {query id: {id: grade}}.
        dataset: from a path to what `RetrievalDataset.of` takes in memory.

    Raises:
        InvalidInput: the name or an ending is taken, or there is no loader.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from llama_index_rag_metrics import read_run
        >>> def load(path):
        ...     lines = path.read_text(encoding="utf-8").splitlines()
        ...     return {query_id: ids.split() for query_id, ids in (s.split(":") for s in lines)}
        >>> register_format("colons", [".colons"], run=load)
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "bm25.colons")
        ...     _ = path.write_text("q1: d3 d1", encoding="utf-8")
        ...     read_run(path)["q1"].ids
        ['d3', 'd1']
        >>> unregister_format("colons")
    """
    added = tuple(ending.lower() for ending in endings)
    taken = [ending for kind in KINDS.values() for ending in kind.endings]
    for ending in added:
        if ending in taken or not ending.startswith(".") or "." in ending[1:]:
            raise InvalidInput("endings", ending, f"a new one, like '.msm'; taken: {taken}")
    if run is qrels is dataset is None:
        raise InvalidInput("run, qrels, dataset", None, "at least one loader")
    kind = FileKind(
        added,
        dataset=dataset and _loaded_dataset(dataset),
        run=run and _loaded_queries(run),
        qrels=qrels and _loaded_queries(qrels),
        lacks="",
    )
    KINDS.add(name, kind)


def unregister_format(name: str) -> None:
    """Forget a format that `register_format` added.

    Raises:
        InvalidInput: none of that name was added.

    Examples:
        >>> from llama_index_rag_metrics import register_format, unregister_format
        >>> register_format("msm", [".msm"], run=lambda path: {"q1": path.read_text().split()})
        >>> unregister_format("msm")
    """
    KINDS.remove(name)


DATASET, RUN, QRELS = "a dataset", "a run", "qrels"
POOL, REVIEW = "a pool to be judged", "reviewers' judgements"

_POOLED = {"query_id", "query", "doc_id", "text"}
"""The fields of an item of a pool, which has no others but its scale."""


def _has(record: Mapping[str, object], *names: str) -> bool:
    return f.first_of(record, names) is not None


@dataclass(frozen=True)
class Content:
    """What a file may hold; of `enough` one suffices, and what is in `unlike` would be misread."""

    read_by: str
    enough: list[list[Sequence[str]]]
    record: Callable[[Mapping[str, object]], bool]
    columns: Callable[[list[str]], bool] = lambda columns: False
    json: Callable[[object], bool] = lambda data: False
    unlike: Collection[str] = ()


def _is_review(record: Mapping[str, object]) -> bool:
    is_given = _has(record, "reviewer", "skipped") and "grade" in record
    return is_given and not _has(record, *f.RETRIEVED)


def _is_pool(record: Mapping[str, object]) -> bool:
    names = {name for name, value in record.items() if value is not None}
    return _POOLED <= names <= {*_POOLED, "scale"}


def _are_qrels(record: Mapping[str, object]) -> bool:
    is_judgement = _has(record, *f.DOC_ID) and _has(record, "grade")
    return is_judgement and not _has(record, *f.RETRIEVED)


def _is_run(record: Mapping[str, object]) -> bool:
    return _has(record, *f.RETRIEVED) or (_has(record, *f.DOC_ID) and _has(record, *f.RANK))


def _are_qrels_columns(columns: list[str]) -> bool:
    is_trec = len(columns) == 4 and columns[1] != "Q0" and columns[3].lstrip("-").isdigit()
    return is_trec or tuple(columns) == beir.HEADER


def _are_run_columns(columns: list[str]) -> bool:
    is_trec = len(columns) == 6 and columns[1] == "Q0"
    return is_trec and not math.isnan(read_number(columns[4]))


CONTENTS = {
    REVIEW: Content(
        "read_judgements() reads them; on the command line they are the --qrels of `score` and "
        "`labels pool`, and `labels agree` compares two.",
        [[("grade",), ("doc_id",)]],
        _is_review,
    ),
    POOL: Content(
        "write_review_page() and `rag-metrics labels review` make a page of it, in which people "
        "judge.",
        [[("query",), ("doc_id",)]],
        _is_pool,
    ),
    QRELS: Content(
        "read_qrels() reads them; on the command line they are the --qrels of `score` and "
        "`labels pool`.",
        [[(*f.RELEVANCE, *f.EXPECTED_SPANS)], [f.DOC_ID, f.GRADE]],
        _are_qrels,
        _are_qrels_columns,
    ),
    RUN: Content(
        "read_run() reads it; on the command line it is the RUN of `score` and `labels pool`.",
        [[f.RETRIEVED], [f.DOC_ID, (*f.SCORE, *f.RANK)]],
        _is_run,
        _are_run_columns,
        unlike={POOL, REVIEW, QRELS},
    ),
    DATASET: Content(
        "RetrievalDataset.load() reads it; on the command line it is the DATASET of `labels` and "
        "the --dataset of `evaluate`.",
        [[f.QUERY, f.LABELS]],
        lambda record: _has(record, *f.QUERY) and not _has(record, *f.DOC_ID),
        json=is_dataset,
        unlike={POOL},
    ),
}
"""The contents of files, in the order in which they are tried."""


@contextmanager
def read_as(
    wanted: str, path: Path, form: str | None = None, fields: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Read a file as one of `CONTENTS`; `form` and `fields` are what the caller said of it."""
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
    """Which of `CONTENTS` a file is by its beginning, or None; `line` is one that can't be read."""
    try:
        if path.is_dir():
            return DATASET if beir.is_beir(path) else None
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
    if any(all(_has(record, *names) for names in needed) for needed in CONTENTS[wanted].enough):
        return wanted
    return _first(lambda content: content.record(record))


def _is_document(record: object) -> bool:
    names = record.keys() if isinstance(record, Mapping) else set()
    has_text = not names.isdisjoint(f.TEXT)
    return "document_id" in names and has_text and names.isdisjoint((*f.QUERY_ID, *f.GRADE))


def read_path(path: Path, split: str | None, faults: Faults) -> DatasetContent:
    with read_as(DATASET, path):
        if path.is_dir():
            return _read_folder(path, split, faults)
        read = KINDS[kind_of(path)].reader("dataset", path)
        content: DatasetContent = read(path, faults)
        content.name = content.name or name_of(path)
        return content


def _read_folder(folder: Path, split: str | None, faults: Faults) -> DatasetContent:
    if beir.is_beir(folder):
        return beir.read_beir(folder, split, faults)
    inside = sorted(path.name for path in folder.iterdir())
    raise UnknownFormat(str(folder), f"the folder holds {inside[:8]}", dataset_objects.UNDERSTOOD)
