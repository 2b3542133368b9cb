"""What `gate` reads and writes: scores and the baseline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from llama_index_rag_metrics import Baseline, GateReport, Scores
from llama_index_rag_metrics.decisions.gate.checking_rules import update_baseline
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.scores_export import read_json


def read_scores(path: Path, system: str | None) -> Scores:
    """The scores of one retriever, from what `evaluate --json` or `Scores.to_json` wrote."""
    systems = read_json(path)
    if [*systems] == [""] or (system is None and len(systems) == 1):
        return next(iter(systems.values()))
    if system not in systems:
        raise InvalidInput("--system", system, " or ".join(map(repr, systems)))
    return systems[system]


def read_baseline(path: Path | None) -> Baseline | None:
    """The stored baseline, where one is named."""
    if path is None:
        return None
    if not path.is_file():
        raise InvalidInput("--baseline", str(path), "a file", "--update-baseline writes one.")
    return Baseline.load(path)


def store(
    path: Path | None, scores: Scores, metrics: Sequence[str] | None, rules: Sequence[str] | None
) -> str:
    """Store scores as the baseline, and say what changed."""
    if path is None:
        raise InvalidInput("--baseline", None, "a file to write")
    before = read_baseline(path) if path.is_file() else None
    stored = update_baseline(
        path, scores, metrics=metrics or None, rules=rules or (), judged_by=rules or None
    )
    return stored.described(path, before)


def add_to_step_summary(report: GateReport) -> None:
    """Append the verdicts to the file that GitHub shows beside a workflow, where there is one."""
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(report.to_markdown() + "\n")
