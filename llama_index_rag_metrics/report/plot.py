"""Plot: one figure of a report as a picture, for notebooks and files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import FIGURES
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.svg import picture
from llama_index_rag_metrics.runtime.atomic_files import write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric


@dataclass(frozen=True, slots=True, repr=False)
class Plot:
    """A drawing that a notebook shows; dark on white, on any background.

    Attributes:
        sentence: what it shows, without markup or line breaks.
        svg: the drawing as an SVG file, 640 pixels wide, whose marks show their numbers under the
            pointer. Texts from data are escaped.

    Examples:
        >>> from llama_index_rag_metrics import Scores
        >>> plot = Scores(["q1", "q2"], {"mrr": [1.0, 0.5]}, name="bm25").plot()
        >>> print(plot)
        Retrieval of bm25, plotted: means with their intervals.
        >>> plot.svg[:4]
        '<svg'
    """

    sentence: str
    svg: str

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"<Plot: {self.sentence}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": self.sentence}

    def write(self, path: str | Path) -> Path:
        """Write the drawing as an SVG file; an existing file is replaced.

        Returns:
            The path.
        """
        return write_text(path, self.svg)


def plot_of(report: Report, kind: str, metric: str | None) -> Plot:
    """One figure of a report; for arguments and errors see `Reportable.plot`."""
    if kind not in FIGURES:
        raise InvalidInput("kind", kind, " or ".join(map(repr, FIGURES)))
    if metric is not None and metric not in report.metrics:
        raise UnknownMetric(metric, tuple(report.metrics))
    figure = report.figures[kind](metric) if kind in report.figures else None
    caption, by_metric, missing = FIGURES[kind]
    if figure is None:
        raise InvalidInput("kind", kind, "a figure of what was given", missing)
    of_metric = metric or (report.headline if by_metric else "")
    caption += f", {of_metric}" if of_metric else ""
    sentence = f"{report.title}, plotted: {caption[0].lower()}{caption[1:]}."
    return Plot(plain(sentence), picture(figure, caption))
