"""`rag-metrics evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import check_files, exit_codes, exit_for_results
from llama_index_rag_metrics.files.lines import OnError
from llama_index_rag_metrics.runtime.amounts import WORKERS


def run_evaluate(
    dataset: Annotated[
        Path,
        typer.Option(
            "--dataset", "-d", help="A BEIR folder, or a file that RetrievalDataset.load reads."
        ),
    ],
    retriever: Annotated[
        list[str],
        typer.Option(
            "--retriever",
            "-r",
            metavar="RETRIEVER",
            help="bm25, lsa, or package.module:factory; the factory may take dataset, nodes and "
            "similarity_top_k. Repeat the option to compare several.",
        ),
    ],
    split: options.Split = None,
    metric: options.Metrics = None,
    top_k: options.TopK = None,
    match_on: options.MatchOn = "node_id",
    workers: options.Workers = WORKERS,
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal",
            file_okay=False,
            help="A folder that keeps finished queries. A second call continues from there, "
            "to the same depth unless --top-k is given.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", help="Seconds that retrieval, or a metric, may take per query."),
    ] = None,
    max_failures: Annotated[
        float | None,
        typer.Option(
            "--max-failures",
            min=0,
            help="Stop after this many failed queries, or this share of them (below 1).",
        ),
    ] = None,
    worst: options.Worst = 5,
    slice_by: Annotated[
        list[str] | None,
        typer.Option(
            "--slice", metavar="KEY", help="A metadata key of the queries to split by. Repeatable."
        ),
    ] = None,
    matcher: options.Matcher = None,
    tokenizer: options.Tokenizer = None,
    forbidden: Annotated[
        str | None,
        typer.Option(
            "--forbidden",
            help="For leak, leaked and permitted_recall: a metadata key. A node is forbidden "
            "unless one of its values is one of the question's.",
            show_default="the dataset's forbidden_ids",
        ),
    ] = None,
    price_per_million: Annotated[
        float | None,
        typer.Option(
            "--price-per-million",
            min=0,
            help="The price of a million input tokens of your model: shows tokens and price.",
        ),
    ] = None,
    ignore_identical_ids: options.IgnoreIdenticalIds = False,
    on_error: Annotated[
        OnError,
        typer.Option(
            "--on-error",
            help="Stop at a line of the dataset that can't be read or that judges an unknown "
            "question (raise), or skip it.",
        ),
    ] = "raise",
    output: Annotated[
        Path | None,
        options.output(
            "Write what was retrieved: a TREC run, or the format of the ending .jsonl, .json, "
            ".csv, .tsv, .parquet or .arrow. Several retrievers get a file each: RUN.NAME.trec."
        ),
    ] = None,
    json: options.Json = None,
    html: options.Html = None,
    progress: options.Progress = True,
) -> None:
    """Evaluate one or several retrievers on a dataset, side by side."""
    kept = "nothing was kept; --journal DIR keeps finished queries"
    if journal is not None:
        kept = f"finished queries are kept in {journal}; the same command continues from there"
    with exit_codes(kept, run_evaluate, journal):
        from llama_index_rag_metrics.cli import several_retrievers as several
        from llama_index_rag_metrics.cli.opening import open_retrievers
        from llama_index_rag_metrics.cli.retriever_factories import tokenizer_named
        from llama_index_rag_metrics.rankings.matching import as_matcher

        check_files({"--json": json, "--html": html, "--output": output})
        as_matcher(matcher)
        counted_by = tokenizer_named(tokenizer)
        metrics = several.chosen_metrics(metric)
        opened = open_retrievers(
            retriever,
            dataset,
            metrics,
            top_k=top_k,
            journal=journal,
            split=split,
            on_error=on_error,
            slice_by=slice_by or (),
        )
        several.print_dataset(opened.dataset)
        results = several.evaluate_all(
            opened.retrievers,
            opened.dataset,
            metrics,
            workers=workers,
            show_progress=progress,
            match_on=match_on,
            matcher=matcher,
            tokenizer=counted_by,
            forbidden=forbidden,
            price_per_million=price_per_million,
            ignore_identical_ids=ignore_identical_ids,
            journal=journal,
            timeout=timeout,
            max_failures=max_failures,
            retriever_ids=opened.identities,
        )
        several.write_runs(output, results)
        several.show_all(results, worst=worst, slice_by=slice_by or (), json=json, html=html)
    exit_for_results(results, metrics)
