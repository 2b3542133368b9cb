"""What `gate` reads and writes: scores, the baseline, and the project's settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from llama_index_rag_metrics import Baseline, GateReport, Scores
from llama_index_rag_metrics.decisions.gate.checking_rules import MIN_COVERAGE, update_baseline
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput
from llama_index_rag_metrics.scores.scores_export import read_json

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TABLE = "[tool.rag-metrics.gate]"


class GateSettings(BaseModel, extra="forbid", strict=True):
    """A project's settings for its gate."""

    baseline: Path | None = Field(None, strict=False)
    rules: list[str] = []
    strict: bool = False
    min_coverage: float = MIN_COVERAGE


def project_settings(path: Path) -> GateSettings:
    """The settings in a pyproject.toml; the defaults where it has none or doesn't exist."""
    if not path.is_file():
        return GateSettings()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(str(path), None, f"TOML ({error})") from error
    settings: dict[str, Any] = data.get("tool", {}).get("rag-metrics", {}).get("gate", {})
    try:
        return GateSettings.model_validate(settings)
    except ValidationError as error:
        expected = (
            "baseline = a path, rules = a list of rules, strict = true or false, "
            f"min_coverage = a share such as 0.95 in {_TABLE}"
        )
        found = {key: settings[key] for key in map(str, error.errors()[0]["loc"][:1])} or settings
        raise FileFormatError(str(path), None, expected, found) from error


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
    path: Path | None,
    scores: Scores,
    metrics: Sequence[str] | None,
    rules: Sequence[str] | None,
    settings: GateSettings,
    **options: Any,
) -> str:
    """Store scores as the baseline, and say what changed."""
    if path is None:
        raise InvalidInput("--baseline", None, "a file to write")
    before = read_baseline(path) if path.is_file() else None
    stored = update_baseline(
        path,
        scores,
        metrics=metrics or None,
        rules=rules or (),
        judged_by=rules or settings.rules or None,
        **options,
    )
    return stored.described(path, before)


def add_to_step_summary(report: GateReport) -> None:
    """Append the verdicts to the file that GitHub shows beside a workflow, where there is one."""
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(report.to_markdown() + "\n")
