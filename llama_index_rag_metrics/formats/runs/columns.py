"""Fields under names of the caller's own: {field: column}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.formats.records import QUERY_ID, RELEVANCE
from llama_index_rag_metrics.formats.runs.records import GRADES, KNOWN, RETRIEVED, SCORES, TEXTS


def column_fields(columns: Mapping[str, str]) -> dict[str, str]:
    """What a reader calls the columns of a source, from {field: column}.

    Raises:
        InvalidInput: there is no such field.
    """
    for field in columns:
        if field not in KNOWN:
            known = [name for name, *_ in (QUERY_ID, RETRIEVED, SCORES, TEXTS, RELEVANCE, GRADES)]
            raise InvalidInput("columns", field, f"fields such as {', '.join(known)} or doc_id")
    return {column: field for field, column in columns.items()}


def rename(names: Sequence[str], fields: Mapping[str, str]) -> list[str]:
    """The names of columns, with the fields that they were said to be.

    A column that was called like such a field before means nothing any more.
    """
    taken = set(fields.values())
    return [fields.get(name, f"another {name}" if name in taken else name) for name in names]


def renamed(record: Any, fields: Mapping[str, str]) -> Any:
    """A record with its fields renamed in the same way; anything but a mapping stays as it is."""
    if not fields or not isinstance(record, Mapping):
        return record
    return dict(zip(rename(list(record), fields), record.values(), strict=True))
