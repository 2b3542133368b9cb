"""TREC runs of any size as tables: blocks of lines, read by Arrow, or one by one where it can't.

A run whose queries aren't contiguous is first parted on disk, into files that are sorted.
"""

from __future__ import annotations

import codecs
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from llama_index_rag_metrics.files.lines import Faults, Place, raw_lines, read_blocks, text_size
from llama_index_rag_metrics.files.trec import BEGINS_COMMENT, ONCE, run_lines
from llama_index_rag_metrics.runtime.arrays import Lazy

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyarrow import csv
else:
    pl, pa, csv = Lazy("polars"), Lazy("pyarrow"), Lazy("pyarrow.csv")

_BLOCK = 1 << 25
_PART = 1 << 28
_COLUMNS = ("query_id", "iter", "doc_id", "rank", "score", "tag")
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
            frame = _parse(block, _COLUMNS, "score", goes_on=True)
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
        block = _LOOSE_SPACE.sub(_tight, block.strip(b" \n"))
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


def _tight(gap: re.Match[bytes]) -> bytes:
    return b"\n" if b"\n" in gap[0] else b" "


def _last_tag(block: bytes) -> bytes:
    end = len(block)
    while end > 0:
        start = block.rfind(b"\n", 0, end) + 1
        columns = block[start:end].split()
        if columns and not columns[0].startswith(BEGINS_COMMENT):
            return columns[_COLUMNS.index("tag")]
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
