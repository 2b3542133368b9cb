"""`rag-metrics gate`."""

from __future__ import annotations

from pathlib import Path

import typer

from llama_index_rag_metrics.cli import outcome
from llama_index_rag_metrics.cli.commands import (
    FAILED,
    Form,
    Natural,
    NewFile,
    app,
    check_files,
    command,
    fail_if,
    say,
    show,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput


@command(
    app,
    "gate",
    ok="no rule is broken",
    failed="a rule is broken; with --strict also if one is inconclusive",
    needs_llama_index=False,
)
def run_gate(
    scores: Path,
    *,
    rule: list[str] | None = None,
    baseline: NewFile[Path | None] = None,
    system: str | None = None,
    update_baseline: bool = False,
    metric: list[str] | None = None,
    strict: bool = False,
    form: Form = "table",
    worst: Natural[int] = 3,
    html: NewFile[Path | None] = None,
) -> None:
    """Judge scores by rules: may this change be merged?

    Rules may compare the scores with a stored baseline.

    A rule is inconclusive if the questions are too few to decide it. The report then names the
    tolerance that they could decide.

    If GITHUB_STEP_SUMMARY is set, the table is added to that file.

    Args:
        scores: Scores from `rag-metrics evaluate --json` or Scores.to_json.
        rule (RULE): A rule such as 'ndcg@10 >= baseline - 0.02', also with 'at 99%', 'ndcg@10
            >= baseline - 0.05 as observed', 'recall@5 >= 0.8' or 'failed <= 0'. Repeatable.
            Default: those of the baseline.
        baseline (-b): The stored baseline, a file in your repository.
        system: Which retriever to judge, where the file has several.
        update_baseline: Store these scores as the baseline, with the rules given, unless a rule
            fails.
        metric (-m, METRIC): A metric for --update-baseline. Repeatable. Default: all of them.
        strict: Exit with 1 if a rule is inconclusive, too.

    Groups:
        Rules: rule, strict, system
        Baseline: baseline, update_baseline, metric
        Output: form, worst, html

    Examples:
        rag-metrics gate scores.json --rule 'recall@5 >= 0.8'
        rag-metrics gate scores.json -b eval/baseline.json --update-baseline
        rag-metrics gate scores.json -b eval/baseline.json --strict
    """
    from llama_index_rag_metrics import check_rules
    from llama_index_rag_metrics.cli import gate_files
    from llama_index_rag_metrics.runtime.errors import GateFailed

    check_files({"--html": html}, [scores, baseline])
    reported = {"--html": html, "--format": None if form == "table" else form}
    for option, value in reported.items():
        if update_baseline and value is not None:
            expected = "no --update-baseline beside it, which makes no report"
            raise InvalidInput(option, str(value), expected)
    measured = gate_files.read_scores(scores, system)
    if update_baseline:
        try:
            outcome.tell(gate_files.store(baseline, measured, metric, rule))
        except GateFailed as error:
            outcome.tell(str(error).strip())
            raise typer.Exit(FAILED) from None
        return
    stored = gate_files.read_baseline(baseline)
    kept = () if stored is None else stored.rules
    report = check_rules(measured, rule or kept, baseline=stored, worst=worst)
    show(report, form, html=html)
    gate_files.add_to_step_summary(report)
    if report.outcome == "inconclusive" and not strict:
        say("inconclusive; --strict makes this exit code 1")
    fail_if(report.broken(strict=strict))
