"""`rag-metrics gate`."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import exit_codes, exit_for_gate, refusal_to_store
from llama_index_rag_metrics.cli.showing import Format, show


class OnMissing(str, Enum):
    """What to do where the baseline is of other queries."""

    ERROR = "error"
    INTERSECT = "intersect"


def run_gate(
    scores: Annotated[
        Path,
        typer.Argument(
            help="Scores from `rag-metrics evaluate --json` or Scores.to_json.", show_default=False
        ),
    ],
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            "-r",
            help="A rule such as 'ndcg@10 >= baseline - 0.02', also with 'at 99%', 'ndcg@10 >= "
            "baseline - 0.05 as observed', 'recall@5 >= 0.8' or 'failed <= 0'. May be repeated. "
            "[default: the rules of tool.rag-metrics.gate in pyproject.toml, or else those of the "
            "baseline]",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            "-b",
            dir_okay=False,
            help="The stored baseline, a file in your repository.",
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option("--system", help="Which retriever to judge, where the file has several."),
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
            "--metric", "-m", help="A metric for --update-baseline. Repeatable. [default: all]"
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Let --update-baseline store scores that break a rule."),
    ] = False,
    new_anchor: Annotated[
        bool,
        typer.Option(
            "--new-anchor",
            help="Let --update-baseline replace the anchor, too. The anchor is the baseline that "
            "the first update stored; small losses add up against it.",
        ),
    ] = False,
    min_coverage: Annotated[
        float | None,
        typer.Option(
            "--min-coverage",
            min=0,
            max=1,
            help="A rule fails if fewer than this share of the queries have a value. "
            "[default: 0.95, or tool.rag-metrics.gate in pyproject.toml]",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if a rule is inconclusive, too.")
    ] = False,
    on_missing: Annotated[
        OnMissing,
        typer.Option(
            "--on-missing",
            help="If the baseline has other queries: refuse, or compare those in common.",
        ),
    ] = OnMissing.ERROR,
    form: Annotated[
        Format, typer.Option("--format", help="How the verdicts are printed.")
    ] = Format.TABLE,
    worst: options.Worst = 3,
) -> None:
    """Judge scores by rules, against a stored baseline: may this change be merged?

    Exit code 0 means that no rule is broken, 1 that one is, 2 that the command can't run as
    written. A rule is inconclusive where the queries are too few to decide it: that is a warning,
    or with --strict exit code 1, and the report names the tolerance that they could decide. If
    GITHUB_STEP_SUMMARY is set, the table is added to that file.
    """
    with exit_codes():
        from llama_index_rag_metrics.cli.gate_files import (
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
        show(report, form)
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(report.to_markdown() + "\n")
    exit_for_gate(report, strict=strict or settings.strict)
