"""`rag-metrics judge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import FAILED_QUERIES, check_files, exit_codes, say
from llama_index_rag_metrics.cli.showing import show
from llama_index_rag_metrics.runtime.amounts import WORKERS


def run_judge(
    run: Annotated[
        Path,
        options.argument(
            "RUN",
            "Traces as OTLP/JSON, or a stored run with texts; or one without, if --questions has "
            "the documents.",
        ),
    ],
    llm: Annotated[str, options.LLM],
    questions: Annotated[
        Path | None,
        typer.Option(
            "--questions",
            help="A dataset with the questions, and with the documents where RUN has no texts.",
            show_default="the questions in the traces",
        ),
    ] = None,
    question_id: options.QuestionId = None,
    match_on: options.TracesMatchOn = "node_id",
    matcher: Annotated[
        str | None,
        typer.Option(
            "--matcher",
            help="Passages that this recognises as labelled ones, of --human or else --questions, "
            "go by their ids in the grades: text, exact, tokens, edit or embedding. For traces "
            "without ids.",
        ),
    ] = None,
    metric: options.Metrics = None,
    depth: options.Depth = 10,
    texts_per_call: Annotated[
        int,
        options.count(
            "--texts-per-call",
            max=50,
            help="How many passages of a question are graded in one request.",
        ),
    ] = 1,
    min_grade: Annotated[
        float | None,
        typer.Option(
            "--min-grade",
            max=3,
            help="The grade, 0 to 3, from which a passage is relevant.",
            show_default="1",
        ),
    ] = None,
    qrels: Annotated[
        Path | None,
        options.file(
            "--qrels",
            help="Write the grades: TREC qrels, or the format of the ending .jsonl, .json, .csv, "
            ".tsv, .parquet or .arrow.",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        options.file("--cache", help="A file that keeps grades, so none is paid for twice."),
    ] = None,
    human: Annotated[
        Path | None,
        typer.Option(
            "--human",
            help="People's grades of some passages, as qrels, to see how far the LLM agrees.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Instead of scoring, see how steady the grades are: asked again, at another place "
            "in a request, with others. Takes some 400 requests.",
        ),
    ] = False,
    workers: options.Workers = WORKERS,
    worst: options.Worst = 5,
    on_error: options.SkipLines = "raise",
    json: options.Json = None,
    html: options.Html = None,
) -> None:
    """Score what was retrieved without labels, by an LLM's grades.

    The LLM grades each retrieved passage from 0 to 3. Only these are graded, so recall is relative
    to them. --check examines the LLM instead.
    """
    kept = f"grades are kept in {cache}" if cache else "nothing was kept; --cache FILE keeps grades"
    kept = "nothing was kept, since --check asks for every grade anew" if check else kept
    with exit_codes(kept, run_judge, cache):
        from llama_index_rag_metrics.cli.judge_run import (
            Judging,
            agreement_in_words,
            by_labelled_ids,
            llm_of,
        )
        from llama_index_rag_metrics.cli.run_files import TraceQuestions, read_stored
        from llama_index_rag_metrics.cli.several_retrievers import chosen_metrics
        from llama_index_rag_metrics.evaluation.results.results_report import (
            print_results,
            write_html,
        )
        from llama_index_rag_metrics.files.runs.read_runs import read_qrels
        from llama_index_rag_metrics.files.runs.write_runs import write_qrels
        from llama_index_rag_metrics.runtime.atomic_files import write_text
        from llama_index_rag_metrics.scores.scores_export import to_json
        from llama_index_rag_metrics.scores.scoring import score_rankings
        from llama_index_rag_metrics.scores.trec_eval import at_level

        check_files({"--qrels": qrels, "--json": json, "--html": html})
        _check_check(check, {"--qrels": qrels, "--metric": metric, "--cache": cache})
        metrics = chosen_metrics(metric)
        at_level(metrics, min_grade)
        people = None if human is None else read_qrels(human)
        asked = TraceQuestions.of(question_id, questions, on_error, match_on, matcher)
        stored = read_stored(run, on_error, {}, asked)
        if asked is not None and matcher is not None:
            labels = asked.relevance if people is None else people
            every = {query_id: list(judged.grades) for query_id, judged in labels.items()}
            stored = by_labelled_ids(stored, asked.matched(stored, every))
        judging = Judging.of(
            stored,
            llm_of(llm),
            None if asked is None else asked.questions,
            depth=depth,
            texts_per_call=texts_per_call,
            cache=cache,
        )
        if check:
            checked = judging.check(people, workers)
            show(checked, "table", json=json, html=html)
            return
        grades, ungraded = judging.grades(workers)
        if qrels is not None:
            write_qrels(grades, qrels)
        rankings = judging.run.select(grades)
        scores = score_rankings(grades, rankings, metrics, max_retrieved=depth)
        scores = scores.replace(notes=[*scores.notes, judging.spent], queries=judging.queries)
        if json is not None:
            write_text(json, to_json([scores]))
        if html is not None:
            write_html(scores, html)
        print_results(scores, worst=worst)
        if people is not None:
            say(agreement_in_words(grades, people))
        for remark in ungraded:
            say(remark)
    if ungraded or scores.failed:
        raise typer.Exit(FAILED_QUERIES)


def _check_check(check: bool, others: dict[str, object]) -> None:
    """Whether `--check` stands beside options that fit it."""
    from llama_index_rag_metrics.runtime.errors import InvalidInput

    if check and (given := [name for name, value in others.items() if value is not None]):
        is_cache = given == ["--cache"]
        reason = "every grade is asked for anew" if is_cache else "nothing is scored"
        raise InvalidInput("--check", True, f"no {given[0]}, since {reason}")
