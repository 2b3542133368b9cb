"""What pages that work offline carry: styles, scripts, and packed data.

Data is JSON, gzip, base64: nothing in it can end the element that holds it.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from llama_index_rag_metrics.report.escape import Element, element
from llama_index_rag_metrics.runtime.errors import MissingExtra


def packed(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return packed_text(text)


def packed_text(text: str) -> str:
    """A text as base64 of gzip; the same text always gives the same."""
    squeezed = gzip.compress(text.encode("utf-8", "replace"), compresslevel=9, mtime=0)
    return base64.b64encode(squeezed).decode("ascii")


def carriers(chunks: Mapping[str, str]) -> Iterator[Element]:
    """Elements that the browser keeps and never runs, one a packed chunk; carried.js reads them."""
    for name, chunk in chunks.items():
        yield element("script", chunk, type="text/plain", id=f"data-{name}")


def asset(name: str, package: str = __package__) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def script_source(script: str) -> str:
    digest = base64.b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


class TableLibrary(NamedTuple):
    script: str
    css: str


def check_libraries() -> None:
    if find_spec("itables") is None:
        raise MissingExtra("the HTML report", "demo")


@cache
def table_library() -> TableLibrary:
    """DataTables, compressed once a process."""
    # itables has no function for it, and importing it would bring pandas and IPython
    spec = find_spec("itables")
    if spec is None or spec.origin is None:
        raise MissingExtra("the HTML report", "demo")
    bundle = Path(spec.origin).parent / "html" / "dt_bundle.js"
    style = bundle.with_suffix(".css").read_text(encoding="utf-8")
    return TableLibrary(packed_text(bundle.read_text(encoding="utf-8")), style)
