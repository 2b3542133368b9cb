"""Cells of a table: lists and objects that stand in them as text."""

from __future__ import annotations

import ast
import io
import json
import tokenize
from itertools import pairwise

from llama_index_rag_metrics.formats.lines import Place


def read_cell(text: str, place: Place) -> object:
    """What a cell holds: a list or an object as Python or JSON writes them, a text, or None."""
    if not text:
        return None
    if text[0] not in "[{":
        return text
    # JSON first: Python would take null for a name, and halve escaped characters beyond U+FFFF
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text)
        except (ValueError, SyntaxError, RecursionError):
            continue
        if read is not json.loads and _has_lost_commas(text):
            wish = "commas between the items of a list, which a numpy array loses"
            raise place.wrong(wish, text)
        return value
    return text


def _has_lost_commas(text: str) -> bool:
    """Whether texts stand side by side: Python would read them as one."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = [token.type for token in tokens if token.type != tokenize.NL]
    return (tokenize.STRING, tokenize.STRING) in pairwise(kinds)
