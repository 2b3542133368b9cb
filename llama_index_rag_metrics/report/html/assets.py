"""What pages that work offline are made of: styles and scripts that several share, and data."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from llama_index_rag_metrics.report.html.elements import Element, element
from llama_index_rag_metrics.report.html.packing import packed_text
from llama_index_rag_metrics.runtime.errors import MissingExtra


def asset(name: str, package: str = __package__) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def script_source(script: str) -> str:
    """The hash by which a content security policy allows this script."""
    digest = base64.b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def carriers(chunks: Mapping[str, str]) -> Iterator[Element]:
    """Elements that the browser keeps and never runs, one a packed chunk; carried.js reads them."""
    for name, chunk in chunks.items():
        yield element("script", chunk, type="text/plain", id=f"data-{name}")


class TableLibrary(NamedTuple):
    """A script as base64 of gzip, and a style sheet as it is."""

    script: str
    css: str


def check_libraries() -> None:
    """Raise `MissingExtra` where a library isn't there, without reading them."""
    if any(find_spec(package) is None for package in ("plotly", "itables")):
        raise MissingExtra("the HTML report", "report")


@cache
def plots_library() -> str:
    """plotly.js as base64 of gzip, compressed once a process."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtra("the HTML report", "report") from error
    return packed_text(get_plotlyjs())


@cache
def table_library() -> TableLibrary:
    """DataTables, compressed once a process."""
    # itables has no function for it, and importing it would bring pandas and IPython
    spec = find_spec("itables")
    if spec is None or spec.origin is None:
        raise MissingExtra("the HTML report", "report")
    bundle = Path(spec.origin).parent / "html" / "dt_bundle.js"
    return TableLibrary(packed_text(_read(bundle)), _read(bundle.with_suffix(".css")))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
