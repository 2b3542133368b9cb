"""Reportable: every result that has a `report()`, shown in each way, and its numbers exported."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable, write_text
from llama_index_rag_metrics.runtime.errors import MissingExtra

from .text import escape_html, one_line

if TYPE_CHECKING:
    import pandas as pd

    from .model import Report


class Sentence:
    __slots__ = ()

    @abstractmethod
    def __str__(self) -> str: ...

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {one_line(str(self))}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape_html(str(self))}</p>"


class Reportable:
    """A result that can be shown in a terminal, a notebook, on a page, or in a program."""

    @abstractmethod
    def report(self, *, full: bool = False) -> Report:
        """The result as plain data; `full` adds what only a page has room for."""

    def __repr__(self) -> str:
        report = self.report()
        text = report.decision[0].text if report.decision else report.title
        return f"<{type(self).__name__}: {one_line(text)}>"

    def __str__(self) -> str:
        from .terminal import to_text

        return to_text(self.report())

    def _repr_html_(self) -> str:
        from .html import fragment

        return fragment(self.report())

    def to_html(self, path: str | Path, *, title: str | None = None) -> Path:
        """Write the report as one HTML file that works offline, and return its path.

        An existing file is replaced. Without a title, the heading has the systems' names.
        """
        from .html import write_page

        return write_page(self.report(full=True), path, title=title)

    def to_markdown(self) -> str:
        """The report as GitHub shows it; what comes from data is escaped."""
        from .markup import to_markdown

        return to_markdown(self.report())

    def to_json(self, path: str | Path | None = None) -> str:
        """The unrounded numbers as a list of JSON objects; written to `path`, if given."""
        records = self.report().records
        rows = zip(*records.columns.values(), strict=True)
        objects = [dict(zip(records.columns, row, strict=True)) for row in rows]
        return written(json_text(jsonable(objects, "records")), path)

    def to_pandas(self) -> pd.DataFrame:
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("to_pandas()", package="pandas") from error
        records = self.report().records
        frame = pd.DataFrame(dict(records.columns))
        return frame if records.index is None else frame.set_index(records.index)


def written(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_text(path, text)
    return text
