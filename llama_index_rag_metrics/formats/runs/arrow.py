"""Parquet, Arrow IPC and Feather: one row a query, or one row a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from llama_index_rag_metrics.errors import MissingExtra
from llama_index_rag_metrics.formats.lines import Place, whole_file
from llama_index_rag_metrics.formats.runs.records import KNOWN

_ROWS_AT_ONCE = 16_384


def read_arrow(path: Path, form: Literal["parquet", "arrow"]) -> Iterator[tuple[Place, Any]]:
    """The rows of a file as records of the columns that mean something, batch by batch.

    Raises:
        FileFormatError: it is no such file.
        MissingExtra: pyarrow isn't installed.
    """
    pa = _pyarrow()
    if not path.stat().st_size:
        return
    try:
        batches = _parquet(path) if form == "parquet" else _ipc(path)
        rows = (row for batch in batches for row in batch.to_pylist())
        for number, row in enumerate(rows, 1):
            place = Place(f"{path}, row {number}")
            yield place, {name: one for name, one in row.items() if one is not None}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        kind = "a Parquet file" if form == "parquet" else "an Arrow IPC or Feather file"
        raise Place(str(path)).wrong(kind, str(error)) from error


def write_arrow(
    path: Path,
    form: Literal["parquet", "arrow"],
    records: Iterable[dict[str, Any]],
    fields: set[str],
) -> None:
    """Write records as rows.

    Args:
        path: the file.
        form: which kind of file.
        records: the rows; what one hasn't is null.
        fields: the columns.

    Raises:
        MissingExtra: pyarrow isn't installed.
    """
    pa = _pyarrow()
    schema = pa.schema([one for one in _schema(pa) if one.name in fields])
    rows = iter(records)
    with whole_file(path) as partial:
        if form == "parquet":
            from pyarrow.parquet import ParquetWriter

            writer: Any = ParquetWriter(partial, schema)
        else:
            writer = pa.ipc.new_file(str(partial), schema)
        with writer:
            while some := list(islice(rows, _ROWS_AT_ONCE)):
                writer.write_table(pa.Table.from_pylist(some, schema=schema))


def _schema(pa: Any) -> Any:
    texts, numbers = pa.list_(pa.string()), pa.list_(pa.float64())
    span = {"source": pa.string(), "start": pa.int64(), "end": pa.int64()}
    return pa.schema(
        {
            "query_id": pa.string(),
            "retrieved_ids": texts,
            "scores": numbers,
            "retrieved_texts": texts,
            "expected_ids": texts,
            "grades": numbers,
            "latency": pa.float64(),
            "error": pa.string(),
            "spans": pa.list_(pa.struct(span)),
        }
    )


def _parquet(path: Path) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if name in KNOWN]
        yield from file.iter_batches(_ROWS_AT_ONCE, columns=names or None)


def _ipc(path: Path) -> Iterator[Any]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        if file.read(6) == b"ARROW1":
            reader = pa.ipc.open_file(file)
            yield from (reader.get_batch(at) for at in range(reader.num_record_batches))
        else:
            file.seek(0)
            yield from pa.ipc.open_stream(file)


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise MissingExtra("a Parquet or Arrow file", "batch") from error
    return pyarrow
