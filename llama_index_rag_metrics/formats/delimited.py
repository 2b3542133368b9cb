"""Tables as text: CSV, and columns with tabs between them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from llama_index_rag_metrics.formats.lines import Faults, Place, read_lines, read_text


def read_table(
    path: Path, delimiter: str = ",", faults: Faults | None = None
) -> tuple[list[str], Iterator[tuple[Place, list[str]]]]:
    """The headings, and the rows below them, as many cells each; what is missing is "".

    With commas, cells may be quoted; with tabs, a line is a row and a quote is a quote.

    Raises:
        FileFormatError: it isn't such a table, or a row has more cells than there are columns.
    """
    faults = faults or Faults()
    plain = ((place, line.split(delimiter)) for place, line in read_lines(path, faults))
    rows = _quoted(path) if delimiter == "," else plain
    headings = next(rows, (None, []))[1]
    return headings, _below(rows, len(headings), faults)


def read_rows(path: Path, faults: Faults | None = None) -> Iterator[tuple[Place, dict[str, str]]]:
    """The rows of a CSV table as {heading: text}.

    Raises:
        FileFormatError: as `read_table`.
    """
    headings, rows = read_table(path, faults=faults)
    for place, cells in rows:
        yield place, dict(zip(headings, cells, strict=True))


def _below(
    rows: Iterator[tuple[Place, list[str]]], width: int, faults: Faults
) -> Iterator[tuple[Place, list[str]]]:
    for place, cells in rows:
        if len(cells) > width:
            faults.take(place.wrong(f"{width} cells", cells[width:]))
        elif cells:
            yield place, cells + [""] * (width - len(cells))


def _quoted(path: Path) -> Iterator[tuple[Place, list[str]]]:
    # The csv module refuses cells over 128 KB unless told, and can be told for all only.
    limit = csv.field_size_limit(2**31 - 1)
    table = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        for cells in table:
            yield Place(str(path), table.line_num), cells
    except csv.Error as error:
        raise Place(str(path), table.line_num).wrong(f"CSV ({error})") from error
    finally:
        csv.field_size_limit(limit)
