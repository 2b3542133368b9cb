"""`rag-metrics relate`: which metric predicts how good the answers are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from llama_index_rag_metrics.cli.commands import Form, NewFile, app, check_files, command, show


@command(app, "relate", needs_llama_index=False)
def run_relate(
    scores: Path,
    answers: Path,
    *,
    system: str | None = None,
    metric: list[str] | None = None,
    columns: list[str] | None = None,
    closed_book: Path | None = None,
    oracle: Path | None = None,
    question_id: str | None = None,
    questions: Path | None = None,
    confidence: Annotated[float, {"min": 0, "max": 1}] = 0.95,
    form: Form = "table",
    html: NewFile[Path | None] = None,
) -> None:
    """Find the metric that predicts how good the answers are.

    An AUC for answers that are right or wrong, Kendall's tau-b for graded ones; with intervals, and
    with the differences between metrics.

    Args:
        scores (SCORES): Scores of one system, from `rag-metrics evaluate --json`, `score -o` or
            Scores.to_json.
        answers (ANSWERS): A score per question, from people, a judge or another tool: CSV, TSV,
            JSON lines, JSON, Parquet or Arrow with a question id and a score; scores as SCORES; or
            MLflow's traces with assessments, as JSON.
        system (NAME): Which system of SCORES. Needed if there are several.
        metric (-m, METRIC): Compare these metrics only. Repeat the option, or use commas.
        columns (FIELD=COLUMN): How ANSWERS names its columns: query_id=uuid,answer=correctness.
            Also the name of an assessment, or of a metric. Default: the only column of scores.
        closed_book (FILE): What answers without any context score, like ANSWERS.
        oracle (FILE): What answers with every relevant passage score, like ANSWERS.
        questions (DATASET): If ANSWERS is a file of traces: a dataset, to find the traces'
            questions by their text.
        question_id (ATTRIBUTE): If ANSWERS is a file of traces: the attribute of the spans that
            holds the id of the question. Default: every trace is a question.
        confidence: Of the intervals.

    Groups:
        Answers: columns, closed_book, oracle
        Metrics: system, metric, confidence
        Traces: question_id, questions
        Output: form, html, json

    Examples:
        rag-metrics relate scores.json answers.csv
        rag-metrics relate scores.json judged.jsonl --columns answer=correctness
    """
    from llama_index_rag_metrics import read_answers, relate
    from llama_index_rag_metrics.cli.gate_files import read_scores
    from llama_index_rag_metrics.cli.run_files import TraceQuestions, read_columns
    from llama_index_rag_metrics.metrics.metric_names import split_names

    read = [scores, answers, closed_book, oracle, questions]
    check_files({"--html": html}, read)
    measured = read_scores(scores, system)
    names = read_columns(columns or ())
    given: Any = answers
    if question_id is not None or questions is not None:
        asked = TraceQuestions.of(question_id, questions, "raise")
        given = read_answers(
            answers, columns=names, question_id=asked.question_id, questions=asked.questions
        )
    metrics = [part.strip() for each in metric or () for part in split_names(each)]
    related = relate(
        measured,
        given,
        metrics=metrics or None,
        columns=names,
        closed_book=closed_book,
        oracle=oracle,
        confidence=confidence,
    )
    show(related, form, html=html)
