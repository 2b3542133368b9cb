"""The report of evaluations; and `plot`, for any result or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from llama_index_rag_metrics.evaluation.results.curves import curve_figures
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.report.model import Report
from llama_index_rag_metrics.report.plot import Plot, plot_of
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.scores_report import systems_report
from llama_index_rag_metrics.scores.systems import System, shown_name

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


def by_name(reported: Several) -> dict[str, Reported]:
    """The results of a report, each by a name to show; repeated names are numbered."""
    if isinstance(reported, (EvaluationResults, Scores)):
        reported = [reported]
    pairs = reported.items() if isinstance(reported, Mapping) else (("", each) for each in reported)
    listed, named = list(pairs), dict[str, Reported]()
    for number, (name, result) in enumerate(listed, 1):
        if not isinstance(result, (EvaluationResults, Scores)):
            expected = "results or scores of retrievers, or {name: results or scores}"
            raise InvalidInput("reported", result, expected)
        scores = result if isinstance(result, Scores) else result.scores
        unnamed = "score" if len(listed) == 1 else f"system {number}"
        first = name or shown_name(scores, unnamed)
        names = (first, *(f"{first} {again}" for again in range(2, len(listed) + 2)))
        named[next(free for free in names if free not in named)] = result
    return named


def systems_of(reported: Several) -> list[System]:
    return [system_of(result, name) for name, result in by_name(reported).items()]


def results_report(reported: Several, **options: Any) -> Report:
    systems = systems_of(reported)
    return systems_report(systems, figures=curve_figures(systems), **options)


def plot(reported: Reportable | Several, kind: str = "means", metric: str | None = None) -> Plot:
    """Draw one figure of any result, or of the results or scores of several retrievers.

    For the kinds of figures and for errors see `Reportable.plot`.

    Examples:
        >>> from llama_index_rag_metrics import Scores
        >>> bm25 = Scores(["q1", "q2"], {"mrr": [1.0, 0.5]}, name="bm25")
        >>> print(plot(bm25, "means", "mrr"))
        Retrieval of bm25, plotted: means with their intervals, mrr.
    """
    report = reported.report() if isinstance(reported, Reportable) else results_report(reported)
    return plot_of(report, kind, metric)
