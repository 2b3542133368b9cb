"""What pages that work offline carry: files of the package, scripts' digests, and packed data.

Data is JSON, gzip, base64: nothing in it can end the element that holds it.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any

from llama_index_rag_metrics.report.escape import Element, element


def packed(value: Any) -> str:
    """A value as base64 of gzip; the same value always gives the same."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    squeezed = gzip.compress(text.encode("utf-8", "replace"), compresslevel=9, mtime=0)
    return base64.b64encode(squeezed).decode("ascii")


def carriers(chunks: Mapping[str, str]) -> Iterator[Element]:
    """Elements that the browser keeps and never runs, one a packed chunk; carried.js reads them."""
    for name, chunk in chunks.items():
        yield element("script", chunk, type="text/plain", id=f"data-{name}")


def asset(name: str, package: str = __package__) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def script_source(script: str) -> str:
    """What a policy calls a script that it allows."""
    digest = base64.b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
