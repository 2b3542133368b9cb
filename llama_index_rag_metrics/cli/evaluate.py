"""`rag-metrics evaluate` and `demo`: retrievers on a dataset, side by side."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning
from llama_index_rag_metrics.runtime.sync import WORKERS

from . import options
from .commands import STDOUT, app, chosen_metrics, command, fail_if, show_report, unbroken_pipe
from .factories import BUILT_IN, retriever_of

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

    from llama_index_rag_metrics import EvaluationResults, RetrievalDataset, Scores
    from llama_index_rag_metrics.report.model import Report

_ABOUT_DEMO = (
    "bm25 matches words. lsa is a vector index in memory; its embedding (latent semantic analysis) "
    "is fitted on these passages, a stand-in for a neural one that needs no download. The "
    "questions were written so that the two differ. This illustrates a comparison; it doesn't show "
    "that one kind of retriever is better."
)
_AFTER_DEMO = """
Every question on a page:         rag-metrics demo --html report.html
Your own questions and retriever: rag-metrics init index"""
WORST = 3  # questions whose stories the terminal tells


@command(app, "demo", "rag-metrics demo --html report.html", failed="questions failed")
def run_demo(
    metric: options.Metrics = None, html: options.Html = None, json: options.Json = None
) -> None:
    """Compare two retrievers on a small collection, offline.

    One matches keywords, the other is a vector index.
    """
    from llama_index_rag_metrics.demo.collection import load_collection
    from llama_index_rag_metrics.evaluation.as_ask import retrieval_depth
    from llama_index_rag_metrics.report.terminal import print_text

    metrics, dataset = chosen_metrics(metric), load_collection()
    depth = retrieval_depth(metrics)
    retrievers = {name: retriever_of(name, dataset, depth) for name in BUILT_IN}
    if json != STDOUT:
        with unbroken_pipe():
            _print_dataset(dataset)
            print_text(_ABOUT_DEMO)
    results = _evaluate_all(retrievers, dataset, metrics)
    _show(results, ["type", "language"], html, json)
    if json != STDOUT:
        with unbroken_pipe():
            print_text(_AFTER_DEMO)
    fail_if(any(result.scores.failed for result in results))


@command(
    app,
    "evaluate",
    "rag-metrics evaluate -d eval/dataset.jsonl -r my_package:build -m ndcg@10",
    failed="questions failed, or a metric has no value for some of them",
)
def run_evaluate(
    dataset: options.Dataset,
    retriever: options.Retrievers,
    columns: options.Columns = None,
    match_on: options.MatchOn = "node_id",
    matcher: options.Matcher = None,
    metric: options.Metrics = None,
    top_k: options.TopK = None,
    min_score: options.MinScore = None,
    slice_by: options.Slices = None,
    workers: options.Workers = WORKERS,
    timeout: options.Timeout = None,
    repeats: options.Repeats = 1,
    journal: options.Journal = None,
    progress: options.Progress = True,
    output: options.RunOutput = None,
    html: options.Html = None,
    json: options.Json = None,
) -> None:
    """Evaluate one or several retrievers on a dataset, side by side."""
    from llama_index_rag_metrics import RetrievalDataset
    from llama_index_rag_metrics.evaluation.as_ask import as_source, retrieval_depth
    from llama_index_rag_metrics.files.write_runs import holds_repeats
    from llama_index_rag_metrics.scores.counts import unknown_key

    if output is not None and not holds_repeats(output):
        raise InvalidInput("--output", str(output), "a file that ends in .jsonl or .parquet")
    metrics, slices = chosen_metrics(metric), slice_by or []
    questions = RetrievalDataset.load(dataset, columns=options.columns_of(columns))
    for key in slices:
        if not any(key in row for row in questions.metadata.values()):
            raise unknown_key("--slice", key, questions.metadata)
    depth = top_k or retrieval_depth(metrics)
    specs = dict.fromkeys(retriever)
    names = named_apart([spec.rpartition(":")[2] for spec in specs], list(specs))
    retrievers, journals = {}, {}
    for name, spec in zip(names, specs, strict=True):
        retrievers[name] = as_source(retriever_of(spec, questions, depth), depth)
        if journal is not None:
            run = f"{spec}, top {depth}"
            journals[name] = {"journal": journal / f"{_file_name(name)}.jsonl", "run": run}
    if json != STDOUT:
        with unbroken_pipe():
            _print_dataset(questions)
    results = _evaluate_all(
        retrievers,
        questions,
        metrics,
        journals,
        match_on=match_on,
        matcher=matcher,
        min_score=min_score,
        workers=workers,
        timeout=timeout,
        repeats=repeats,
        show_progress=progress,
    )
    if output is not None:
        _write_runs(results, output)
    _show(results, slices, html, json)
    fail_if(any(result.scores.failed or _lacks_values(result.scores) for result in results))


def _write_runs(results: Sequence[EvaluationResults], path: Path) -> None:
    from llama_index_rag_metrics import write_run

    for result in results:
        name = path.name
        if len(results) > 1:
            name = f"{path.stem}.{_file_name(result.run.name)}{path.suffix}"
        write_run(result.run, path.with_name(name))


def named_apart(names: Sequence[str], paths: Sequence[object]) -> list[str]:
    """The names, or where two are the same, the paths, if each has one."""
    if len(set(names)) == len(names) or len(paths) != len(names):
        return list(names)
    return list(map(str, paths))


def _evaluate_all(
    retrievers: Mapping[str, Any],
    dataset: RetrievalDataset,
    metrics: Sequence[BaseRetrievalMetric],
    journals: Mapping[str, Mapping[str, Any]] = {},
    **settings: Any,
) -> list[EvaluationResults]:
    """Evaluate each retriever; the report has a note where labels don't fit."""
    from llama_index_rag_metrics import evaluate

    settings = {"show_progress": True, **settings}
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        for name, retriever in retrievers.items():
            arguments = {**settings, **journals.get(name, {})}
            results.append(evaluate(retriever, dataset, metrics, name=name, **arguments))
    if settings["show_progress"]:
        typer.echo(err=True)
    return results


def _show(
    results: Sequence[EvaluationResults], keys: Sequence[str], html: Path | None, json: Path | None
) -> None:
    from llama_index_rag_metrics.report.html import write_page
    from llama_index_rag_metrics.scores.scores import json_of

    systems = {result.run.name: result for result in results}
    report = report_of(systems, worst=WORST, slice_by=keys)
    if html is not None:
        write_page(report, html)
    show_report(report, json_of([result.scores for result in results]), json)


def report_of(
    systems: Mapping[str, EvaluationResults | Scores], worst: int = 0, slice_by: Sequence[str] = ()
) -> Report:
    from dataclasses import replace

    from llama_index_rag_metrics.decisions.comparison.comparison import compare
    from llama_index_rag_metrics.evaluation.evaluation_results import results_report

    report = results_report(systems, worst=worst, slice_by=slice_by)
    if len(systems) == 1:
        return report
    compared = compare(systems, next(iter(systems))).report()
    titles = {table.title for table in compared.tables}
    slices = [table for table in report.tables if table.is_detail and table.title not in titles]
    return replace(compared, tables=[*compared.tables, *slices])


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)


def _print_dataset(dataset: RetrievalDataset) -> None:
    from llama_index_rag_metrics.report.numbers import counted, questions
    from llama_index_rag_metrics.report.terminal import print_text
    from llama_index_rag_metrics.report.text import one_line

    passages = counted(len(dataset.corpus), "passage", "passages")
    size = f"{questions(len(dataset.queries))} · {passages}"
    print_text(f"{one_line(dataset.name)}  {size}", *dataset.check())


def _lacks_values(scores: Scores) -> bool:
    """Whether nothing was measured, or a metric has no value for a question that it should have."""
    for name in scores:
        if scores.due(name) - scores.by_query(name).keys() - set(scores.empty):
            return True
    return not any(map(scores.n, scores))
