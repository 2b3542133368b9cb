"""What kind of file a path is: by its ending, and where that says nothing, by its beginning."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path

from llama_index_rag_metrics.files.lines import read_lines

ENDINGS: dict[str, str] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".trec": "text",
    ".run": "text",
    ".qrels": "text",
}
"""The ending of a file to its kind, or to the format that `register_format` added for it."""

_JSON_BEGINS = re.compile(r"""\s*(?:\{\s*(?:["}]|$)|\[\s*(?:[{["\]]|$))""")
"""How an object or a list begins, and an id such as {5F1A…} doesn't."""


def kind_by_name(path: Path) -> str | None:
    """What the ending says, ".gz" apart, or None."""
    name = path.name.lower().removesuffix(".gz")
    return ENDINGS.get(name[name.rfind(".") :]) if "." in name else None


def name_of(path: Path) -> str:
    """What a file is called without its endings: bm25 for bm25.run.gz."""
    return path.name.split(".")[0]


def kind_of(path: Path) -> str:
    """What kind of file it is.

    Raises:
        FileFormatError: the beginning has to be read, and isn't text.
        FileNotFoundError: there is no such file, and the ending says nothing.
    """
    return kind_by_name(path) or _kind_by_content(path)


def _kind_by_content(path: Path) -> str:
    lines = [line for _, line in islice(read_lines(path), 2)]
    if not lines:
        return "empty"
    if not _JSON_BEGINS.match(lines[0]):
        return "text"
    try:
        json.loads(lines[0])
    except (ValueError, RecursionError):
        return "json"
    return "jsonl" if len(lines) > 1 else "json"
