"""The report of evaluations; and `write_html` and `plot`, for any result or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from llama_index_rag_metrics.evaluation.results.curves import curve_figures
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.report.html import Cut, write_page
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.plot import Plot, plot_of
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.terminal import print_report
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.scores_report import queries_report, systems_report
from llama_index_rag_metrics.scores.systems import System, shown_name

if TYPE_CHECKING:
    from rich.console import Console

Reported: TypeAlias = EvaluationResults | Scores
"""What a report takes for one retriever."""

Several: TypeAlias = Reported | Sequence[Reported] | Mapping[str, Reported]
"""What a report takes for one or several retrievers; the keys of a mapping are their names."""


def system_of(reported: Reported, name: str = "") -> System:
    if isinstance(reported, Scores):
        return System.of(reported, name)
    return System(
        name or shown_name(reported.scores, "score"),
        reported.scores,
        reported.run,
        reported.relevance,
        {metric: reported.matched[matcher] for metric, matcher in reported.matched_by.items()},
        reported.about,
        reported.price_per_million,
        reported.text_of,
    )


def systems_of(reported: Several) -> list[System]:
    """The systems of a report, each with a name to show."""
    if isinstance(reported, (EvaluationResults, Scores)):
        return [system_of(reported)]
    named = reported.items() if isinstance(reported, Mapping) else (("", each) for each in reported)
    results, systems = list(named), []
    for number, (name, result) in enumerate(results, 1):
        if not isinstance(result, (EvaluationResults, Scores)):
            expected = "results or scores of retrievers, or {name: results or scores}"
            raise InvalidInput("reported", result, expected)
        scores = result if isinstance(result, Scores) else result.scores
        unnamed = "score" if len(results) == 1 else f"system {number}"
        systems.append(system_of(result, name or shown_name(scores, unnamed)))
    return systems


def results_report(reported: Several, **options: Any) -> Report:
    """The report of one or several retrievers; `options` are those of `systems_report`."""
    systems = systems_of(reported)
    return systems_report(systems, figures=curve_figures(systems), **options)


def print_results(
    reported: Several,
    *,
    per_query: bool = False,
    console: Console | None = None,
    **options: Any,
) -> None:
    """Print the report of one or several retrievers, side by side.

    `per_query` prints every query's scores, too; `options` are those of `systems_report`.
    """
    print_report(results_report(reported, **options), console=console)
    if per_query:
        print_report(queries_report(systems_of(reported)), console=console)


def write_html(
    reported: Reportable | Several,
    path: str | Path,
    *,
    title: str | None = None,
    cut: Cut = "auto",
) -> Path:
    """Write the report as one HTML file that works offline.

    Args:
        reported: any result, such as a comparison; or the results or scores of several retrievers,
            by name or one after another.
        path: the file; an existing one is replaced.
        title: the heading; made of the systems' names unless given.
        cut: how many characters of each retrieved text are kept; "never" for whole texts. "auto"
            keeps 2,000, or fewer where the file would have more than 20 MB; the page says so.

    Returns:
        The path.

    Raises:
        MissingExtra: itables isn't installed.
        InvalidInput: `cut` isn't a number of characters.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from llama_index_rag_metrics import score_rankings, write_html
        >>> scores = score_rankings({"q1": ["a"]}, {"q1": ["c", "a"]}, "mrr")
        >>> with TemporaryDirectory() as folder:
        ...     write_html({"bm25": scores}, Path(folder, "report.html")).name
        'report.html'
    """
    return write_page(_report_of(reported, full=True), path, title=title, cut=cut)


def plot(reported: Reportable | Several, kind: str = "means", metric: str | None = None) -> Plot:
    """Draw one figure of any result, or of the results or scores of several retrievers.

    For the kinds of figures and for errors see `Reportable.plot`.

    Examples:
        >>> from llama_index_rag_metrics import Scores
        >>> bm25 = Scores(["q1", "q2"], {"mrr": [1.0, 0.5]}, name="bm25")
        >>> print(plot(bm25, "means", "mrr"))
        Retrieval of bm25, plotted: means with their intervals, mrr.
    """
    return plot_of(_report_of(reported), kind, metric)


def _report_of(reported: Reportable | Several, *, full: bool = False) -> Report:
    if isinstance(reported, Reportable):
        return reported.report(full=full)
    return results_report(reported)
