"""`rag-metrics gate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import exit_codes, exit_for_gate, refusal_to_store
from llama_index_rag_metrics.cli.showing import show
from llama_index_rag_metrics.decisions import OnMissing


def run_gate(
    scores: Annotated[
        Path,
        options.argument("SCORES", "Scores from `rag-metrics evaluate --json` or Scores.to_json."),
    ],
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            "-r",
            metavar="RULE",
            help="A rule such as 'ndcg@10 >= baseline - 0.02', also with 'at 99%', 'ndcg@10 >= "
            "baseline - 0.05 as observed', 'recall@5 >= 0.8' or 'failed <= 0'. Repeatable.",
            show_default="the rules of tool.rag-metrics.gate in pyproject.toml, or else those of "
            "the baseline",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        options.file("--baseline", "-b", help="The stored baseline, a file in your repository."),
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
            "--metric",
            "-m",
            metavar="METRIC",
            help="A metric for --update-baseline. Repeatable.",
            show_default="all of them",
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
            help="A rule fails if fewer than this share of the queries have a value.",
            show_default="0.95, or tool.rag-metrics.gate in pyproject.toml",
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
    ] = "error",
    form: options.Form = "table",
    worst: options.Worst = 3,
) -> None:
    """Judge scores by rules: may this change be merged?

    Rules may compare the scores with a stored baseline.

    A rule is inconclusive if the queries are too few to decide it. The report then names the
    tolerance that they could decide.

    If GITHUB_STEP_SUMMARY is set, the table is added to that file.
    """
    with exit_codes(command=run_gate):
        from llama_index_rag_metrics.cli import gate_files
        from llama_index_rag_metrics.decisions.gate import check_rules

        settings = gate_files.project_settings(Path("pyproject.toml"))
        measured = gate_files.read_scores(scores, system)
        path = baseline or settings.baseline
        coverage = settings.coverage(min_coverage)
        if update_baseline:
            with refusal_to_store():
                changes = gate_files.store(
                    path,
                    measured,
                    metric,
                    rule,
                    settings,
                    force=force,
                    new_anchor=new_anchor,
                    min_coverage=coverage,
                )
                typer.echo(changes)
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
        show(report, form)
        gate_files.add_to_step_summary(report)
    exit_for_gate(report, strict=strict or settings.strict)
