"""What `demo` and `evaluate` do: retrievers built and checked, asked one by one, and shown."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from llama_index_rag_metrics import EvaluationResults, RetrievalDataset, evaluate, write_run
from llama_index_rag_metrics.cli.outcome import found_scores
from llama_index_rag_metrics.cli.retriever_factories import built, find, specs_by_name
from llama_index_rag_metrics.cli.systems_report import report_of
from llama_index_rag_metrics.evaluation.as_ask import SourceLike, as_retriever, retrieval_depth
from llama_index_rag_metrics.files.fields import EXAMPLE
from llama_index_rag_metrics.files.runs.write_runs import holds_repeats
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.html import write_page
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.report.terminal import print_heading, print_report
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning
from llama_index_rag_metrics.scores.mappings import unknown_key

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric


def open_retrievers(
    specs: Sequence[str],
    path: Path,
    metrics: Sequence[BaseRetrievalMetric],
    top_k: int | None,
    slice_by: Iterable[str],
) -> tuple[RetrievalDataset, dict[str, SourceLike], dict[str, str]]:
    """The dataset, the retrievers by name, and what their journals call the runs."""
    names = specs_by_name(specs)
    k = depth(metrics, top_k)
    factories = {name: find(spec) for name, spec in names.items()}
    dataset = RetrievalDataset.load(path)
    needed = all(getattr(metric, "needs_relevance", True) for metric in metrics)
    if needed and not any(dataset.relevance.values()) and not any(dataset.expected_texts.values()):
        expected = "labels of at least one question, with a relevant passage"
        remedy = f"A line of JSON that has one: {EXAMPLE}."
        raise InvalidInput("--dataset", str(path), expected, remedy)
    for key in slice_by:
        if not any(key in row for row in dataset.metadata.values()):
            raise unknown_key("--slice", key, dataset.metadata)
    retrievers: dict[str, SourceLike] = {
        name: built("--retriever", names[name], factory, dataset, k, as_retriever)
        for name, factory in factories.items()
    }
    return (dataset, retrievers, {name: f"{spec}, top {k}" for name, spec in names.items()})


def depth(metrics: Sequence[BaseRetrievalMetric], top_k: int | None) -> int:
    """How many nodes to retrieve."""
    return top_k or retrieval_depth(metrics)


def _journal_of(folder: Path, name: str) -> Path:
    return folder / f"{_file_safe(name)}.jsonl"


def _file_safe(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)


def evaluate_all(
    retrievers: Mapping[str, SourceLike],
    dataset: RetrievalDataset,
    metrics: Sequence[BaseRetrievalMetric],
    *,
    show_progress: bool,
    journal: Path | None = None,
    runs: Mapping[str, str] | None = None,
    **options: Any,
) -> list[EvaluationResults]:
    """Evaluate each retriever; `journal` is a folder, and the report notes mismatched labels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        results = [
            evaluate(
                retriever,
                dataset,
                metrics,
                name=name,
                show_progress=show_progress,
                journal=None if journal is None else _journal_of(journal, name),
                run=(runs or {}).get(name, ""),
                **options,
            )
            for name, retriever in retrievers.items()
        ]
    if show_progress:
        typer.echo(err=True)
    return results


def show_all(
    results: Sequence[EvaluationResults], *, worst: int, slice_by: Sequence[str], html: Path | None
) -> None:
    """Print each retriever against the first, after it was written to the files asked for."""
    found_scores([result.scores for result in results])
    systems = {result.run.name: result for result in results}
    if html is not None:
        write_page(report_of(systems, slice_by=slice_by), html)
    print_report(report_of(systems, worst=worst, slice_by=slice_by))


def write_runs(path: Path | None, results: Sequence[EvaluationResults]) -> None:
    """Write what was retrieved, where a path is given; several retrievers get a file each."""
    if path is None:
        return
    for result in results:
        apart = path.with_name(f"{path.stem}.{_file_safe(result.run.name)}{path.suffix}")
        target = path if len(results) == 1 else apart
        write_run(result.run if holds_repeats(target) else _for_exchange(result.run), target)


def _for_exchange(run: Run) -> Run:
    """What a TREC run can hold: no failures, and each id of a ranking once."""
    rankings = {}
    for query_id, ranking in run.items():
        first = {item: place for place, item in reversed([*enumerate(ranking.ids)])}
        places = sorted(first.values())
        scores = ranking.scores and [ranking.scores[place] for place in places]
        rankings[query_id] = Ranking([ranking.ids[place] for place in places], scores)
    return Run(rankings, name=run.name)


def print_dataset(dataset: RetrievalDataset) -> None:
    """Print what a dataset holds, and what to check before trusting its scores."""
    passages = counted(len(dataset.corpus), "passage", "passages")
    print_heading(dataset.name, f"{questions(len(dataset.queries))} · {passages}", dataset.check())
