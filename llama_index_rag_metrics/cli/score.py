"""`rag-metrics score`, and `metrics`, which lists the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import typer

from llama_index_rag_metrics.cli import outcome
from llama_index_rag_metrics.cli.commands import (
    Count,
    NewFile,
    app,
    check_files,
    chosen_metrics,
    command,
    fail_if,
    say_of_threshold,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index_rag_metrics.scores import Scores

Output: TypeAlias = Literal["table", "json", "csv"]


@command(app, "score", failed="a RUN has failed questions", needs_llama_index=False)
def run_score(
    runs: list[Path],
    *,
    qrels: Path | None = None,
    metric: list[str] | None = None,
    output_format: Output = "table",
    max_retrieved: Count[int | None] = None,
    judged_only: bool = False,
    min_score: float | None = None,
    tokenizer: str | None = None,
    output: NewFile[Path | None] = None,
    question_id: str | None = None,
    questions: Path | None = None,
    html: NewFile[Path | None] = None,
) -> None:
    """Score stored rankings, one or several side by side.

    Args:
        runs (RUN): Stored rankings: a TREC run, JSONL, CSV, TSV, JSON {query: {document: score}},
            Parquet or Arrow; traces as OTLP/JSON; .gz works, too.
            Several are compared.
        qrels: What is relevant: TREC or BEIR qrels, JSONL, CSV, JSON, Parquet or Arrow. Default:
            the expected_ids beside the rankings of each RUN.
        metric (-m, METRIC): A metric, such as ndcg@10. Repeat the option, or use commas.
            `rag-metrics metrics` lists all.
        output_format (--format): table, json or csv.
        max_retrieved (-M): How many of each ranking count, best first.
        judged_only (-J): Only labelled passages count, and the ranks close up.
        output (-o): Write every question's scores, unrounded: a .parquet, .csv or .json file.
        questions (DATASET): A dataset with the questions' metadata, for rules over slices, and the
            labels, unless --qrels has them. If RUN is a file of traces, it also finds their
            questions by their text.

    Groups:
        Judgements: qrels, questions, question_id
        Metrics: metric, min_score, max_retrieved, judged_only, tokenizer
        Output: output_format, html, output, json

    Examples:
        rag-metrics score before.run after.run --qrels qrels.txt -m ndcg@10
        rag-metrics score bm25.run --qrels qrels.txt --format json
    """
    from llama_index_rag_metrics.cli import run_files
    from llama_index_rag_metrics.cli.retriever_factories import tokenizer_named
    from llama_index_rag_metrics.cli.systems_report import report_of
    from llama_index_rag_metrics.rankings.judging.judged import Selection
    from llama_index_rag_metrics.report.html import write_page
    from llama_index_rag_metrics.scores import scores_export

    check_files({"--output": output, "--html": html}, [*runs, qrels])
    if output is not None and output.suffix.lower() not in scores_export.ENDINGS:
        expected = f"a file that ends in {' or '.join(scores_export.ENDINGS)}"
        raise InvalidInput("--output", str(output), expected)
    request = run_files.ScoreRequest(
        chosen_metrics(metric),
        selection=Selection(max_retrieved, judged_only, min_score),
        asked=run_files.TraceQuestions.of(question_id, questions),
        tokenizer=tokenizer_named(tokenizer),
    )
    say_of_threshold(min_score, len(runs), "runs")
    systems = run_files.score_all(runs, qrels, request)
    names = run_files.named_apart([scores.name for scores in systems], runs)
    named = [scores.replace(name=name) for scores, name in zip(systems, names, strict=True)]
    if output is not None:
        scores_export.write_scores(output, named)
    apart = {scores.name: scores for scores in named}
    if html is not None:
        write_page(report_of(apart), html)
    _print(apart, output_format)
    outcome.found_scores(named)
    fail_if(any(scores.failed for scores in systems))


def _print(systems: Mapping[str, Scores], output_format: Output) -> None:
    from llama_index_rag_metrics.cli.systems_report import report_of
    from llama_index_rag_metrics.report.reportable import csv_text
    from llama_index_rag_metrics.report.terminal import print_report
    from llama_index_rag_metrics.scores import scores_export

    several = [*systems.values()]
    if output_format == "json":
        typer.echo(scores_export.to_json(several))
    elif output_format == "csv":
        typer.echo(csv_text(scores_export.means(several)), nl=False)
    else:
        print_report(report_of(systems))


@command(app, "metrics", needs_llama_index=False)
def run_metrics(name: str | None = None) -> None:
    """List every metric: its names, range, definition and parameters.

    Args:
        name: A metric, by any of its names: prints all about it.

    Examples:
        rag-metrics metrics ndcg
    """
    from llama_index_rag_metrics.cli.metric_listing import print_entry, print_table, record
    from llama_index_rag_metrics.metrics.metric_names import ALIASES, METRICS, metric

    known = None if name is None else ALIASES.get(name, name)
    if known is not None and known not in METRICS:
        known = metric(known).name
    chosen = METRICS.values() if known is None else [METRICS[known]]
    outcome.found(lambda: [record(entry) for entry in chosen])
    if known is None:
        print_table(METRICS.values())
        return
    print_entry(METRICS[known])
