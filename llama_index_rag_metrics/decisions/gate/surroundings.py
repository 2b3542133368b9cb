"""What a gate was run on, as far as the surroundings say it: dataset, commit, run, date."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

from llama_index_rag_metrics.decisions.comparison.pairing import Results
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults

_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA")
_BRANCHES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")
_COMMIT_CHARACTERS = 10


def surroundings(results: Results, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Label to value: the dataset where it is known, and what GitHub's or GitLab's CI says.

    >>> from llama_index_rag_metrics import Scores
    >>> ci = {"CI_COMMIT_SHA": "6102b96f0c0ffee", "CI_COMMIT_REF_NAME": "main"}
    >>> about = surroundings(Scores([], {}), ci)
    >>> about["commit"], about["branch"], list(about)
    ('6102b96f0c', 'main', ['commit', 'branch', 'checked'])
    """
    known = dict(_known(os.environ if environment is None else environment))
    dataset = results.about.get("dataset") if isinstance(results, EvaluationResults) else None
    now = {"checked": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"} if known else {}
    return {**({"dataset": dataset} if dataset else {}), **known, **now}


def _known(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if commit := _first(environment, _COMMITS):
        yield "commit", commit[:_COMMIT_CHARACTERS]
    if branch := _first(environment, _BRANCHES):
        yield "branch", branch
    server, repository, run = (
        environment.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")
    )
    github = f"{server}/{repository}/actions/runs/{run}" if server and repository and run else ""
    if job := github or environment.get("CI_JOB_URL", ""):
        yield "run", job


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next(filter(None, map(environment.get, names)), "") or ""
