"""A stored run as a stream of tables, whatever its format, so that its size doesn't matter.

TREC runs are read in blocks of lines, by Arrow, or one by one where it can't. One whose queries
aren't contiguous is first parted on disk, into files that are sorted.
"""

from __future__ import annotations

import codecs
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.files.fields import CALLS, REPEAT
from llama_index_rag_metrics.files.file_kinds import RUN, format_of, read_as
from llama_index_rag_metrics.files.lines import (
    Faults,
    OnError,
    Place,
    name_of,
    raw_lines,
    read_blocks,
    text_size,
)
from llama_index_rag_metrics.files.runs.arrow_runs import (
    ArrowForm,
    column_names,
    count_ids,
    read_batches,
    record_schema,
)
from llama_index_rag_metrics.files.runs.read_runs import read_run
from llama_index_rag_metrics.files.runs.run_records import FIELDS, warn_unread
from llama_index_rag_metrics.files.trec import BEGINS_COMMENT, ONCE, run_lines
from llama_index_rag_metrics.rankings.judging.arrow import GRADES
from llama_index_rag_metrics.rankings.judging.columns import EXPECTED_SPANS
from llama_index_rag_metrics.rankings.judging.judged_column import (
    EXPECTED,
    QUERY_ID,
    RETRIEVED,
    SCORES,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra, UnknownFormat
from llama_index_rag_metrics.runtime.lazy import Lazy

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyarrow import csv

    Columns: TypeAlias = pl.DataFrame | pa.RecordBatch
else:
    pl, pa, csv = Lazy("polars"), Lazy("pyarrow"), Lazy("pyarrow.csv")

_BLOCK = 1 << 25
_PART = 1 << 28
_TREC_COLUMNS = ("query_id", "iter", "doc_id", "rank", "score", "tag")
_READ = ["query_id", "doc_id", "score"]
_OTHER_SPACES = (b"\t", b"\r", b"\v", b"\f")
_TO_SPACES = bytes.maketrans(b"".join(_OTHER_SPACES), b"    ")
_COMMENT_LINE = re.compile(rb"^" + BEGINS_COMMENT + rb".*\n?", re.MULTILINE)
_LOOSE_SPACE = re.compile(rb" +\n *|\n +|  +")

OnRead: TypeAlias = Callable[[int], object]


class Scattered(Exception):
    """The lines of a query don't stand together: the run has to be parted first."""


class TrecStream:
    """The rankings of a TREC run as tables: `query_id`, `retrieved_ids`, perhaps `scores`."""

    def __init__(
        self, path: Path, faults: Faults, on_read: OnRead, *, scored: bool = False
    ) -> None:
        self.tag = b""
        self._lists = {"retrieved_ids": "doc_id", **({"scores": "score"} if scored else {})}
        self._path = path
        self._faults = faults
        self._on_read = on_read
        self._repeating: set[str] = set()

    def contiguous(self) -> Iterator[pl.DataFrame]:
        hashes: list[Any] = [np.array([], np.uint64)]
        held: pl.DataFrame | None = None
        for block in self._blocks():
            lines = block if held is None else pl.concat([held, block])
            stretch = lines["query_id"].rle_id().to_numpy()
            last = int(np.searchsorted(stretch, stretch[-1]))
            held = lines[last:]
            if last:
                ranked = self._rankings(lines[:last], stretch[:last])
                hashes.append(ranked["query_id"].hash().to_numpy())
                yield ranked
        if held is not None:
            ranked = self._rankings(held, np.zeros(len(held), np.int64))
            hashes.append(ranked["query_id"].hash().to_numpy())
            yield ranked
        seen = np.concatenate(hashes)
        if len(np.unique(seen)) < len(seen):
            raise Scattered
        self._take_repeats()

    def parted(self) -> Iterator[pl.DataFrame]:
        """The tables of any run, by way of sorted temporary files as large as the run."""
        n_parts = max(1, 8 * text_size(self._path) // _PART)
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, str(number)) for number in range(n_parts)]
            with ExitStack() as stack:
                writers: dict[int, Any] = {}
                for block in self._blocks():
                    part = block["query_id"].hash() % n_parts
                    for (number,), lines in block.with_columns(part=part).group_by("part"):
                        table = lines.select(_READ).to_arrow()
                        if number not in writers:
                            stream = pa.ipc.new_stream(str(files[number]), table.schema)
                            writers[number] = stack.enter_context(stream)
                        writers[number].write_table(table)
            for number in sorted(writers):
                lines = pl.read_ipc_stream(files[number]).sort("query_id", maintain_order=True)
                yield self._rankings(lines, lines["query_id"].rle_id().to_numpy())
        self._take_repeats()

    def _blocks(self) -> Iterator[pl.DataFrame]:
        for n_before, block in read_blocks(self._path, _BLOCK, self._on_read):
            frame = _parse(block, _TREC_COLUMNS, "score", goes_on=True)
            if frame is None:
                frame = self._parse_exactly(block, n_before)
            elif len(frame):
                self.tag = _last_tag(block)
            if len(frame):
                yield frame

    def _parse_exactly(self, block: bytes, n_before: int) -> pl.DataFrame:
        rows = []
        numbered = enumerate(BytesIO(block), n_before + 1)
        for _, *row, tag in run_lines(numbered, self._path, self._faults):
            rows.append(row)
            self.tag = tag
        schema = {"query_id": pl.String, "doc_id": pl.String, "score": pl.Float64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _rankings(self, lines: pl.DataFrame, query: npt.NDArray[Any]) -> pl.DataFrame:
        """Whole queries as rankings; `query` is the ascending number of each line's query."""
        lines = lines.with_columns(pl.Series("query", query))
        ranked = _ranked(lines, self._lists)
        if not ranked["query_id"].is_unique().all():
            raise Scattered
        repeats = ranked["retrieved_ids"].list.n_unique() < ranked["retrieved_ids"].list.len()
        if repeats.any():
            self._repeating.update(ranked.filter(repeats)["query_id"])
            if self._faults.ends:
                self._take_repeats()
            once = lines.unique(["query", "doc_id"], keep="first", maintain_order=True)
            ranked = _ranked(once, self._lists)
        return ranked

    def _take_repeats(self) -> None:
        """Find the lines that repeat a document; tables don't have their numbers."""
        if not self._repeating:
            return
        seen: set[tuple[str, str]] = set()
        lines = run_lines(raw_lines(self._path), self._path, Faults("skip"))
        for number, query_id, document_id, *_ in lines:
            if query_id not in self._repeating:
                continue
            if (query_id, document_id) in seen:
                place = Place(str(self._path), number)
                self._faults.take(place.wrong(ONCE, f"{query_id} {document_id}"))
            seen.add((query_id, document_id))


def qrels_table(path: Path) -> pl.DataFrame | None:
    """TREC qrels as a row a query; None where `read_qrels` has to read, or to say what is wrong."""
    names = ("query_id", "iter", "doc_id", "grade")
    blocks = [
        _parse(block, names, "grade", goes_on=False) for _, block in read_blocks(path, _BLOCK, bool)
    ]
    read = [frame for frame in blocks if frame is not None]
    if not read or len(read) < len(blocks):
        return None
    judged = (
        pl.concat(read)
        .group_by("query_id", maintain_order=True)
        .agg(pl.col("doc_id").alias("expected_ids"), pl.col("grade").alias("grades"))
    )
    ids = judged["expected_ids"]
    return judged if (ids.list.n_unique() == ids.list.len()).all() else None


def _parse(
    block: bytes, names: Sequence[str], number: str, *, goes_on: bool
) -> pl.DataFrame | None:
    """A block as Arrow reads it, or None where the result is odd; `goes_on` allows more columns."""
    if any(space in block for space in _OTHER_SPACES):
        block = block.translate(_TO_SPACES)
    if b"  " in block or b" \n" in block:
        block = _LOOSE_SPACE.sub(
            lambda gap: b"\n" if b"\n" in gap[0] else b" ", block.strip(b" \n")
        )
    if block.startswith(BEGINS_COMMENT) or b"\n" + BEGINS_COMMENT in block:
        block = _COMMENT_LINE.sub(b"", block)
    if block.startswith(codecs.BOM_UTF8):  # which Arrow leaves out of any block
        return None
    types = {"query_id": pa.string(), "doc_id": pa.string(), number: pa.float64()}
    further = block[: block.find(b"\n")].count(b" ") + 1 - len(names) if goes_on else 0
    if further > 0:
        names = (*names, *map(str, range(further)))
        types["rank"] = pa.float64()  # as `run_lines` asks of such lines
    try:
        table = csv.read_csv(
            pa.py_buffer(block),
            csv.ReadOptions(column_names=names),
            csv.ParseOptions(delimiter=" ", quote_char=False),
            csv.ConvertOptions(include_columns=list(types), column_types=types, null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    frame = pl.DataFrame(pl.from_arrow(table))
    is_odd = not frame[number].is_finite().all() or (frame["query_id"] == "").any()
    if is_odd or (further > 0 and frame["rank"].is_nan().any()):
        return None
    return frame.drop("rank", strict=False)


def _last_tag(block: bytes) -> bytes:
    end = len(block)
    while end > 0:
        start = block.rfind(b"\n", 0, end) + 1
        columns = block[start:end].split()
        if columns and not columns[0].startswith(BEGINS_COMMENT):
            return columns[_TREC_COLUMNS.index("tag")]
        end = start - 1
    return b""


def _ranked(lines: pl.DataFrame, lists: Mapping[str, str]) -> pl.DataFrame:
    """Lines, numbered by `query`, as rankings; `lists` says of which columns."""
    query, score = lines["query"].to_numpy(), lines["score"].to_numpy()
    if not ((query[1:] > query[:-1]) | (score[1:] < score[:-1])).all():
        lines = lines.sort("query", "score", "doc_id", descending=[False, True, True])
    return (
        lines.group_by("query", maintain_order=True)
        .agg(pl.first("query_id"), *(pl.col(column).alias(name) for name, column in lists.items()))
        .drop("query")
    )


_MOST_ROWS, _MOST_IDS = 1 << 17, 1 << 20
"""So much is read at once, whichever is less."""

_ERROR = "error"
_COLUMNS = (QUERY_ID, RETRIEVED, EXPECTED, GRADES, _ERROR)
FOLDER_FILES = (".parquet", ".arrow", ".feather")


class StoredRun:
    """A run in a file, or in a folder of Parquet and Arrow files; `further` columns are kept."""

    def __init__(
        self,
        path: Path,
        on_error: OnError = "raise",
        further: Sequence[str] = (),
        measured: Sequence[str] = (),
    ) -> None:
        if not (find_spec("polars") and find_spec("pyarrow")):
            raise MissingExtra("score_files()", "batch")
        self.path = path
        self._on_error = on_error
        self._tag = b""
        self._measured = measured
        self._files = _files(path)
        self.size = sum(file.stat().st_size for file in self._files)
        self._form = format_of(self._files[0], "run")
        names = column_names(self._files[0], self._form) if _is_arrow(self._form) else ()
        warn_unread(str(path), [names])
        self._check_kept(CALLS in measured and self._has_stored(CALLS), self._has_stored(REPEAT))
        own = (*_COLUMNS[:3], *measured, *([] if EXPECTED in names else [EXPECTED_SPANS]))
        self._needed = list(dict.fromkeys(name for name in (*own, *further) if name in names))
        self._columns = {*_COLUMNS, *self._needed}
        self._is_wide = self._needed[:2] == [*_COLUMNS[:2]]
        if path.is_dir() and not self._is_wide:
            why = f"{self._files[0].name} has the columns {', '.join(names) or 'none'}"
            wanted = ["query_id and retrieved_ids, a row a question"]
            raise UnknownFormat(str(path), why, wanted, "a run")
        if lacking := [name for name in further if name not in names]:
            expected = f"columns of {path}, which has {', '.join(names) or 'none'}"
            raise InvalidInput("keep", lacking[0], expected)
        self.holds_relevance = self._is_wide and not {EXPECTED, EXPECTED_SPANS}.isdisjoint(names)

    def _check_kept(self, calls: object, repeats: object) -> None:
        """Refuse what a table would leave out."""
        if calls:
            raise calls_left_out(self.path)
        if repeats:
            raise repeats_left_out(self.path)

    def holds(self, path: Path) -> bool:
        own, other = self.path.resolve(), path.resolve()
        return other == own or own in other.parents

    @property
    def name(self) -> str:
        """The tag of a TREC run's last line, once its tables have been read; or the file's name."""
        return self._tag.decode(errors="replace") or name_of(self.path)

    def check_not_empty(self) -> None:
        faults = Faults(self._on_error)
        if self._form == "trec":
            with read_as(RUN, self.path):
                lines = run_lines(raw_lines(self.path), self.path, faults)
                is_empty = next(lines, None) is None
        else:
            is_empty = not any(count_ids(file, form)[0] for file, form in self._arrow_files())
        if is_empty:
            faults.warn()
            raise InvalidInput("RUN", str(self.path), "a file with at least one ranking")

    def tables(self, on_read: OnRead, *, parted: bool = False) -> Iterator[Columns]:
        """The rankings: `query_id`, `retrieved_ids`; `expected_ids`, `grades`, `error` if there."""
        if self._is_wide:
            return self._stored_tables(on_read)
        if self._form == "trec":
            return self._trec_tables(on_read, parted)
        return self._read_tables()

    def _trec_tables(self, on_read: OnRead, parted: bool) -> Iterator[pl.DataFrame]:
        faults = Faults(self._on_error)
        stream = TrecStream(self.path, faults, on_read, scored=SCORES in self._measured)
        with read_as(RUN, self.path):
            yield from stream.parted() if parted else stream.contiguous()
        self._tag = stream.tag
        faults.warn()

    def _stored_tables(self, on_read: OnRead) -> Iterator[Columns]:
        done, seen = 0, [np.array([], np.uint64)]
        tells_errors = self._has_stored(_ERROR)
        for file, form in self._arrow_files():
            size, n_read = file.stat().st_size, 0
            names = column_names(file, form)
            if lacking := [name for name in self._needed if name not in names]:
                raise Place(str(file)).wrong(f"a column {lacking[0]!r}", ", ".join(names))
            n_rows, n_ids = count_ids(file, form)
            rows = min(_MOST_ROWS, max(1, _MOST_IDS * n_rows // max(1, n_ids)))
            for batch in read_batches(file, form, rows=rows, columns=self._columns):
                query_ids = _query_ids(batch)
                if query_ids.null_count():
                    row = n_read + int(query_ids.is_null().arg_max() or 0) + 1
                    raise Place(f"{file}, row {row}").wrong("a query id", None)
                seen.append(query_ids.hash().to_numpy())
                yield _uniform(batch, query_ids, tells_errors)
                n_read += len(batch)
                on_read(done + size * n_read // n_rows)
            done += size
        hashes = np.sort(np.concatenate(seen))
        if not hashes.size:
            yield pl.DataFrame(
                schema={**dict.fromkeys(self._needed, pl.Null), "query_id": pl.String}
            )
        if (again := hashes[1:][hashes[1:] == hashes[:-1]]).size:
            self._check_once(again)

    def _check_once(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Refuse a query id in two rows, of those with these hashes."""
        seen: set[str] = set()
        for file, n_before, query_ids in self._stored_ids():
            for row in np.flatnonzero(np.isin(query_ids.hash(), hashes)).tolist():
                if query_ids[row] in seen:
                    place = Place(f"{file}, row {n_before + row + 1}")
                    raise place.wrong("every query id once", query_ids[row])
                seen.add(query_ids[row])

    def place_of(self, query_id: str | None) -> Place:
        if self._is_wide and query_id is not None:
            for file, n_before, query_ids in self._stored_ids():
                rows = (query_ids == query_id).arg_true()
                if len(rows):
                    return Place(f"{file}, row {n_before + rows[0] + 1}")
        return Place(str(self.path))

    def _stored_ids(self) -> Iterator[tuple[Path, int, pl.Series]]:
        """Query ids by batch, with the file and how many of its rows are before them."""
        for file, form in self._arrow_files():
            n_before = 0
            for batch in read_batches(file, form, rows=_MOST_ROWS, columns=_COLUMNS[:1]):
                yield file, n_before, _query_ids(batch)
                n_before += len(batch)

    def _has_stored(self, column: str) -> bool:
        return any(column in column_names(file, form) for file, form in self._arrow_files())

    def _arrow_files(self) -> Iterator[tuple[Path, ArrowForm]]:
        for file in self._files:
            form = format_of(file, "run")
            if _is_arrow(form):
                yield file, form

    def _read_tables(self) -> Iterator[pa.RecordBatch]:
        schema = record_schema(pa)
        run = read_run(self.path, on_error=self._on_error)
        self._check_kept(CALLS in self._measured and run.calls, run.repeats)
        rankings = iter(run.items())
        while batch := dict(islice(rankings, _MOST_ROWS)):
            columns = {QUERY_ID: pa.array(batch, pa.string())}
            for name in (RETRIEVED, _ERROR, *(FIELDS.keys() & self._measured)):
                values = [FIELDS[name].of(ranking) for ranking in batch.values()]
                if name == _ERROR or any(value is not None for value in values):
                    columns[name] = pa.array(values, schema.field(name).type)
            yield pa.RecordBatch.from_pydict(columns)


_READS_ALL = "score_rankings(qrels, read_run(path), …) reads them."


def calls_left_out(run: object) -> InvalidInput:
    expected = "a run without calls for these metrics, since tables don't hold them"
    return InvalidInput("run", str(run), expected, _READS_ALL)


def repeats_left_out(run: object) -> InvalidInput:
    expected = "a run in which each question was asked once, since tables don't hold repeats"
    return InvalidInput("run", str(run), expected, _READS_ALL)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    # writers of data sets mark by . or _ what is no part of them
    files = [
        file
        for file in inside
        if file.suffix in FOLDER_FILES
        and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
    ]
    if not files:
        why = f"the folder holds {[file.name for file in inside[:8]]}"
        raise UnknownFormat(str(path), why, [f"files called {' or '.join(FOLDER_FILES)}"], "a run")
    return [file for file in files if file.stat().st_size] or files[:1]


def _query_ids(batch: pa.RecordBatch) -> pl.Series:
    query_ids: pl.Series = pl.Series(pl.from_arrow(batch.column("query_id"))).cast(pl.String)
    return query_ids


def _uniform(batch: pa.RecordBatch, query_ids: pl.Series, tells_errors: bool) -> pa.RecordBatch:
    """A batch whose query ids are texts, with a column of errors where any file has one."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if columns["query_id"].type != pa.string():
        columns["query_id"] = query_ids.to_arrow().cast(pa.string())
    if tells_errors and _ERROR not in columns:
        columns[_ERROR] = pa.nulls(len(batch), pa.string())
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _is_arrow(form: str) -> TypeGuard[ArrowForm]:
    return form in ("parquet", "arrow")
