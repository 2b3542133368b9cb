"""`rag-metrics evaluate` and `demo`: retrievers on a dataset, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from llama_index_rag_metrics.cli.commands import (
    Count,
    Natural,
    NewFile,
    app,
    check_files,
    chosen_metrics,
    command,
    fail_if,
    interrupted,
    say,
    say_of_threshold,
)
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

    from llama_index_rag_metrics import EvaluationResults

_ABOUT_DEMO = (
    "bm25 matches words. lsa is a vector index in memory; its embedding (latent semantic analysis) "
    "is fitted on these passages, a stand-in for a neural one that needs no download. The "
    "questions were written so that the two differ. This illustrates a comparison; it doesn't show "
    "that one kind of retriever is better."
)
_AFTER_DEMO = """
Every question on a page:         rag-metrics demo --html report.html
Your own questions and retriever: rag-metrics init index"""


@command(app, "demo", failed="questions failed")
def run_demo(
    *,
    metric: list[str] | None = None,
    top_k: Count[int | None] = None,
    workers: Count[int] = WORKERS,
    worst: Natural[int] = 3,
    html: NewFile[Path | None] = None,
    progress: bool = True,
) -> None:
    """Compare two retrievers on a small collection, offline.

    One matches keywords, the other is a vector index.

    Examples:
        rag-metrics demo --html report.html
    """
    from llama_index_rag_metrics.cli import retriever_results as several
    from llama_index_rag_metrics.demo.collection import load_collection
    from llama_index_rag_metrics.demo.retrievers import bm25, lsa
    from llama_index_rag_metrics.report.terminal import print_text

    check_files({"--html": html})
    metrics = chosen_metrics(metric)
    k = several.depth(metrics, top_k)
    dataset = load_collection()
    several.print_dataset(dataset)
    print_text(_ABOUT_DEMO)
    nodes = dataset.to_nodes()
    retrievers = {"bm25": bm25(nodes, k), "lsa": lsa(nodes, k)}
    results = several.evaluate_all(
        retrievers, dataset, metrics, workers=workers, show_progress=progress
    )
    several.show_all(results, worst=worst, slice_by=["type", "language"], html=html)
    print_text(_AFTER_DEMO)
    fail_if(any(result.scores.failed for result in results))


@command(app, "evaluate", failed="questions failed, or a metric has no value for some of them")
def run_evaluate(
    *,
    dataset: Path,
    retriever: list[str] | None = None,
    metric: list[str] | None = None,
    top_k: Count[int | None] = None,
    match_on: str = "node_id",
    repeats: Count[int] = 1,
    workers: Count[int] = WORKERS,
    journal: Annotated[Path | None, {"file_okay": False}] = None,
    timeout: float | None = None,
    worst: Natural[int] = 5,
    slice_by: list[str] | None = None,
    matcher: str | None = None,
    tokenizer: str | None = None,
    min_score: float | None = None,
    output: NewFile[Path | None] = None,
    html: NewFile[Path | None] = None,
    progress: bool = True,
) -> None:
    """Evaluate one or several retrievers on a dataset, side by side.

    Args:
        dataset (-d, DATASET): A BEIR folder, or a file that RetrievalDataset.load reads.
        retriever (-r, RETRIEVER): bm25, lsa, or package.module:factory; the factory may take
            dataset, nodes and similarity_top_k. Repeat the option to compare several.
        repeats: How many times to ask every question, of agents and others that answer differently
            each time. A question's score is the mean of its runs.
        journal: A folder that keeps finished questions. A second call continues from there; for
            metrics of other cutoffs give it the depth of the first call, by --top-k.
        timeout: Seconds that retrieval, or a metric, may take per question.
        slice_by (--slice, KEY): A metadata key of the questions to split by. Repeatable.
        matcher: Recognise labelled passages by this instead of ids: text, or span, their place in
            a document.
        output (-o): Write what was retrieved: a TREC run, or the format of the ending .jsonl,
            .json, .csv, .tsv, .parquet or .arrow. Several retrievers get a file each:
            RUN.NAME.trec.

    Groups:
        What to ask, and whom: dataset, retriever, top_k
        Metrics: metric, slice_by, min_score, tokenizer
        Recognising labelled passages: match_on, matcher
        Running: repeats, workers, timeout, journal, progress
        Output: worst, html, json, output

    Examples:
        rag-metrics evaluate -d eval/dataset.jsonl -r my_package:build -m ndcg@10
        rag-metrics evaluate -d eval/beir -r bm25 -r mine:build --html report.html
    """
    from llama_index_rag_metrics.cli import retriever_results as several
    from llama_index_rag_metrics.cli.retriever_factories import tokenizer_named
    from llama_index_rag_metrics.files.runs.write_runs import holds_repeats
    from llama_index_rag_metrics.rankings.matching.matched import as_matcher

    kept = "nothing was kept; --journal FOLDER keeps finished questions"
    if journal is not None:
        kept = f"finished questions are kept in {journal}; the same command continues from there"
    with interrupted(kept, journal):
        check_files({"--html": html, "--output": output})
        as_matcher(matcher)
        if repeats > 1 and output is not None and not holds_repeats(output):
            expected = "a file that ends in .jsonl or .parquet for --repeats"
            raise InvalidInput("--output", str(output), expected)
        tokens_of = tokenizer_named(tokenizer)
        metrics = chosen_metrics(metric)
        slices = slice_by or []
        if not retriever:
            raise InvalidInput("--retriever", "none", "at least one retriever")
        questions, retrievers, runs = several.open_retrievers(
            retriever, dataset, metrics, top_k, slices
        )
        say_of_threshold(min_score, len(retrievers), "retrievers")
        several.print_dataset(questions)
        results = several.evaluate_all(
            retrievers,
            questions,
            metrics,
            journal=journal,
            runs=runs,
            repeats=repeats,
            workers=workers,
            show_progress=progress,
            match_on=match_on,
            matcher=matcher,
            tokenizer=tokens_of,
            min_score=min_score,
            timeout=timeout,
        )
        several.write_runs(output, results)
        several.show_all(results, worst=worst, slice_by=slices, html=html)
    fail_if(_lacks_values(results, metrics) or any(result.scores.failed for result in results))


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
            if missing := len(due - scores.by_query(name).keys()):
                say(f"{scores.name}: {name} has no value for {missing:,} of {len(due):,} questions")
                is_lacking = True
    return is_lacking
