"""Tables in memory: data frames of pandas and polars, and Arrow's tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.fields import RESERVED
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.records import question_record
from llama_index_rag_metrics.rankings.judging import check_undamaged
from llama_index_rag_metrics.runtime.errors import MissingExtra

if TYPE_CHECKING:
    import pandas as pd


def is_frame(source: object) -> bool:
    """Whether this is a table, told by its attributes: none of those packages is needed."""
    # a polars lazy frame has columns, too, and warns when it is asked for them
    is_other = any(hasattr(source, method) for method in ("collect", "iter_rows", "to_pandas"))
    return is_other or (hasattr(source, "columns") and hasattr(source, "to_dict"))


def frame_records(frame: Any) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The rows of a table as records, and where each is; see `frame_table`."""
    return records_of(*frame_table(frame))


def records_of(
    names: Sequence[str], rows: Iterable[tuple[Place, Sequence[Any]]]
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Rows as records: lists for arrays, Python's numbers for numpy's, None for what is missing."""
    for place, values in rows:
        yield place, {name: _plain(value) for name, value in zip(names, values, strict=True)}


def frame_table(frame: Any) -> tuple[list[str], Iterator[tuple[Place, Sequence[Any]]]]:
    """The names of a table's columns, and its rows, as the table holds them.

    Args:
        frame: a pandas or polars data frame, a polars lazy frame, an Arrow table or record batch,
            or anything with `to_pandas`. The index of pandas counts where it has a name.
    """
    if hasattr(frame, "collect"):
        frame = frame.collect()
    if hasattr(frame, "iter_rows"):
        return list(frame.columns), _placed(frame.iter_rows())
    if hasattr(frame, "to_pylist"):
        check_undamaged(frame)  # takes no time beside making Python's objects of it
        batches = frame.to_batches() if hasattr(frame, "to_batches") else [frame]
        columns = ([column.to_pylist() for column in batch.columns] for batch in batches)
        rows = (row for lists in columns for row in zip(*lists, strict=True))
        return list(frame.schema.names), _placed(rows)
    if hasattr(frame, "to_pandas"):
        frame = frame.to_pandas()
    if frame.index.name is not None:
        frame = frame.reset_index()
    return list(map(str, frame.columns)), _placed(frame.itertuples(index=False, name=None))


def _placed(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Place, Sequence[Any]]]:
    for number, row in enumerate(rows, 1):
        yield Place(f"the data frame, row {number}"), row


def to_frame(content: DatasetContent) -> pd.DataFrame:
    """One row a question, indexed by its id, and a column a key of the queries' metadata.

    Metadata called like a column of another meaning stands together in a column `metadata`.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtra("to_pandas()", "pandas") from error
    rows = []
    for query_id in content.queries:
        record = {"relevance": None, **question_record(content, query_id)}
        metadata = record.pop("metadata", {})
        clashing = {key: value for key, value in metadata.items() if key in RESERVED}
        rows.append({**metadata, **record, **({"metadata": clashing} if clashing else {})})
    first = ["query_id", "query", "relevance"]
    columns = list(dict.fromkeys([*first, *(key for row in rows for key in row)]))
    return pd.DataFrame(rows, columns=columns, dtype=object).set_index("query_id")


def _plain(value: Any) -> Any:
    """Lists for arrays, Python's numbers for numpy's, and None for what pandas calls missing."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    is_missing = type(value).__name__ == "NAType" or value != value  # noqa: PLR0124
    return None if is_missing else value
