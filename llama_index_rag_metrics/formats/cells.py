"""Cells of a table: lists and objects that stand in them as text."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import warnings
from itertools import pairwise

from llama_index_rag_metrics.errors import FileFormatError
from llama_index_rag_metrics.formats.fields import (
    EXPECTED_TEXTS,
    FORBIDDEN,
    GENERATED_FROM,
    RELEVANCE,
)
from llama_index_rag_metrics.formats.lines import Place
from llama_index_rag_metrics.formats.records import read_relevance, read_texts

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
