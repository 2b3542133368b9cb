"""Questions with reference contexts: LlamaIndex's `LabelledRagDataset` and the test sets of ragas.

The reference contexts become the expected texts; answers and everything else become metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.fields import QUERY
from llama_index_rag_metrics.files.frame import frame_table, records_of
from llama_index_rag_metrics.files.lines import Faults, Place, name_of
from llama_index_rag_metrics.files.records import read_question, read_questions
from llama_index_rag_metrics.files.text_tables import LISTED, read_field, read_rows

_INDEX = ("", "Unnamed: 0")
"""What a data frame's index is called in its CSV."""


def read_examples(
    examples: Sequence[object], place: Place, faults: Faults | None = None
) -> DatasetContent:
    """Read the questions of a list: of a LabelledRagDataset's examples, or of ragas' records."""
    return read_questions(
        ((place.item(number), example) for number, example in enumerate(examples, 1)), faults
    )


def is_columns(data: Mapping[str, object]) -> bool:
    """Whether this is a table by columns, as a data frame writes its JSON by default."""
    return any(isinstance(data.get(name), (dict, list)) for name in QUERY)


def read_columns(
    data: Mapping[str, Any], place: Place, faults: Faults | None = None
) -> DatasetContent:
    """Read a table of questions by columns: {column: {row: value}} or {column: [value, …]}."""
    for name, part in data.items():
        if isinstance(part, str) or not isinstance(part, Iterable):
            raise place.wrong(f"a column {name!r}, a list or {{row: value}}", part)
    columns = [list(part.values() if isinstance(part, dict) else part) for part in data.values()]
    if len({len(column) for column in columns}) > 1:
        raise place.wrong("columns of the same length", [len(column) for column in columns])
    rows = [dict(zip(data, values, strict=True)) for values in zip(*columns, strict=True)]
    return read_examples(rows, place, faults)


def read_csv(path: Path, faults: Faults | None = None) -> DatasetContent:
    """Read a table of questions; lists stand in a cell as Python or JSON writes them."""
    content, faults = DatasetContent(), faults or Faults()

    def read(row: dict[str, str], place: Place) -> None:
        cells = {
            name: (text or None) if name in QUERY else read_field(name, text, place)
            for name, text in row.items()
            if name not in _INDEX
        }
        read_question(content, cells, place)

    faults.each(read_rows(path, faults), read)
    if not (content.queries or faults.skipped):
        raise Place(str(path)).wrong("headings such as query,expected_ids, and a row a question")
    content.name = name_of(path)
    return content


def read_frame(frame: Any, faults: Faults | None = None) -> DatasetContent:
    """Read a table in memory; in a column of texts alone, lists may stand as text."""
    content, faults = DatasetContent(), faults or Faults()
    names, table = frame_table(frame)
    rows = list(records_of(names, table))
    columns = [
        name
        for name in LISTED.intersection(names)
        if all(row[name] is None or isinstance(row[name], str) for _, row in rows)
    ]

    def read(row: dict[str, Any], place: Place) -> None:
        cells = {name: read_field(name, row[name], place) for name in columns if row[name]}
        read_question(content, {**row, **cells}, place)

    faults.each(rows, read)
    return content
