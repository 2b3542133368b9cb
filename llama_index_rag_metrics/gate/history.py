"""Update: when a baseline was stored, of which commit, with which means."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

_VARIABLES = ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "GIT_COMMIT")
"""Where services of continuous integration name the commit."""

_PATIENCE = 5.0
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Update:
    """One update of a stored baseline.

    Attributes:
        date: the day, as 2026-01-31, in UTC.
        commit: the commit that was measured; "" where it isn't known.
        means: metric name to mean; a metric without a value is left out.
        forced: whether a rule had failed, and the scores were stored anyway.
    """

    date: str
    commit: str
    means: Mapping[str, float]
    forced: bool = False


def today() -> str:
    """The day in UTC."""
    return datetime.now(timezone.utc).date().isoformat()


def commit_of(folder: Path) -> str:
    """The commit that a folder is at, of the service's environment or of git; "" if unknown."""
    for variable in _VARIABLES:
        if commit := os.environ.get(variable, ""):
            return commit[:_DIGITS]
    try:
        shown = subprocess.run(
            ["git", "rev-parse", "--verify", "HEAD"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return shown.stdout.strip()[:_DIGITS]
