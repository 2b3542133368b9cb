"""Printing a result in the form that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import typer

if TYPE_CHECKING:
    from llama_index_rag_metrics.report.reportable import Reportable


Format: TypeAlias = Literal["table", "markdown", "json"]
"""How a result is printed."""


def show(
    result: Reportable, form: Format, *, json: Path | None = None, html: Path | None = None
) -> None:
    """Print a result, after it was written to the files that were asked for."""
    from llama_index_rag_metrics.report.terminal import print_report

    if json is not None:
        result.to_json(json)
    if html is not None:
        result.to_html(html)
    if form == "table":
        print_report(result.report())
    else:
        text = result.to_json() if form == "json" else result.to_markdown()
        typer.echo(text.rstrip("\n"))
