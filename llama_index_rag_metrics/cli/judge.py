"""`rag-metrics judge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    show,
)
from llama_index_rag_metrics.files.lines import OnError
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.errors import InvalidInput


@command(app, "judge", failed="questions failed or couldn't be graded")
def run_judge(
    run: Path,
    *,
    llm: str,
    questions: Path | None = None,
    question_id: str | None = None,
    match_on: str = "node_id",
    matcher: str | None = None,
    metric: list[str] | None = None,
    depth: Count[int] = 10,
    texts_per_call: Annotated[int, {"min": 1, "max": 50, "metavar": "N"}] = 1,
    min_grade: Annotated[float | None, {"max": 3}] = None,
    qrels: NewFile[Path | None] = None,
    cache: NewFile[Path | None] = None,
    human: Path | None = None,
    draw: Count[int | None] = None,
    pool: NewFile[Path | None] = None,
    seed: Natural[int] = 0,
    check: bool = False,
    workers: Count[int] = WORKERS,
    worst: Natural[int] = 5,
    on_error: OnError = "raise",
    html: NewFile[Path | None] = None,
) -> None:
    """Score what was retrieved without labels, by an LLM's grades.

    The LLM grades each retrieved passage from 0 to 3. Only these are graded, so recall is relative
    to them. --check examines the LLM instead.

    Args:
        run: Traces as OTLP/JSON, or a stored run with texts; or one without, if --questions has the
            documents.
        questions (DATASET): A dataset with the questions, and with the documents where RUN has no
            texts. Default: the questions in the traces.
        match_on (KEY): If RUN is a file of traces: which id of a passage the labels use: node_id,
            ref_doc_id or a metadata key.
        matcher: Passages that this recognises as labelled ones, of --human or else --questions, go
            by their ids in the grades: text, exact, tokens, edit or embedding. For traces without
            ids.
        texts_per_call: How many passages of a question are graded in one request.
        min_grade: The grade, 0 to 3, from which a passage is relevant. Default: 1.
        qrels: Write the grades: TREC qrels, or the format of the ending .jsonl, .json, .csv, .tsv,
            .parquet or .arrow.
        cache: A file that keeps grades, so none is paid for twice.
        human: People's grades of some passages, as qrels, to see how far the LLM agrees.
        draw: Draw this many of the graded questions at random, spread over the LLM's scores, for
            people to label: their scores calibrate the LLM's.
        pool: Where to write the passages of --draw, for `labels review`. The LLM's grades are not
            in it.
        seed: Of the random draw.
        check: Instead of scoring, see how steady the grades are: asked again, at another place in a
            request, with others. Takes some 400 requests.

    Groups:
        Grading: llm, depth, texts_per_call, cache, workers
        Questions: questions, question_id, match_on, matcher, on_error
        Scores: metric, min_grade
        Trust in the LLM: human, draw, pool, seed, check
        Output: worst, html, json, qrels

    Examples:
        rag-metrics judge traces.jsonl --llm my_package:llm --cache grades.sqlite
        rag-metrics judge traces.jsonl --llm package:llm --draw 60 --pool people.jsonl
        rag-metrics judge traces.jsonl --llm my_package:llm --check
    """
    from llama_index_rag_metrics import (
        LLMRelevancy,
        agreement,
        check_judge,
        print_results,
        read_qrels,
        write_html,
        write_qrels,
    )
    from llama_index_rag_metrics.cli import judge_run
    from llama_index_rag_metrics.cli.outcome import found_scores
    from llama_index_rag_metrics.cli.run_files import TraceQuestions, read_stored
    from llama_index_rag_metrics.scores.trec_eval import at_level

    check_files({"--qrels": qrels, "--html": html, "--pool": pool})
    if (draw is None) != (pool is None):
        raise InvalidInput("--draw", draw, "a number of questions, and --pool FILE beside it")
    kept = f"grades are kept in {cache}" if cache else "nothing was kept; --cache FILE keeps grades"
    if check:
        kept = "nothing was kept, since --check asks for every grade anew"
        others = {"--qrels": qrels, "--metric": metric, "--cache": cache, "--draw": draw}
        if unfit := [name for name, value in others.items() if value is not None]:
            is_cache = unfit == ["--cache"]
            reason = "every grade is asked for anew" if is_cache else "nothing is scored"
            raise InvalidInput("--check", True, f"no {unfit[0]}, since {reason}")
    with interrupted(kept, cache):
        metrics = chosen_metrics(metric)
        at_level(metrics, min_grade)
        people = None if human is None else read_qrels(human)
        asked = TraceQuestions.of(question_id, questions, on_error, match_on, matcher)
        stored = read_stored(run, on_error, {}, asked)
        if stored.repeats:  # grades are of one ranking a question
            expected = "a run in which each question was asked once"
            raise InvalidInput("RUN", str(run), expected)
        labelled = judge_run.by_labelled_ids(stored, asked, people)
        fields = {"llm": judge_run.llm_of(llm), "k": depth, "texts_per_call": texts_per_call}
        judge = LLMRelevancy.model_validate(fields)
        judging = judge_run.Judging.of(labelled, judge, asked.questions, cache)
        if check:
            graded = judging.judge, judging.queries, judging.run
            found = check_judge(*graded, human=people, workers=workers)
            show(found, "table", html=html)
            return
        grades, ungraded = judging.grades(workers)
        if qrels is not None:
            write_qrels(grades, qrels)
        scores = judging.scores(grades, metrics)
        if draw is not None and pool is not None:
            say(judging.write_pool(pool, grades, scores, draw, seed))
        found_scores([scores])
        if html is not None:
            write_html(scores, html)
        print_results(scores, worst=worst)
        if people is not None:
            say(f"agreement with --human beyond chance: {agreement(grades, people)}")
        for remark in ungraded:
            say(remark)
    fail_if(ungraded or scores.failed)
