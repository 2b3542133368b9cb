"""`rag-metrics score`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import check_files, exit_codes, exit_for

if TYPE_CHECKING:
    from llama_index_rag_metrics.scores.trec_eval import Version


Output: TypeAlias = Literal["table", "trec", "trec10", "json", "csv"]
_TREC_EVALS: Mapping[Output, Version] = {"trec": 9, "trec10": 10}
"""The version of trec_eval that a format follows."""


def run_score(
    runs: Annotated[
        list[Path],
        options.argument(
            "RUN",
            "Stored rankings: a TREC run, JSONL, CSV, TSV, JSON {query: {document: score}}, "
            "Parquet or Arrow, or a folder of these two; traces as OTLP/JSON; .gz works, too. "
            "Several are compared.",
        ),
    ],
    qrels: Annotated[
        Path | None,
        typer.Option(
            "--qrels",
            help="What is relevant: TREC or BEIR qrels, JSONL, CSV, JSON, Parquet or Arrow.",
            show_default="the expected_ids beside the rankings of each RUN",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="METRIC",
            help="A metric, such as ndcg@10. Repeat the option, or use commas. `rag-metrics "
            "metrics` lists all. --format trec or trec10 takes trec_eval's names: map, P.5,10, "
            "ndcg_cut.10, official, all_trec.",
        ),
    ] = None,
    output_format: Annotated[
        Output,
        typer.Option(
            "--format",
            help="table; trec: the lines and averages of trec_eval 9; trec10: those of version 10; "
            "json; csv.",
        ),
    ] = "table",
    per_query: Annotated[
        bool, typer.Option("--per-query", "-q", help="Show every query's scores, too.")
    ] = False,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete",
            "-c",
            help="With --format trec or trec10: average over all judged queries, not only over "
            "those in RUN. The other formats always do.",
        ),
    ] = False,
    min_grade: Annotated[
        float | None,
        typer.Option(
            "--min-grade",
            "-l",
            help="The grade from which a document is relevant.",
            show_default="1",
        ),
    ] = None,
    max_retrieved: Annotated[
        int | None,
        options.count("--max-retrieved", "-M", help="How many of each ranking count, best first."),
    ] = None,
    judged_only: Annotated[
        bool,
        typer.Option(
            "--judged-only",
            "-J",
            help="Only documents with a judgement count, and the ranks close up.",
        ),
    ] = False,
    tokenizer: options.Tokenizer = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            "--corpus",
            help="The texts of the documents, a file like BEIR's corpus.jsonl: for span metrics in "
            "tokens.",
        ),
    ] = None,
    ignore_identical_ids: options.IgnoreIdenticalIds = False,
    no_summary: Annotated[
        bool,
        typer.Option(
            "--no-summary", "-n", help="With --format trec or trec10 and -q: print no averages."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        options.output("Write every query's scores, unrounded: a .parquet, .csv or .json file."),
    ] = None,
    on_error: options.SkipLines = "raise",
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            metavar="FIELD=COLUMN",
            help="How RUN names its columns, as FIELD=COLUMN: retrieved_ids=doc_ids. Repeat the "
            "option, or use commas.",
        ),
    ] = None,
    question_id: options.QuestionId = None,
    questions: Annotated[
        Path | None,
        typer.Option(
            "--questions",
            help="If RUN is a file of traces: a dataset, to find the traces' questions by their "
            "text. With --matcher: the dataset that has the labels' texts.",
        ),
    ] = None,
    match_on: options.TracesMatchOn = "node_id",
    matcher: options.RunMatcher = None,
    html: options.Html = None,
) -> None:
    """Score stored rankings, one or several side by side."""
    with exit_codes("nothing was written", run_score):
        from llama_index_rag_metrics.cli import run_files
        from llama_index_rag_metrics.cli.retriever_factories import tokenizer_named
        from llama_index_rag_metrics.cli.score_formats import TrecLines, print_scores
        from llama_index_rag_metrics.cli.several_retrievers import chosen_metrics
        from llama_index_rag_metrics.evaluation.results.results_report import write_html
        from llama_index_rag_metrics.files.beir import read_corpus
        from llama_index_rag_metrics.files.dataset_content import DatasetContent
        from llama_index_rag_metrics.rankings.judging import Selection
        from llama_index_rag_metrics.runtime.errors import InvalidInput
        from llama_index_rag_metrics.scores.scores_export import ENDINGS, write_scores
        from llama_index_rag_metrics.scores.trec_eval import at_level

        check_files({"--output": output, "--html": html}, [*runs, qrels])
        if output is not None and output.suffix.lower() not in ENDINGS:
            expected = f"a file that ends in {' or '.join(ENDINGS)}"
            raise InvalidInput("--output", str(output), expected)
        version = _TREC_EVALS.get(output_format)
        if no_summary and not (version and per_query):
            expected = "--format trec or trec10 together with --per-query"
            raise InvalidInput("--no-summary", True, expected)
        trec = None
        if version is not None:
            trec = TrecLines(metric, version, min_grade, per_query, complete, not no_summary)
        metrics = chosen_metrics(metric) if trec is None else trec.metrics
        at_level(metrics, min_grade)
        request = run_files.ScoreRequest(
            metrics,
            no_relevant="exclude" if trec is None else "zero",
            on_error=on_error,
            selection=Selection(max_retrieved, judged_only),
            columns=run_files.read_columns(columns or ()),
            ignore_identical_ids=ignore_identical_ids,
            asked=run_files.TraceQuestions.of(question_id, questions, on_error, match_on, matcher),
            tokenizer=tokenizer_named(tokenizer),
            documents=None if corpus is None else read_corpus(corpus, DatasetContent()).corpus,
        )
        systems = run_files.score_all(runs, qrels, request)
        lines = [] if trec is None else trec.lines(systems)
        systems = run_files.name_apart(systems, runs)
        if output is not None:
            write_scores(output, systems)
        if html is not None:
            write_html(systems, html)
        if trec is not None:
            trec.print(lines)
        else:
            print_scores(systems, output_format, per_query=per_query)
    exit_for(systems)
