"""Tables of Arrow as Polars has them, whatever kinds of lists they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


def frame_of(table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """A table of Arrow as Polars has it, for `judge_table`."""
    import polars as pl
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    unreadable = (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException)
    columns: dict[str, pl.Series] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            items = pa.table({name: _own_items(_plain_lists(column))})
            columns[name] = pl.DataFrame(pl.from_arrow(items))[name]
        except unreadable as error:
            expected = "a type of Arrow that Polars reads, such as list<string>"
            raise InvalidInput(f"column {name}", str(column.type), expected) from error
    return pl.DataFrame(columns)


def check_undamaged(table: object) -> None:
    """Refuse a damaged table of Arrow: reading it could end the process."""
    import pyarrow as pa

    if isinstance(table, (pa.Table, pa.RecordBatch)):
        try:
            table.validate(full=True)
        except pa.ArrowInvalid as error:
            raise InvalidInput("table", str(error), "an Arrow table that isn't damaged") from error


def _plain_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of the kinds that Polars doesn't read, or not with nulls, as those that it does."""
    import pyarrow as pa

    kind = column.type
    views = [getattr(pa.types, name, None) for name in ("is_list_view", "is_large_list_view")]
    is_view = any(test is not None and test(kind) for test in views)
    if not is_view and not pa.types.is_fixed_size_list(kind):
        return column
    return pa.chunked_array([column.to_pylist()], pa.large_list(kind.value_type))


def _own_items(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists without the items of the rows around a slice, which Polars would look at, too."""
    import pyarrow as pa

    chunks = []
    for chunk in column.chunks:
        if type(chunk) not in (pa.ListArray, pa.LargeListArray):  # a map is a list, too
            return column
        offsets = chunk.offsets.to_numpy()
        items = _as_views(chunk.values.slice(offsets[0], offsets[-1] - offsets[0]))
        mask = chunk.is_null() if chunk.null_count else None
        chunks.append(type(chunk).from_arrays(offsets - offsets[0], items, mask=mask))
    return pa.chunked_array(chunks) if chunks else column


def _as_views(items: pa.Array) -> pa.Array:
    """Texts as Polars holds them, which Arrow makes in half the time."""
    import pyarrow as pa

    if not (pa.types.is_string(items.type) or pa.types.is_large_string(items.type)):
        return items
    try:
        return items.cast(pa.string_view())
    except (AttributeError, pa.ArrowNotImplementedError):  # before Arrow 18
        return items
