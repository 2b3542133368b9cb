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

from . import options as o
from .commands import (
    app,
    chosen_metrics,
    command,
    fail_if,
    interrupted,
    say,
    say_of_threshold,
    show_report,
    unbroken_pipe,
)

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

    from llama_index_rag_metrics import EvaluationResults, RetrievalDataset, Scores
    from llama_index_rag_metrics.rankings.run import Run
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
_WORST = 3  # questions whose stories the terminal tells


@command(app, "demo", "rag-metrics demo --html report.html", failed="questions failed")
def run_demo(metric: o.Metrics = None, html: o.Html = None, json: o.Json = None) -> None:
    """Compare two retrievers on a small collection, offline.

    One matches keywords, the other is a vector index.
    """
    from llama_index_rag_metrics.demo.collection import load_collection
    from llama_index_rag_metrics.demo.retrievers import bm25, lsa
    from llama_index_rag_metrics.evaluation.as_ask import retrieval_depth
    from llama_index_rag_metrics.report.terminal import print_text

    metrics = chosen_metrics(metric)
    dataset = load_collection()
    nodes, top_k = dataset.to_nodes(), retrieval_depth(metrics)
    retrievers = {"bm25": bm25(nodes, top_k), "lsa": lsa(nodes, top_k)}
    with unbroken_pipe():
        _print_dataset(dataset)
        print_text(_ABOUT_DEMO)
    results = _evaluate_all(retrievers, dataset, metrics, show_progress=True)
    _show(results, ["type", "language"], html, json)
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
    dataset: o.Dataset,
    retriever: o.Retrievers,
    columns: o.Columns = None,
    match_on: o.MatchOn = "node_id",
    matcher: o.Matcher = None,
    metric: o.Metrics = None,
    top_k: o.TopK = None,
    min_score: o.MinScore = None,
    slice_by: o.Slices = None,
    workers: o.Workers = WORKERS,
    timeout: o.Timeout = None,
    repeats: o.Repeats = 1,
    journal: o.Journal = None,
    progress: o.Progress = True,
    output: o.RunOutput = None,
    html: o.Html = None,
    json: o.Json = None,
) -> None:
    """Evaluate one or several retrievers on a dataset, side by side."""
    from llama_index_rag_metrics.evaluation.as_ask import retrieval_depth
    from llama_index_rag_metrics.files.write_runs import holds_repeats
    from llama_index_rag_metrics.rankings.matching.matched import as_matcher

    state = "nothing was kept; --journal FOLDER keeps finished questions"
    if journal is not None:
        state = f"finished questions are kept in {journal}; the same command continues from there"
    with interrupted(state, journal):
        as_matcher(matcher)
        if repeats > 1 and output is not None and not holds_repeats(output):
            expected = "a file that ends in .jsonl or .parquet for --repeats"
            raise InvalidInput("--output", str(output), expected)
        settings: dict[str, Any] = {
            "match_on": match_on,
            "matcher": matcher,
            "min_score": min_score,
            "workers": workers,
            "timeout": timeout,
            "repeats": repeats,
            "show_progress": progress,
        }
        metrics, slices = chosen_metrics(metric), slice_by or []
        depth = top_k or retrieval_depth(metrics)
        factories = _factories(retriever)
        questions = _questions(dataset, o.columns_of(columns), metrics, slices)
        retrievers = _built(factories, questions, depth)
        runs = {name: f"{spec}, top {depth}" for name, (spec, _) in factories.items()}
        say_of_threshold(min_score, len(retrievers), "retrievers")
        with unbroken_pipe():
            _print_dataset(questions)
        results = _evaluate_all(
            retrievers, questions, metrics, journal=journal, runs=runs, **settings
        )
        _write_runs(output, results)
        _show(results, slices, html, json)
    fail_if(_lacks_values(results, metrics) or any(result.scores.failed for result in results))


def _factories(specs: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """Names for reports to spellings and factories; two of one name go by their paths."""
    from .factories import find_retriever

    short = [spec.rpartition(":")[2] or spec for spec in specs]
    factories: dict[str, tuple[str, Any]] = {}
    for name, spec in zip(short, specs, strict=True):
        if specs.count(spec) > 1:
            raise InvalidInput("--retriever", spec, "each retriever once")
        factories[name if short.count(name) == 1 else spec] = spec, find_retriever(spec)
    return factories


def _questions(
    path: Path,
    columns: Mapping[str, str] | None,
    metrics: Sequence[BaseRetrievalMetric],
    slices: Sequence[str],
) -> RetrievalDataset:
    """The dataset, which has the labels and the metadata that it is asked for."""
    from llama_index_rag_metrics import RetrievalDataset
    from llama_index_rag_metrics.files.fields import EXAMPLE
    from llama_index_rag_metrics.scores.mappings import unknown_key

    dataset = RetrievalDataset.load(path, columns=columns)
    needs_labels = all(getattr(metric, "needs_relevance", True) for metric in metrics)
    labels = [*dataset.relevance.values(), *dataset.expected_texts.values()]
    if needs_labels and not any(labels):
        expected = "labels of at least one question, with a relevant passage"
        remedy = f"A line of JSON that has one: {EXAMPLE}."
        raise InvalidInput("--dataset", str(path), expected, remedy)
    for key in slices:
        if not any(key in row for row in dataset.metadata.values()):
            raise unknown_key("--slice", key, dataset.metadata)
    return dataset


def _built(
    factories: Mapping[str, tuple[str, Any]], dataset: RetrievalDataset, depth: int
) -> dict[str, Any]:
    from llama_index_rag_metrics.evaluation.as_ask import as_source

    from .factories import built

    return {
        name: built("--retriever", spec, factory, dataset, depth, as_source)
        for name, (spec, factory) in factories.items()
    }


def _evaluate_all(
    retrievers: Mapping[str, Any],
    dataset: RetrievalDataset,
    metrics: Sequence[BaseRetrievalMetric],
    *,
    journal: Path | None = None,
    runs: Mapping[str, str] | None = None,
    show_progress: bool,
    **settings: Any,
) -> list[EvaluationResults]:
    """Evaluate each retriever; the report has a note where labels don't fit."""
    from llama_index_rag_metrics import evaluate

    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        for name, retriever in retrievers.items():
            if journal is not None and runs is not None:
                settings["journal"] = journal / f"{_file_name(name)}.jsonl"
                settings["run"] = runs[name]
            results.append(
                evaluate(
                    retriever, dataset, metrics, name=name, show_progress=show_progress, **settings
                )
            )
    if show_progress:
        typer.echo(err=True)
    return results


def _show(
    results: Sequence[EvaluationResults],
    slices: Sequence[str],
    html: Path | None,
    json: Path | None,
) -> None:
    """Print each retriever against the first, after it was written to the files asked for."""
    from llama_index_rag_metrics.report.html import write_page
    from llama_index_rag_metrics.scores import scores_export

    systems = {result.run.name: result for result in results}
    if html is not None:
        write_page(report_of(systems, slice_by=slices), html)
    scores = scores_export.to_json([result.scores for result in results])
    show_report(report_of(systems, worst=_WORST, slice_by=slices), scores, json)


def report_of(
    systems: Mapping[str, EvaluationResults | Scores],
    *,
    worst: int = 0,
    slice_by: Sequence[str] = (),
) -> Report:
    """Return the report of one retriever, or of several compared with the first.

    Raises:
        InvalidInput: several have other questions.
    """
    from dataclasses import replace

    from llama_index_rag_metrics.decisions.comparison.comparison import compare
    from llama_index_rag_metrics.evaluation.evaluation_results import results_report

    report = results_report(systems, worst=worst, slice_by=slice_by)
    if len(systems) == 1:
        return report
    compared = compare(systems, next(iter(systems))).report(full=True)
    titles = {table.title for table in compared.tables}
    slices = [table for table in report.tables if table.is_detail and table.title not in titles]
    return replace(compared, listings=report.listings, tables=[*compared.tables, *slices])


def _write_runs(path: Path | None, results: Sequence[EvaluationResults]) -> None:
    """Write what was retrieved, where a path is given; several retrievers get a file each."""
    from llama_index_rag_metrics import write_run
    from llama_index_rag_metrics.files.write_runs import holds_repeats

    if path is None:
        return
    for result in results:
        target = path
        if len(results) > 1:
            name = _file_name(result.run.name)
            target = path.with_name(f"{path.stem}.{name}{path.suffix}")
        write_run(result.run if holds_repeats(target) else _for_exchange(result.run), target)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)


def _for_exchange(run: Run) -> Run:
    """What a TREC run can hold: no failures, and each id of a ranking once."""
    from llama_index_rag_metrics.rankings.run import Ranking, Run

    rankings = {}
    for query_id, ranking in run.items():
        ids = list(dict.fromkeys(ranking.ids))
        scores = None
        if ranking.scores is not None:
            scores = [ranking.scores[ranking.ids.index(item)] for item in ids]
        rankings[query_id] = Ranking(ids, scores)
    return Run(rankings, name=run.name)


def _print_dataset(dataset: RetrievalDataset) -> None:
    """Print what a dataset holds, and what to check before trusting its scores."""
    from llama_index_rag_metrics.report.numbers import counted, questions
    from llama_index_rag_metrics.report.terminal import print_heading

    passages = counted(len(dataset.corpus), "passage", "passages")
    print_heading(dataset.name, f"{questions(len(dataset.queries))} · {passages}", dataset.check())


def _lacks_values(
    results: Sequence[EvaluationResults], metrics: Sequence[BaseRetrievalMetric]
) -> bool:
    """Whether a metric lacks a value that it should have, which is said."""
    from llama_index_rag_metrics import TextMetric

    is_lacking = False
    for result in results:
        scores = result.scores
        for metric in metrics:
            name = metric.metric_name
            due = scores.due(name)
            if isinstance(metric, TextMetric):
                due = {query_id for query_id, ranking in result.run.items() if ranking.ids}
            missing = len(due - scores.by_query(name).keys())
            if missing:
                say(f"{scores.name}: {name} has no value for {missing:,} of {len(due):,} questions")
                is_lacking = True
    return is_lacking
