"""What a gate was run on, as far as the surroundings say it: dataset, commit, run, date."""

from __future__ import annotations

import os
from datetime import datetime, timezone

from llama_index_rag_metrics.decisions.comparison.pairing import Results
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults

COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "GIT_COMMIT")
"""Where services of continuous integration name the commit."""

_BRANCHES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")
_GITHUB_RUN = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
_COMMIT_CHARACTERS = 10


def surroundings(results: Results) -> dict[str, str]:
    """Label to value: the dataset where it is known, and what CI says, such as the commit."""
    server, repository, run = map(first_of, _GITHUB_RUN)
    github = f"{server}/{repository}/actions/runs/{run}" if server and repository and run else ""
    of_ci = {
        "commit": first_of(*COMMITS)[:_COMMIT_CHARACTERS],
        "branch": first_of(*_BRANCHES),
        "run": github or first_of("CI_JOB_URL"),
    }
    now = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC" if any(of_ci.values()) else ""
    dataset = results.about.get("dataset", "") if isinstance(results, EvaluationResults) else ""
    about = {"dataset": dataset, **of_ci, "checked": now}
    return {label: value for label, value in about.items() if value}


def first_of(*variables: str) -> str:
    """The first of some variables of the environment that is set; "" where none is."""
    return next(filter(None, map(os.environ.get, variables)), "")
