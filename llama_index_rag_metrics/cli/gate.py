"""`rag-metrics gate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from llama_index_rag_metrics.cli import outcome
from llama_index_rag_metrics.cli.commands import (
    FAILED,
    Natural,
    NewFile,
    app,
    check_files,
    command,
    fail_if,
    say,
    show,
)
from llama_index_rag_metrics.decisions import OnMissing
from llama_index_rag_metrics.runtime.errors import InvalidInput

Form: TypeAlias = Literal["table", "markdown", "json", "junit"]


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
    force: bool = False,
    new_anchor: bool = False,
    min_coverage: Annotated[float | None, {"min": 0, "max": 1}] = None,
    strict: bool = False,
    on_missing: OnMissing = "error",
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
            Default: the rules of tool.rag-metrics.gate in pyproject.toml, or else those of the
            baseline.
        baseline (-b): The stored baseline, a file in your repository.
        system: Which retriever to judge, where the file has several.
        update_baseline: Store these scores as the baseline, with the rules given, unless a rule
            fails.
        metric (-m, METRIC): A metric for --update-baseline. Repeatable. Default: all of them.
        force: Let --update-baseline store scores that break a rule.
        new_anchor: Let --update-baseline replace the anchor, too. The anchor is the baseline that
            the first update stored; small losses add up against it.
        min_coverage: A rule fails if fewer than this share of the questions have a value. Default:
            0.95, or tool.rag-metrics.gate in pyproject.toml.
        strict: Exit with 1 if a rule is inconclusive, too.
        on_missing: If the baseline has other questions: refuse, or compare those in common.
        form (--format): How the result is printed; junit: as XML, in which GitLab, Jenkins and
            others read each rule as a test.

    Groups:
        Rules: rule, strict, min_coverage, on_missing, system
        Baseline: baseline, update_baseline, metric, force, new_anchor
        Output: form, worst, html

    Examples:
        rag-metrics gate scores.json --rule 'recall@5 >= 0.8'
        rag-metrics gate scores.json -b eval/baseline.json --update-baseline
        rag-metrics gate scores.json -b eval/baseline.json --format junit > gate.xml
    """
    from llama_index_rag_metrics import check_rules
    from llama_index_rag_metrics.cli import gate_files
    from llama_index_rag_metrics.cli.gate_junit import to_junit
    from llama_index_rag_metrics.runtime.errors import GateFailed

    check_files({"--html": html}, [scores, baseline])
    reported = {"--html": html, "--format": None if form == "table" else form}
    for option, value in reported.items():
        if update_baseline and value is not None:
            expected = "no --update-baseline beside it, which makes no report"
            raise InvalidInput(option, str(value), expected)
    settings = gate_files.project_settings(Path("pyproject.toml"))
    measured = gate_files.read_scores(scores, system)
    path = baseline or settings.baseline
    coverage = settings.min_coverage if min_coverage is None else min_coverage
    if update_baseline:
        options = {"force": force, "new_anchor": new_anchor, "min_coverage": coverage}
        try:
            outcome.tell(gate_files.store(path, measured, metric, rule, settings, **options))
        except GateFailed as error:
            outcome.tell(str(error).strip())
            raise typer.Exit(FAILED) from None
        return
    stored = gate_files.read_baseline(path)
    report = check_rules(
        measured,
        rule or settings.rules or (() if stored is None else stored.rules),
        baseline=stored,
        on_missing=on_missing,
        min_coverage=coverage,
        worst=worst,
    )
    is_strict = strict or settings.strict
    if form != "junit":
        show(report, form, html=html)
    else:
        outcome.found_in(report)
        if html is not None:
            report.to_html(html)
        typer.echo(to_junit(report, strict=is_strict))
    gate_files.add_to_step_summary(report)
    if report.outcome == "inconclusive" and not is_strict:
        say("inconclusive; --strict makes this exit code 1")
    fail_if(report.broken(strict=is_strict))
