"""Several systems side by side, each against the first, with the decision first.

What `evaluate` and `score` of the command line print and write, and `write_html` from Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.decisions.comparison.comparing import compare
from llama_index_rag_metrics.decisions.comparison.comparison_report import decisions
from llama_index_rag_metrics.evaluation.results.evaluation_results import (
    Several,
    by_name,
    results_report,
    systems_of,
)
from llama_index_rag_metrics.report.html import write_page
from llama_index_rag_metrics.report.model import Report, Statement
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.terminal import print_report
from llama_index_rag_metrics.stories.first_line import failing, first_lines, with_failures
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.results_report import queries_report

if TYPE_CHECKING:
    from rich.console import Console

_MOST_FLIPS = 1_000_000_000
"""Questions times random flips of signs: of more questions there are fewer flips."""


def print_results(
    reported: Several, *, per_query: bool = False, console: Console | None = None, **options: Any
) -> None:
    """Print the report of one or several retrievers, side by side, each against the first.

    `per_query` prints every query's scores, too; `options` are those of `systems_report`.

    Examples:
        >>> from llama_index_rag_metrics import Scores, print_results
        >>> first, second = (Scores(["q1", "q2"], {"mrr": [high, 0.5]}) for high in (0.5, 1.0))
        >>> print_results({"bm25": first, "hybrid": second}, worst=0)
         Retrieval of bm25 and hybrid ...
         These 2 questions can't tell: hybrid may be ...
    """
    print_report(_side_by_side(reported, is_page=False, **options), console=console)
    if per_query:
        print_report(queries_report(systems_of(reported)), console=console)


def write_html(
    reported: Reportable | Several, path: str | Path, *, title: str | None = None
) -> Path:
    """Write the report as one HTML file that works offline.

    Args:
        reported: any result, such as a comparison; or the results or scores of several retrievers,
            by name or one after another, which are compared with the first.
        path: the file; an existing one is replaced.
        title: the heading; made of the systems' names unless given.

    Returns:
        The path.

    Raises:
        InvalidInput: `reported` isn't a result.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from llama_index_rag_metrics import score_rankings, write_html
        >>> scores = score_rankings({"q1": ["a"]}, {"q1": ["c", "a"]}, "mrr")
        >>> with TemporaryDirectory() as folder:
        ...     write_html({"bm25": scores}, Path(folder, "report.html")).name
        'report.html'
    """
    if isinstance(reported, Reportable):
        report = reported.report(full=True)
    else:
        report = _side_by_side(reported, is_page=True)
    return write_page(report, path, title=title)


def decision_of(reported: Several) -> list[str]:
    """The sentences that come first where they are printed."""
    return [each.text for each in _side_by_side(reported, is_page=False).decision]


def _side_by_side(reported: Several, *, is_page: bool, **options: Any) -> Report:
    """All that were measured against the first of them, on the questions that all have."""
    systems, results = systems_of(reported), by_name(reported)
    measured = {system.name: system.scores for system in systems if system.scores.is_measured}
    if len(measured) < 2:
        decision = None if len(systems) == 1 else _of_one(systems)
        return results_report(reported, decision=decision, **options)
    first, *others = measured.values()
    metrics = [metric for metric in first if all(metric in scores for scores in others)]
    shared = set(first.query_ids).intersection(*(scores.query_ids for scores in others))
    verdicts = []
    if metrics and shared:
        comparison = compare(
            {name: results[name] for name in measured},
            next(iter(measured)),
            metrics=metrics if is_page else metrics[:1],
        )
        if is_page and len(measured) == len(systems):
            return comparison.report(full=True)
        verdicts = decisions(comparison)
    if not metrics:
        verdicts.append(Statement("They have no metric in common.", "open"))
    if any(len(shared) < len(scores.query_ids) for scores in measured.values()):
        common = questions(len(shared)) if shared else "no question"
        verdicts.append(Statement(f"They have {common} in common.", "open"))
    decision = with_failures(verdicts, systems, next(iter(metrics), ""))
    return results_report(reported, decision=decision, **options)


def _of_one(systems: Sequence[System]) -> list[Statement]:
    """Of several systems the only one that was measured, below the others."""
    only = [system for system in systems if system.scores.is_measured]
    others = [system for system in systems if not system.scores.is_measured]
    of_only = first_lines(only, "") if only else []
    named = (each._replace(text=f"{only[0].name}: {each.text}") for each in of_only)
    return [*failing(others, ""), *named]
