"""Data frames: one question a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.errors import MissingExtra
from llama_index_rag_metrics.formats.content import DatasetContent
from llama_index_rag_metrics.formats.lines import Place
from llama_index_rag_metrics.formats.records import RESERVED, question_record

if TYPE_CHECKING:
    import pandas as pd


def frame_records(frame: pd.DataFrame) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The rows of a data frame, for `read_questions`; its index counts where it has a name."""
    if frame.index.name is not None:
        frame = frame.reset_index()
    for number, row in enumerate(frame.to_dict("records"), 1):
        place = Place(f"the data frame, row {number}")
        yield place, {str(key): _plain(value) for key, value in row.items()}


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
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    is_missing = type(value).__name__ == "NAType" or value != value  # noqa: PLR0124
    return None if is_missing else value
