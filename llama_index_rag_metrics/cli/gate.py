"""`rag-metrics gate`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from llama_index_rag_metrics.runtime.atomic_files import write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput

from . import options
from .commands import app, command, fail_if, say, show, tell

if TYPE_CHECKING:
    from llama_index_rag_metrics import Scores

_BROKEN = "a rule is broken; with --strict also if one is inconclusive"


@command(app, "gate", "rag-metrics gate now.json -b before.json --strict", failed=_BROKEN)
def run_gate(
    scores: Annotated[
        Path, options.argument("SCORES", "What `evaluate --json` or to_json() wrote.")
    ],
    rule: options.Rules = None,
    baseline: options.Baseline = None,
    system: options.SystemName = None,
    accept: options.Accept = False,
    strict: options.Strict = False,
    html: options.Html = None,
    json: options.Json = None,
) -> None:
    """Judge scores by rules: may this change be merged?

    Rules may compare the scores with a baseline: the scores of before, in a file of the same kind.

    A rule is inconclusive if the questions are too few to decide it; the report says what would.
    If GITHUB_STEP_SUMMARY is set, the table is added to that file.
    """
    from llama_index_rag_metrics import check_rules
    from llama_index_rag_metrics.decisions.gate.gate import baseline_scores, read_scores

    measured = read_scores(scores, system)
    if accept:
        if baseline is None:
            raise InvalidInput("--baseline", None, "a file to write")
        write_text(baseline, scores.read_text(encoding="utf-8"))
        tell(f"{baseline} now has the scores of {scores}.")
        return
    rules, previous = rule or [], None
    if baseline is not None:
        rules = rules or [_default_rule(measured)]
        previous = baseline_scores(baseline, system or measured.name)
    report = check_rules(measured, rules, baseline=previous)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):  # GitHub shows it beside the workflow
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(f"{report.to_markdown()}\n")
    show(report, json, html)
    if report.outcome == "inconclusive" and not strict:
        say("inconclusive; --strict makes this exit code 1")
    fail_if(report.broken(strict=strict))


def _default_rule(scores: Scores) -> str:
    from llama_index_rag_metrics.decisions.comparison.difference import margin_of
    from llama_index_rag_metrics.metrics.metric_names import lower_is_better

    metric = scores.metric_names[0]
    margin = margin_of(metric, None, "margin")
    if lower_is_better(metric):
        return f"{metric} <= baseline + {margin}"
    return f"{metric} >= baseline - {margin}"
