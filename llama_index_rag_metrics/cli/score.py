"""`rag-metrics score`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import check_writable, exit_codes, exit_for, say


class Output(str, Enum):
    """How scores are printed."""

    TABLE = "table"
    TREC = "trec"
    TREC10 = "trec10"
    JSON = "json"
    CSV = "csv"


def run_score(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Stored rankings: a TREC run, JSONL, CSV, TSV, JSON {query: {document: score}}, "
            "Parquet or Arrow, or a folder of these two; traces as OTLP/JSON; .gz works, too. "
            "Several are compared.",
            show_default=False,
        ),
    ],
    qrels: Annotated[
        Path | None,
        typer.Option(
            "--qrels",
            help="What is relevant: TREC or BEIR qrels, JSONL, CSV, JSON, Parquet or Arrow. "
            "[default: the expected_ids beside the rankings of each RUN]",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
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
    ] = Output.TABLE,
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
            "--min-grade", "-l", help="The grade from which a document is relevant. [default: 1]"
        ),
    ] = None,
    max_retrieved: Annotated[
        int | None,
        typer.Option(
            "--max-retrieved",
            "-M",
            min=1,
            help="How many of each ranking count, best first.",
        ),
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
    ignore_identical_ids: Annotated[
        bool,
        typer.Option(
            "--ignore-identical-ids", help="Leave out documents whose id is the query's own."
        ),
    ] = False,
    no_summary: Annotated[
        bool,
        typer.Option(
            "--no-summary", "-n", help="With --format trec or trec10 and -q: print no averages."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            dir_okay=False,
            help="Write every query's scores, unrounded: a .parquet, .csv or .json file.",
        ),
    ] = None,
    on_error: Annotated[
        options.OnError,
        typer.Option("--on-error", help="Stop at a line that can't be read (raise), or skip it."),
    ] = options.OnError.RAISE,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            help="How RUN names its columns, as FIELD=COLUMN: retrieved_ids=doc_ids. Repeat the "
            "option, or use commas.",
        ),
    ] = None,
    question_id: options.QuestionId = None,
    questions: options.Questions = None,
    html: options.Html = None,
) -> None:
    """Score stored rankings, one or several side by side; no retriever is needed.

    Exit code 1 means that a RUN has failed queries, 2 that the command can't run as written.
    """
    with exit_codes("nothing was written"):
        from llama_index_rag_metrics.cli.run_files import (
            Asked,
            Counting,
            check_output,
            name_apart,
            read_columns,
            read_documents,
            score_all,
        )
        from llama_index_rag_metrics.cli.several_retrievers import chosen_metrics
        from llama_index_rag_metrics.cli.tokenizers import tokenizer_named
        from llama_index_rag_metrics.errors import InvalidInput
        from llama_index_rag_metrics.evaluation.results_report import print_results, write_html
        from llama_index_rag_metrics.judging import Selection
        from llama_index_rag_metrics.report.delimited import to_csv
        from llama_index_rag_metrics.scores import export
        from llama_index_rag_metrics.trec_eval import (
            LEFT_OUT,
            Version,
            at_level,
            leaves_out,
            metrics_of,
            report_lines,
        )
        from llama_index_rag_metrics.trec_eval import columns as measures_of

        check_writable("--output", output)
        check_writable("--html", html)
        check_output(output, [*runs, qrels])
        is_trec = output_format in (Output.TREC, Output.TREC10)
        version: Version = 10 if output_format is Output.TREC10 else 9
        if no_summary and not (is_trec and per_query):
            expected = "--format trec or trec10 together with --per-query"
            raise InvalidInput("--no-summary", True, expected)
        names = metric or ["official"]
        measures = measures_of(names, min_grade, version=version) if is_trec else []
        metrics = metrics_of(measures) if is_trec else chosen_metrics(metric)
        at_level(metrics, min_grade)
        counting = Counting(tokenizer_named(tokenizer), read_documents(corpus))
        systems = score_all(
            runs,
            qrels,
            metrics,
            no_relevant="zero" if is_trec else "exclude",
            on_error=on_error.value,
            columns=read_columns(columns or ()),
            selection=Selection(max_retrieved, judged_only),
            ignore_identical_ids=ignore_identical_ids,
            asked=Asked.of(question_id, questions, on_error.value),
            counting=counting,
        )
        lines = [
            line
            for scores in systems
            for line in report_lines(
                scores,
                measures,
                per_query=per_query,
                complete=complete,
                summary=not no_summary,
                version=version,
            )
        ]
        systems = name_apart(systems, runs)
        if output is not None:
            export.write_scores(output, systems)
        if html is not None:
            write_html(systems, html)
        if is_trec:
            typer.echo("\n".join(lines))
            if leaves_out(names):
                say(f"trec_eval's all_trec also has {', '.join(LEFT_OUT)}; these aren't computed")
        elif output_format is Output.JSON:
            typer.echo(export.to_json(systems))
        elif output_format is Output.CSV:
            records = export.per_query(systems) if per_query else export.means(systems)
            typer.echo(to_csv(records), nl=False)
        else:
            print_results(systems, worst=0, per_query=per_query)
    exit_for(systems)
