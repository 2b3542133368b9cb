"""Numbers for programs, unrounded: CSV, JSON and data frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from llama_index_rag_metrics.report.escape import csv_line, spreadsheet
from llama_index_rag_metrics.report.model import Records
from llama_index_rag_metrics.runtime.atomic_files import write_text
from llama_index_rag_metrics.runtime.errors import MissingExtra
from llama_index_rag_metrics.runtime.jsonable import jsonable

if TYPE_CHECKING:
    import pandas as pd


def to_csv(records: Records, *, for_people: bool = True) -> str:
    """A line of names, and a line a row; a missing value is empty.

    `for_people` keeps spreadsheets from running what comes from data.
    """
    rows = zip(*records.columns.values(), strict=True)
    lines = [list(records.columns), *(jsonable(row, "records") for row in rows)]
    if for_people:
        lines = [[spreadsheet(cell) for cell in line] for line in lines]
    return "".join(f"{csv_line(line)}\n" for line in lines)


def to_json(records: Records) -> str:
    """A list of objects; a missing value is null."""
    rows = [
        dict(zip(records.columns, row, strict=True))
        for row in zip(*records.columns.values(), strict=True)
    ]
    return json.dumps(jsonable(rows, "records"), ensure_ascii=False, allow_nan=False)


def to_pandas(records: Records) -> pd.DataFrame:
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtra("to_pandas()", "pandas") from error
    columns = dict(records.columns)
    if records.index is None:
        return pd.DataFrame(columns)
    index = pd.Index(list(columns.pop(records.index)), name=records.index)
    return pd.DataFrame(columns, index=index)


def written(text: str, path: str | Path | None) -> str:
    """The text, which is also written to a file where one is given."""
    if path is not None:
        write_text(path, text)
    return text
