"""What pages that work offline are made of: styles and scripts that several share, and data."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files

from llama_index_rag_metrics.report.html.elements import Element, element


def asset(name: str, package: str = __package__) -> str:
    """A text that stands beside the code of a package."""
    return (files(package) / name).read_text(encoding="utf-8")


def script_source(script: str) -> str:
    """What a content security policy allows, so that this script runs and no other."""
    digest = base64.b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def carriers(chunks: Mapping[str, str]) -> Iterator[Element]:
    """Elements that the browser keeps and never runs, one a packed chunk; carried.js reads them."""
    for name, chunk in chunks.items():
        yield element("script", chunk, type="text/plain", id=f"data-{name}")
