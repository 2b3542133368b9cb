"""`rag-metrics power`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from llama_index_rag_metrics.cli.commands import Form, NewFile, app, check_files, command, show
from llama_index_rag_metrics.decisions import OnMissing
from llama_index_rag_metrics.runtime.errors import InvalidInput


@command(app, "power", needs_llama_index=False)
def run_power(
    scores: list[Path] | None = None,
    *,
    effect: float = 0.02,
    metric: list[str] | None = None,
    questions: Annotated[int | None, {"min": 2, "metavar": "N"}] = None,
    deviation: float | None = None,
    changed: float | None = None,
    confidence: Annotated[float, {"min": 0, "max": 1}] = 0.95,
    on_missing: OnMissing = "error",
    form: Form = "table",
    html: NewFile[Path | None] = None,
) -> None:
    """Say how many questions a decision needs, and what this many can decide.

    Questions enough to show a gain, for a rule of the gate to pass an unchanged system, and to show
    that two systems are alike, each 80 % of the time.

    Args:
        scores (SCORES): Scores of two systems like those that you are going to compare, from
            `rag-metrics evaluate --json` or Scores.to_json: two files, or one with both. Without
            any: --deviation and --changed.
        effect: The difference that matters, on the first metric.
        metric (-m, METRIC): A metric; the first one decides. Repeat the option, or use commas.
            Default: those that both systems have; without SCORES, ndcg@10.
        questions: How many questions you have: what can they show? Default: those of SCORES.
        deviation: The standard deviation of a question's difference between two systems. Between
            retrievers often 0.25 on ndcg@10.
        changed: The share of questions with a difference.
        confidence: Of the intervals.
        on_missing: If the systems have different questions: refuse, or compare those in common.

    Groups:
        What is to be decided: effect, metric, confidence
        What is known: questions, deviation, changed, on_missing
        Output: form, html, json

    Examples:
        rag-metrics power before.json after.json --effect 0.02
        rag-metrics power --effect 0.05 --deviation 0.25 --changed 0.5 --questions 100
    """
    from llama_index_rag_metrics import power
    from llama_index_rag_metrics.cli.run_files import named_apart
    from llama_index_rag_metrics.metrics.metric_names import split_names
    from llama_index_rag_metrics.scores.scores_export import read_json

    files = scores or []
    check_files({"--html": html}, files)
    found = [
        (name or path.stem, path, each) for path in files for name, each in read_json(path).items()
    ]
    if files and len(found) != 2:
        names = [name for name, _, _ in found]
        raise InvalidInput("SCORES", names, "two systems, in two files or in one")
    apart = named_apart([name for name, _, _ in found], [path for _, path, _ in found])
    named = dict(zip(apart, (each for _, _, each in found), strict=True))
    metrics = [part.strip() for each in metric or () for part in split_names(each)]
    result = power(
        named or None,
        effect=effect,
        metrics=metrics or None,
        n=questions,
        deviation=deviation,
        changed=changed,
        confidence=confidence,
        on_missing=on_missing,
    )
    show(result, form, html=html)
