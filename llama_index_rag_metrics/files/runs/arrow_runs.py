"""Parquet, Arrow IPC and Feather: one row a query, or one row a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from llama_index_rag_metrics.files.fields import CALLS, KNOWN, MODEL_CONTEXT, REPEAT
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.runs.run_records import ASKED
from llama_index_rag_metrics.runtime.atomic_files import whole_file
from llama_index_rag_metrics.runtime.errors import FileFormatError, MissingExtra
from llama_index_rag_metrics.runtime.lazy import Lazy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet
else:
    parquet = Lazy("pyarrow.parquet")

ArrowForm: TypeAlias = Literal["parquet", "arrow"]

_ROWS_AT_ONCE = 16_384


def read_arrow(path: Path, form: ArrowForm) -> Iterator[tuple[Place, Any]]:
    rows = (row for batch in _read_batches(path, form) for row in batch.to_pylist())
    for place, row in Place(str(path)).numbered(rows, "row"):
        yield place, {name: value for name, value in row.items() if value is not None}


def _read_batches(path: Path, form: ArrowForm) -> Iterator[pa.RecordBatch]:
    if not path.stat().st_size:
        return
    with _reading(path, form):
        for batch in (_parquet if form == "parquet" else _ipc)(path):
            # whoever follows offsets that were damaged reads beside the buffers, and dies of it
            batch.validate(full=True)
            yield batch


def write_parquet(path: Path, records: Iterable[dict[str, Any]], fields: set[str]) -> None:
    pa = _pyarrow()
    schema = pa.schema([column for column in record_schema(pa) if column.name in fields])
    rows = iter(records)
    with whole_file(path) as partial, parquet.ParquetWriter(partial, schema) as writer:
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(some, schema=schema))


def record_schema(pa: Any) -> Any:
    texts, numbers = pa.list_(pa.string()), pa.list_(pa.float64())
    span = pa.struct({"source": pa.string(), "start": pa.int64(), "end": pa.int64()})
    columns = {
        "retrieved_ids": texts,
        "scores": numbers,
        "retrieved_texts": texts,
        "retrieved_tokens": pa.list_(pa.int64()),
        "retrieved_spans": pa.list_(span),
    }
    outcome = {"latency": pa.float64(), "error": pa.string()}
    asked = {name: pa.string() for name in ASKED}
    return pa.schema(
        {
            "query_id": pa.string(),
            REPEAT: pa.int64(),
            **columns,
            "expected_ids": texts,
            "grades": numbers,
            "expected_spans": pa.list_(span),
            **outcome,
            CALLS: pa.list_(pa.struct([*{**asked, **columns, **outcome}.items()])),
            MODEL_CONTEXT: pa.struct([*{**columns, **outcome}.items()]),
        }
    )


def column_names(path: Path, form: ArrowForm) -> list[str]:
    if not path.stat().st_size:
        return []
    with _reading(path, form) as pa:
        if form == "parquet":
            return list(parquet.read_schema(path).names)
        with pa.memory_map(str(path)) as file:
            return list(_ipc_reader(file).schema.names)


def _parquet(path: Path) -> Iterator[pa.RecordBatch]:
    # a buffer would hold the whole file in memory
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        names = [name for name in file.schema_arrow.names if name in KNOWN]
        yield from file.iter_batches(_ROWS_AT_ONCE, columns=names or None)


def _ipc(path: Path) -> Iterator[pa.RecordBatch]:
    with _pyarrow().memory_map(str(path)) as file:
        for batch in _ipc_batches(file):
            names = [name for name in batch.schema.names if name in KNOWN]
            whole = batch.select(names or batch.schema.names)
            yield from (
                whole.slice(start, _ROWS_AT_ONCE) for start in range(0, len(whole), _ROWS_AT_ONCE)
            )


def _ipc_batches(file: Any) -> Iterator[pa.RecordBatch]:
    reader = _ipc_reader(file)
    if hasattr(reader, "num_record_batches"):
        return map(reader.get_batch, range(reader.num_record_batches))
    return iter(reader)


def _ipc_reader(file: Any) -> Any:
    ipc = _pyarrow().ipc
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    return ipc.open_file(file) if is_file else ipc.open_stream(file)


@contextmanager
def _reading(path: Path, form: ArrowForm) -> Iterator[Any]:
    pa = _pyarrow()
    damage = (pa.ArrowException, ValueError, LookupError, TypeError, OverflowError, MemoryError)
    try:
        yield pa
    except FileFormatError:
        raise
    except (*damage, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # there is no such file, or it may not be read
        kind = "a Parquet file" if form == "parquet" else "an Arrow IPC or Feather file"
        raise Place(str(path)).wrong(kind, str(error)) from error


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise MissingExtra("a Parquet or Arrow file", "batch") from error
    return pyarrow
