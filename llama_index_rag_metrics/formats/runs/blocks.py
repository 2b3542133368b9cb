"""TREC runs of any size, as a stream of tables: a row a query, with its ranking as a list.

A run is read in blocks of lines by Arrow's parser; a block that it can't read is read line by line,
which says what is wrong and where. A run whose queries aren't contiguous is parted on disk first,
so that all lines of a query come together.
"""

from __future__ import annotations

import codecs
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.errors import FileFormatError
from llama_index_rag_metrics.formats.lines import Faults, Place, raw_lines, read_blocks
from llama_index_rag_metrics.formats.runs.trec_run import ONCE, run_lines

if TYPE_CHECKING:
    import polars as pl

_BLOCK = 1 << 25
_PART = 1 << 28
_COLUMNS = ("query_id", "iter", "doc_id", "rank", "score", "tag")
_READ = ["query_id", "doc_id", "score"]
_OTHER_SPACES = (b"\t", b"\r", b"\v", b"\f")
_TO_SPACES = bytes.maketrans(b"".join(_OTHER_SPACES), b"    ")
_LOOSE_SPACE = re.compile(rb" +\n *|\n +|  +")

Told: TypeAlias = Callable[[int], object]
"""Is told how far into the file reading has come, in bytes."""


class Scattered(Exception):
    """The lines of a query don't stand together: the run has to be parted first."""


def contiguous_tables(path: Path, faults: Faults, told: Told) -> Iterator[pl.DataFrame]:
    """The rankings of a TREC run whose queries are contiguous: `query_id`, `retrieved_ids`.

    Args:
        path: the run, plain or .gz.
        faults: what to do with a line that can't be read.
        told: is told how far into the file reading has come.

    Raises:
        FileFormatError: a line can't be read, or a query has a document twice.
        Scattered: a query's lines don't stand together; known at the latest after the last table.
    """
    import polars as pl

    seen: list[Any] = []
    held: pl.DataFrame | None = None
    for block in _blocks(path, faults, told):
        lines = block if held is None else pl.concat([held, block])
        stretch = lines["query_id"].rle_id().to_numpy()
        last = int(np.searchsorted(stretch, stretch[-1]))
        held = lines[last:]
        if last:
            yield _rankings(lines[:last], stretch[:last], path, faults, seen)
    if held is not None:
        yield _rankings(held, np.zeros(len(held), np.int64), path, faults, seen)
    hashes = np.concatenate([np.array([], np.uint64), *seen])
    if len(np.unique(hashes)) < len(hashes):
        raise Scattered


def parted_tables(path: Path, faults: Faults, told: Told) -> Iterator[pl.DataFrame]:
    """The same of any TREC run, by way of temporary files as large as the run.

    Every query goes to one of several files, each small enough to be sorted in memory. The queries
    come file by file, sorted in each.
    """
    import polars as pl
    import pyarrow as pa

    n_parts = max(1, 8 * path.stat().st_size // _PART)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(number)) for number in range(n_parts)]
        with ExitStack() as stack:
            writers: dict[int, Any] = {}
            for block in _blocks(path, faults, told):
                part = block["query_id"].hash() % n_parts
                for (number,), lines in block.with_columns(part=part).group_by("part"):
                    table = lines.select(_READ).to_arrow()
                    if number not in writers:
                        stream = pa.ipc.new_stream(str(files[number]), table.schema)
                        writers[number] = stack.enter_context(stream)
                    writers[number].write_table(table)
        for number in sorted(writers):
            lines = pl.read_ipc_stream(files[number]).sort("query_id", maintain_order=True)
            yield _rankings(lines, lines["query_id"].rle_id().to_numpy(), path, faults, [])


def qrels_table(path: Path) -> pl.DataFrame | None:
    """TREC qrels as columns: `query_id`, `expected_ids`, `grades`, a row a query.

    None where Arrow's parser can't read the file as it is, or where a judgement is repeated: then
    `read_qrels` says what is wrong, or reads what the parser doesn't know.
    """
    import polars as pl

    names = ("query_id", "iter", "doc_id", "grade")
    blocks = [_parse(block, names, "grade") for _, block in read_blocks(path, _BLOCK, bool)]
    read = [one for one in blocks if one is not None]
    if not read or len(read) < len(blocks):
        return None
    judged = (
        pl.concat(read)
        .group_by("query_id", maintain_order=True)
        .agg(pl.col("doc_id").alias("expected_ids"), pl.col("grade").alias("grades"))
    )
    ids = judged["expected_ids"]
    return judged if (ids.list.n_unique() == ids.list.len()).all() else None


def _blocks(path: Path, faults: Faults, told: Told) -> Iterator[pl.DataFrame]:
    """The lines of the file, some at a time: query id, document id and score."""
    for n_before, block in read_blocks(path, _BLOCK, told):
        frame = _parse(block, _COLUMNS, "score")
        if frame is None:
            frame = _parse_exactly(block, path, n_before, faults)
        if len(frame):
            yield frame


def _parse(block: bytes, names: Sequence[str], number: str) -> pl.DataFrame | None:
    """A block as Arrow reads it, or None where it can't, or where what it reads is odd.

    Args:
        block: whole lines.
        names: of their columns.
        number: the column to read as a number, beside the two ids.
    """
    import polars as pl
    import pyarrow as pa
    from pyarrow import csv

    if any(space in block for space in _OTHER_SPACES):
        block = block.translate(_TO_SPACES)
    if b"  " in block or b" \n" in block:
        block = _LOOSE_SPACE.sub(_tight, block.strip(b" \n"))
    if block.startswith(codecs.BOM_UTF8):  # which Arrow leaves out of any block
        return None
    types = {"query_id": pa.string(), "doc_id": pa.string(), number: pa.float64()}
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
    return None if is_odd else frame


def _tight(found: re.Match[bytes]) -> bytes:
    return b"\n" if b"\n" in found[0] else b" "


def _parse_exactly(block: bytes, path: Path, n_before: int, faults: Faults) -> pl.DataFrame:
    """A block as `read_run` reads it, line by line."""
    import polars as pl

    lines = enumerate(BytesIO(block), n_before + 1)
    rows = [columns[1:4] for columns in run_lines(lines, path, faults)]
    schema = {"query_id": pl.String, "doc_id": pl.String, "score": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _rankings(
    lines: pl.DataFrame, query: npt.NDArray[Any], path: Path, faults: Faults, seen: list[Any]
) -> pl.DataFrame:
    """Lines as rankings.

    Args:
        lines: the lines of some queries, all of each.
        query: (lines,) the number of the line's query, ascending.
        path: the run, for errors.
        faults: takes documents that a query has twice.
        seen: the hashes of the queries before; those of these are added.

    Raises:
        Scattered: two queries have the same id.
    """
    import polars as pl

    score = lines["score"].to_numpy()
    lines = lines.with_columns(pl.Series("query", query))
    if not ((query[1:] > query[:-1]) | (score[1:] < score[:-1])).all():
        lines = lines.sort("query", "score", "doc_id", descending=[False, True, True])
    ranked = (
        lines.group_by("query", maintain_order=True)
        .agg(pl.first("query_id"), pl.col("doc_id").alias("retrieved_ids"))
        .drop("query")
    )
    if not ranked["query_id"].is_unique().all():
        raise Scattered
    seen.append(ranked["query_id"].hash().to_numpy())
    repeats = ranked["retrieved_ids"].list.n_unique() < ranked["retrieved_ids"].list.len()
    for query_id, ids in ranked.filter(repeats).rows():
        document_id = next(one for at, one in enumerate(ids) if one in ids[:at])
        found = f"{query_id} {document_id}"
        try:
            faults.take(Place(str(path)).wrong(ONCE, found))
        except FileFormatError:
            raise _repeat(path, query_id, document_id).wrong(ONCE, found) from None
    return ranked


def _repeat(path: Path, query_id: str, document_id: str) -> Place:
    """Where a query has a document for the second time."""
    found = 0
    for number, *ids, _, _ in run_lines(raw_lines(path), path, Faults("skip")):
        found += ids == [query_id, document_id]
        if found == 2:
            return Place(str(path), number)
    return Place(str(path))
