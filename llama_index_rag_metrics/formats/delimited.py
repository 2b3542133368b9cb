"""Tables as text: CSV, and columns with tabs between them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from llama_index_rag_metrics.formats.lines import Faults, Place, read_lines, read_text


def read_rows(
    path: Path, delimiter: str = ",", faults: Faults | None = None
) -> Iterator[tuple[Place, dict[str, str]]]:
    """The rows below a line of headings, as {heading: text}; cells that are missing are left out.

    With commas, cells may be quoted; with tabs, a line is a row and a quote is a quote.

    Raises:
        FileFormatError: it isn't such a table, or a row has more cells than there are columns.
    """
    faults = faults or Faults()
    headings: list[str] | None = None
    for place, cells in _quoted(path) if delimiter == "," else _plain(path, delimiter, faults):
        if headings is None:
            headings = cells
        elif len(cells) > len(headings):
            faults.take(place.wrong(f"{len(headings)} cells", cells[len(headings) :]))
        elif cells:
            yield place, dict(zip(headings, cells, strict=False))


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


def _plain(path: Path, delimiter: str, faults: Faults) -> Iterator[tuple[Place, list[str]]]:
    for place, line in read_lines(path, faults):
        yield place, line.split(delimiter)
