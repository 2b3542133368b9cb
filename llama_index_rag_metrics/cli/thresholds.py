"""`rag-metrics thresholds`: which score of the retriever to cut at, from stored rankings."""

from __future__ import annotations

from pathlib import Path

from llama_index_rag_metrics.cli.commands import (
    Form,
    NewFile,
    NotNegative,
    app,
    check_files,
    chosen_metrics,
    command,
    show,
)
from llama_index_rag_metrics.files.lines import OnError


@command(app, "thresholds", needs_llama_index=False)
def run_thresholds(
    run: Path,
    *,
    qrels: Path | None = None,
    metric: str = "recall@5",
    tolerance: NotNegative[float] = 0.02,
    columns: list[str] | None = None,
    question_id: str | None = None,
    questions: Path | None = None,
    match_on: str = "node_id",
    matcher: str | None = None,
    on_error: OnError = "raise",
    form: Form = "table",
    html: NewFile[Path | None] = None,
) -> None:
    """Show what a threshold on the score costs, and which questions it spares.

    Questions that are labelled and have nothing relevant are those without an answer. The proposed
    threshold is judged on questions that didn't choose it.

    Args:
        run (RUN): Stored rankings with scores, of any kind that `rag-metrics score` reads.
        qrels: What is relevant, with an empty list or grades of 0 for a question without an answer.
            Default: the expected_ids beside the rankings of RUN.
        metric (-m, METRIC): What questions with an answer may lose.
        tolerance: How far the metric's mean may fall for the threshold that is proposed.
        columns (FIELD=COLUMN): How RUN names its columns, as FIELD=COLUMN: retrieved_ids=doc_ids.
            Repeat the option, or use commas.
        questions (DATASET): If RUN is a file of traces: a dataset, to find the traces' questions by
            their text. With --matcher: the dataset that has the labels' texts.
        matcher: Recognise the labelled passages of --questions in RUN by this instead of ids: text,
            exact, tokens, edit or embedding, with a threshold if you like: 'text>=0.6'.

    Groups:
        Judgements and files: qrels, columns, on_error
        Metrics: metric, tolerance
        Traces: question_id, questions, match_on, matcher
        Output: form, html, json

    Examples:
        rag-metrics thresholds dense.jsonl --qrels labels.jsonl -m recall@5
        rag-metrics thresholds dense.run --qrels qrels.txt --tolerance 0.05
    """
    from llama_index_rag_metrics.cli import run_files
    from llama_index_rag_metrics.scores.thresholds import thresholds_of

    check_files({"--html": html}, [run, qrels])
    request = run_files.ScoreRequest(
        chosen_metrics([metric]),
        on_error=on_error,
        asked=run_files.TraceQuestions.of(question_id, questions, on_error, match_on, matcher),
        columns=run_files.read_columns(columns or ()),
    )
    system = run_files.stored_system(run, qrels, request)
    show(thresholds_of(system, next(iter(system.scores)), tolerance), form, html=html)
