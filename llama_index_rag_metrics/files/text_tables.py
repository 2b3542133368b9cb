"""Cells of a table: lists and objects that stand in them as text."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import tokenize
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from llama_index_rag_metrics.files.fields import (
    EXPECTED_TEXTS,
    FORBIDDEN,
    GENERATED_FROM,
    RELEVANCE,
)
from llama_index_rag_metrics.files.lines import Faults, Place, read_lines, read_text
from llama_index_rag_metrics.files.records import read_relevance, read_texts
from llama_index_rag_metrics.runtime.errors import FileFormatError


def read_table(
    path: Path, delimiter: str = ",", faults: Faults | None = None
) -> tuple[list[str], Iterator[tuple[Place, list[str]]]]:
    """The headings, and the rows below them, as many cells each; what is missing is "".

    With commas, cells may be quoted; with tabs, a line is a row and a quote is a quote.
    """
    faults = faults or Faults()
    plain = ((place, line.split(delimiter)) for place, line in read_lines(path, faults))
    rows = _quoted(path) if delimiter == "," else plain
    headings = next(rows, (None, []))[1]
    return headings, _below(rows, len(headings), faults)


def read_rows(path: Path, faults: Faults | None = None) -> Iterator[tuple[Place, dict[str, str]]]:
    """The rows of a CSV table as {heading: text}."""
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


_TEXTS = {*EXPECTED_TEXTS, GENERATED_FROM}
_NO_LITERAL = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)
_SIDE_BY_SIDE = re.compile(r"""["'][\s\\]*[bru]{0,2}["']""", re.IGNORECASE)

LISTED = frozenset({*RELEVANCE, *FORBIDDEN, *_TEXTS})
"""Fields of a question that hold lists or objects."""


def read_field(name: str, text: str, place: Place) -> object:
    """What a cell holds; in a field of texts, what only looks like a list of them is a text.

    >>> read_field("expected_ids", '["d1", "d2"]', Place("a.csv"))
    Relevance(['d1', 'd2'])
    >>> read_field("expected_texts", "[2020]", Place("a.csv"))
    '[2020]'
    """
    value = read_cell(text, place)
    if value is None or isinstance(value, str) or name not in LISTED:
        return value
    if name not in _TEXTS:  # no id looks like a list or an object
        return read_relevance(value, place)
    try:
        return read_texts(value, place)
    except FileFormatError:
        return text


def read_cell(text: str, place: Place) -> object:
    """What a cell holds: a list or an object as Python or JSON writes them, a text, or None."""
    if not text:
        return None
    if text[0] not in "[{":
        return text
    # JSON first: Python would take null for a name, and halve escaped characters beyond U+FFFF
    for read in (json.loads, _read_literal):
        try:
            value = read(text)
        except _NO_LITERAL:
            continue
        if read is not json.loads and _has_lost_commas(text):
            expected = "commas between the items of a list, which a numpy array loses"
            raise place.wrong(expected, text)
        return value
    return text


def _read_literal(text: str) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\\d" in a text is no fault of the caller's code
        return ast.literal_eval(text)


def _has_lost_commas(text: str) -> bool:
    """Whether texts stand side by side: Python would read them as one."""
    if not _SIDE_BY_SIDE.search(text):  # most have none, and the tokenizer is slow
        return False
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = [token.type for token in tokens if token.type != tokenize.NL]
    return (tokenize.STRING, tokenize.STRING) in pairwise(kinds)
