"""Reportable: what every result can be shown as, once it says `report()`."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from llama_index_rag_metrics.report.html import Cut
    from llama_index_rag_metrics.report.model import Report


class Reportable:
    """A result that can be shown: in a terminal, a notebook, on a page, in a paper or a program.

    Everything follows from `report()`. Renderers are imported when they are needed.
    """

    @abstractmethod
    def report(self, *, full: bool = False) -> Report:
        """The result as plain data.

        Args:
            full: whether to add what only a page shows and takes time, such as intervals of means.
        """

    def __str__(self) -> str:
        """The report as text, as wide as the terminal."""
        from llama_index_rag_metrics.report.terminal import to_text

        return to_text(self.report())

    def _repr_html_(self) -> str:
        from llama_index_rag_metrics.report.notebook import to_notebook

        return to_notebook(self.report())

    def to_html(self, path: str | Path, *, title: str | None = None, cut: Cut = "auto") -> Path:
        """Write the report as one HTML file that works offline; see `write_html`."""
        from llama_index_rag_metrics.report.html import write_page

        return write_page(self.report(full=True), path, title=title, cut=cut)

    def to_markdown(self) -> str:
        """The report as GitHub shows it; what comes from data is escaped."""
        from llama_index_rag_metrics.report.markdown import to_markdown

        return to_markdown(self.report())

    def to_latex(self) -> str:
        """The main tables for LaTeX with the package booktabs."""
        from llama_index_rag_metrics.report.latex import to_latex

        return to_latex(self.report())

    def to_csv(self, path: str | Path | None = None) -> str:
        """The unrounded numbers as CSV; written to `path`, if given.

        A text that a spreadsheet would run, such as "=1+1", has an apostrophe before it.
        """
        from llama_index_rag_metrics.report.exports import to_csv, written

        return written(to_csv(self.report().records), path)

    def to_json(self, path: str | Path | None = None) -> str:
        """The unrounded numbers as a list of JSON objects; written to `path`, if given."""
        from llama_index_rag_metrics.report.exports import to_json, written

        return written(to_json(self.report().records), path)

    def to_pandas(self) -> pd.DataFrame:
        """The unrounded numbers as a data frame.

        Raises:
            MissingExtra: pandas isn't installed.
        """
        from llama_index_rag_metrics.report.exports import to_pandas

        return to_pandas(self.report().records)

    def plot(self, kind: str = "means", metric: str | None = None) -> go.Figure:
        """One figure, drawn by plotly.

        Args:
            kind: "means" with their intervals; "differences" from the baseline with theirs, and
                their "distribution" over the queries (both of a comparison only); a metric
                "by_cutoff", or "by_tokens" where these were counted; "precision_recall":
                interpolated, at eleven levels; "latency". Of a sweep: "tradeoff", quality against
                tokens against p95, and a "heat_map" of two parameters.
            metric: which metric it shows; None takes ndcg where there is one, else the first. Means
                and differences show all metrics unless one is given.

        Raises:
            MissingExtra: plotly isn't installed.
            InvalidInput: there is no such figure of this result.
            UnknownMetric: the metric wasn't computed.
        """
        from llama_index_rag_metrics.report.plots import plot

        return plot(self.report(), kind, metric)
