"""Nuggets in files: a question a line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from llama_index_rag_metrics.formats.fields import NUGGETS, QUERY, QUERY_ID, first_of
from llama_index_rag_metrics.formats.lines import from_json, read_lines
from llama_index_rag_metrics.formats.nuggets import read_nuggets
from llama_index_rag_metrics.formats.records import read_id
from llama_index_rag_metrics.formats.runs.mistaken import FACTS, read_as
from llama_index_rag_metrics.nugget import Nugget


def read_file(
    path: Path,
) -> tuple[dict[str, list[Nugget]], dict[str, str], dict[str, str]]:
    """The nuggets, the text and the error of each question, a question a line.

    Raises:
        FileFormatError: a line can't be read, or repeats a question.
        FileNotFoundError: there is no such file.
    """
    by_query: dict[str, list[Nugget]] = {}
    queries: dict[str, str] = {}
    errors: dict[str, str] = {}
    with read_as(FACTS, path):
        for place, line in read_lines(path):
            record = from_json(line, place)
            if not isinstance(record, Mapping) or NUGGETS not in record:
                raise place.wrong(f"a question with {NUGGETS!r}", record)
            query_id = read_id(first_of(record, QUERY_ID), place)
            if query_id in by_query:
                raise place.wrong("every question once", query_id)
            by_query[query_id] = read_nuggets(record[NUGGETS], place)
            if texts := [str(record[name]) for name in QUERY if record.get(name)]:
                queries[query_id] = texts[0]
            if record.get("error"):
                errors[query_id] = str(record["error"])
    return by_query, queries, errors
