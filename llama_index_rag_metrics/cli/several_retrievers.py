"""What `demo` and `evaluate` share: several retrievers on one dataset, one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.cli.journal_folder import file_safe, journal_of
from llama_index_rag_metrics.files.runs.write_runs import write_run
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.report.terminal import print_heading, print_text
from llama_index_rag_metrics.runtime.atomic_files import write_text
from llama_index_rag_metrics.runtime.errors import LabelWarning
from llama_index_rag_metrics.scores.scores_export import to_json

if TYPE_CHECKING:
    from llama_index_rag_metrics.decisions.comparison import Comparison
    from llama_index_rag_metrics.evaluation import EvaluationResults
    from llama_index_rag_metrics.evaluation.identity import RetrieverIdentity
    from llama_index_rag_metrics.evaluation.source import Source
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset


def chosen_metrics(names: Iterable[str] | None) -> list[BaseRetrievalMetric]:
    """The metrics of those names, which may be joined by commas; by default the usual ones."""
    from llama_index_rag_metrics.evaluation import DEFAULT_METRICS
    from llama_index_rag_metrics.metrics.metric_names import metrics, split_names

    single = [part.strip() for name in names or () for part in split_names(name)]
    return metrics(single or DEFAULT_METRICS)


def evaluate_all(
    retrievers: Mapping[str, Source],
    dataset: RetrievalDataset,
    metrics: Iterable[BaseRetrievalMetric],
    *,
    show_progress: bool,
    journal: Path | None = None,
    max_failures: float | None = None,
    retriever_ids: Mapping[str, RetrieverIdentity] | None = None,
    **options: Any,
) -> list[EvaluationResults]:
    """Evaluate each retriever, with these and further options of `evaluate`.

    `journal` is a folder with one file for each. There is no warning of mismatched labels here: the
    report has a note about them.
    """
    from llama_index_rag_metrics.evaluation import evaluate

    chosen = list(metrics)
    if max_failures is not None and max_failures.is_integer():
        max_failures = int(max_failures)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        results = [
            evaluate(
                retriever,
                dataset,
                chosen,
                name=name,
                show_progress=show_progress,
                journal=None if journal is None else journal_of(journal, name),
                max_failures=max_failures,
                retriever_id=(retriever_ids or {}).get(name),
                **options,
            )
            for name, retriever in retrievers.items()
        ]
    if show_progress:
        typer.echo(err=True)
    return results


def show_all(
    results: Sequence[EvaluationResults],
    *,
    worst: int,
    slice_by: Sequence[str],
    json: Path | None = None,
    html: Path | None = None,
) -> None:
    """Print what the evaluations come to, after it was written to the files that were asked for."""
    from llama_index_rag_metrics.decisions.comparison.comparison_report import decisions
    from llama_index_rag_metrics.evaluation.results.results_report import print_results, write_html

    if json is not None:
        write_text(json, to_json([result.scores for result in results]))
    comparison = compared(results)
    if html is not None:
        write_html(comparison or results, html)
    for statement in decisions(comparison) if comparison is not None else ():
        print_text(statement.text)
    print_results(results, worst=worst, slice_by=slice_by)


def compared(results: Sequence[EvaluationResults]) -> Comparison | None:
    """Each retriever against the first; None where there is nothing to compare."""
    from llama_index_rag_metrics.decisions.comparison import compare

    first = results[0].scores
    if len(results) < 2 or first.counts.scored < 2:
        return None
    return compare({result.run.name: result for result in results}, first.name)


def write_runs(path: Path | None, results: Sequence[EvaluationResults]) -> None:
    """Write what was retrieved, where a path is given; several retrievers get a file each.

    A failed query is left out of a format that can't record the failure.
    """
    if path is None:
        return
    for result in results:
        apart = path.with_name(f"{path.stem}.{file_safe(result.run.name)}{path.suffix}")
        target = path if len(results) == 1 else apart
        write_run(result.run, target, lossy=True)


def print_dataset(dataset: RetrievalDataset) -> None:
    """Print what a dataset holds, and what to check before trusting its scores."""
    passages = counted(len(dataset.corpus), "passage", "passages")
    print_heading(dataset.name, f"{counted(len(dataset.queries))} · {passages}", dataset.check())
