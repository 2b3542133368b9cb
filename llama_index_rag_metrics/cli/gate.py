"""`rag-metrics gate`."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.outcome import exit_codes, exit_for_gate, refusal_to_store

if TYPE_CHECKING:
    from llama_index_rag_metrics.gate import GateReport


class Format(str, Enum):
    """How the verdicts are printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


class OnMissing(str, Enum):
    """What to do where the baseline is of other queries."""

    ERROR = "error"
    INTERSECT = "intersect"


def run_gate(
    scores: Annotated[
        Path,
        typer.Argument(
            help="What `rag-metrics evaluate --json` or Scores.to_json wrote.", show_default=False
        ),
    ],
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            "-r",
            help="Such as 'ndcg@10 >= baseline - 0.02', perhaps with 'at 99%', 'ndcg@10 >= "
            "baseline - 0.05 as observed', 'recall@5 >= 0.8' or 'failed <= 0'; repeat it. "
            "[default: the rules of tool.rag-metrics.gate in pyproject.toml, or else of the "
            "baseline]",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            "-b",
            dir_okay=False,
            help="The stored baseline, a file of the repository.",
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option("--system", help="Which retriever, where the scores are of several."),
    ] = None,
    update_baseline: Annotated[
        bool,
        typer.Option(
            "--update-baseline",
            help="Store these scores as the baseline, with the rules given, unless a rule fails.",
        ),
    ] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="What --update-baseline keeps; repeat it. [default: all]"
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="--update-baseline stores scores that break a rule, too."),
    ] = False,
    new_anchor: Annotated[
        bool,
        typer.Option(
            "--new-anchor",
            help="--update-baseline replaces the anchor, too: the baseline that the first update "
            "stored and the others left as it is, against which small losses add up.",
        ),
    ] = False,
    min_coverage: Annotated[
        float | None,
        typer.Option(
            "--min-coverage",
            min=0,
            max=1,
            help="A rule fails where fewer than this share of the queries have a value. "
            "[default: 0.95, or tool.rag-metrics.gate in pyproject.toml]",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 where a rule is inconclusive, too.")
    ] = False,
    on_missing: Annotated[
        OnMissing,
        typer.Option(
            "--on-missing",
            help="Where the baseline is of other queries: refuse, or compare those in common.",
        ),
    ] = OnMissing.ERROR,
    form: Annotated[
        Format, typer.Option("--format", help="How the verdicts are printed.")
    ] = Format.TABLE,
    worst: options.Worst = 3,
) -> None:
    """Judge scores by rules, against a stored baseline: may this change be merged?

    Exit code 0 says that no rule is broken, 1 that one is, 2 that the command can't be run as it
    is. A rule that too few queries leave open is a warning, or with --strict exit code 1; the
    report says which tolerance they could decide. Where
    GITHUB_STEP_SUMMARY is set, the table is added to that file.
    """
    with exit_codes():
        from llama_index_rag_metrics.cli.gating import (
            project_settings,
            read_baseline,
            read_scores,
            store,
        )
        from llama_index_rag_metrics.gate import check_rules
        from llama_index_rag_metrics.gate.checking import MIN_COVERAGE

        settings = project_settings(Path("pyproject.toml"))
        measured = read_scores(scores, system)
        path = baseline or settings.baseline
        chosen = (share for share in (min_coverage, settings.min_coverage) if share is not None)
        coverage = next(chosen, MIN_COVERAGE)
        if update_baseline:
            with refusal_to_store():
                typer.echo(
                    store(
                        path,
                        measured,
                        metric,
                        rule,
                        settings,
                        force=force,
                        new_anchor=new_anchor,
                        min_coverage=coverage,
                    )
                )
            return
        stored = read_baseline(path)
        kept = () if stored is None else stored.rules
        report = check_rules(
            measured,
            rule or settings.rules or kept,
            baseline=stored,
            on_missing=on_missing.value,
            min_coverage=coverage,
            worst=worst,
        )
        _print(report, form)
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(report.to_markdown() + "\n")
    exit_for_gate(report, strict=strict or settings.strict)


def _print(report: GateReport, form: Format) -> None:
    from llama_index_rag_metrics.report.terminal import print_report

    if form is Format.TABLE:
        print_report(report.report())
    else:
        text = report.to_json() if form is Format.JSON else report.to_markdown()
        typer.echo(text.rstrip("\n"))
