"""The libraries that the page carries, out of the Python packages that bundle them.

plotly.js draws, DataTables (from itables) sorts, filters and pages. Neither is copied into this
project.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from llama_index_rag_metrics.errors import MissingExtra
from llama_index_rag_metrics.report.html.store import packed_text


class TableLibrary(NamedTuple):
    """A script as base64 of gzip, and a style sheet as it is."""

    script: str
    css: str


def check_libraries() -> None:
    """Whether both libraries are there, without the time that reading them takes.

    Raises:
        MissingExtra: one of them isn't installed.
    """
    if any(find_spec(package) is None for package in ("plotly", "itables")):
        raise MissingExtra("the HTML report", "report")


@cache
def plots_library() -> str:
    """plotly.js as base64 of gzip, compressed once a process.

    Raises:
        MissingExtra: it isn't installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtra("the HTML report", "report") from error
    return packed_text(get_plotlyjs())


@cache
def table_library() -> TableLibrary:
    """DataTables, compressed once a process.

    Raises:
        MissingExtra: it isn't installed.
    """
    # itables has no function for it, and importing it would bring pandas and IPython
    spec = find_spec("itables")
    if spec is None or spec.origin is None:
        raise MissingExtra("the HTML report", "report")
    bundle = Path(spec.origin).parent / "html" / "dt_bundle.js"
    return TableLibrary(packed_text(_read(bundle)), _read(bundle.with_suffix(".css")))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
