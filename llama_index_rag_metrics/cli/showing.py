"""Printing a result in the form that was asked for."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from llama_index_rag_metrics.report.reportable import Reportable


class Format(str, Enum):
    """How a result is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


def show(result: Reportable, form: Format) -> None:
    """Print a result."""
    from llama_index_rag_metrics.report.terminal import print_report

    if form is Format.TABLE:
        print_report(result.report())
    else:
        text = result.to_json() if form is Format.JSON else result.to_markdown()
        typer.echo(text.rstrip("\n"))
