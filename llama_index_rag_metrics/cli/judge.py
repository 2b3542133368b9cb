"""`rag-metrics judge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import FAILED_QUERIES, check_writable, exit_codes, say


def run_judge(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Traces as OTLP/JSON, or a stored run with texts; or one without, if --questions "
            "has the documents.",
            show_default=False,
        ),
    ],
    llm: Annotated[
        str,
        typer.Option(
            "--llm", help="package.module:factory, which makes an LLM of LlamaIndex, or the LLM."
        ),
    ],
    questions: Annotated[
        Path | None,
        typer.Option(
            "--questions",
            help="A dataset with the questions, and with the documents where RUN has no texts. "
            "[default: the questions in the traces]",
        ),
    ] = None,
    question_id: options.QuestionId = None,
    metric: options.Metrics = None,
    depth: Annotated[
        int, typer.Option("--depth", min=1, help="How many of each ranking are judged, best first.")
    ] = 10,
    min_grade: Annotated[
        float | None,
        typer.Option("--min-grade", help="The grade, 0 to 3, that is relevant. [default: 1]"),
    ] = None,
    qrels: Annotated[
        Path | None,
        typer.Option(
            "--qrels",
            dir_okay=False,
            help="Write the grades: TREC qrels, or the format of the ending .jsonl, .json, .csv, "
            ".tsv, .parquet or .arrow.",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache", dir_okay=False, help="A file that keeps grades, so none is paid for twice."
        ),
    ] = None,
    workers: options.Workers = 8,
    worst: options.Worst = 5,
    on_error: options.SkipLines = options.OnError.RAISE,
    json: options.Json = None,
    html: options.Html = None,
) -> None:
    """Score what was retrieved without labels: an LLM grades each passage from 0 to 3.

    Only the retrieved passages are graded, so recall is among them. Exit code 1 means that queries
    failed or couldn't be graded, 2 that the command can't run as written.
    """
    kept = f"grades are kept in {cache}" if cache else "--cache FILE keeps grades"
    with exit_codes(kept):
        from llama_index_rag_metrics.cli.judge_run import judged, llm_of
        from llama_index_rag_metrics.cli.run_files import Asked, read_stored
        from llama_index_rag_metrics.cli.several_retrievers import chosen_metrics
        from llama_index_rag_metrics.evaluation.results_report import print_results, write_html
        from llama_index_rag_metrics.formats.runs import write_qrels
        from llama_index_rag_metrics.scores.export import to_json
        from llama_index_rag_metrics.scoring import score_rankings
        from llama_index_rag_metrics.trec_eval import at_level
        from llama_index_rag_metrics.writing import write_text

        for option, path in {"--qrels": qrels, "--json": json, "--html": html}.items():
            check_writable(option, path)
        metrics = chosen_metrics(metric)
        at_level(metrics, min_grade)
        asked = Asked.of(question_id, questions, on_error.value)
        stored = read_stored(run, on_error.value, {}, asked)
        dataset = None if asked is None else asked.questions
        grades, ungraded = judged(
            stored, llm_of(llm), dataset, depth=depth, cache=cache, workers=workers
        )
        if qrels is not None:
            write_qrels(grades, qrels)
        scores = score_rankings(grades, stored.select(grades), metrics, max_retrieved=depth)
        if json is not None:
            write_text(json, to_json([scores]))
        if html is not None:
            write_html(scores, html)
        print_results(scores, worst=worst)
        for one in ungraded:
            say(one)
    if ungraded or scores.failed:
        raise typer.Exit(FAILED_QUERIES)
