"""The shell steps of action.yml, run as GitHub runs them: bash, and inputs as variables."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llama_index_rag_metrics.demo import collection

yaml = pytest.importorskip("yaml", reason="reads action.yml")
if shutil.which("bash") is None:
    pytest.skip("the steps are of bash", allow_module_level=True)

ACTION = next(
    (
        folder / "action.yml"
        for folder in Path(__file__).parents
        if (folder / "action.yml").exists()
    ),
    None,
)
if ACTION is None:
    pytest.skip("action.yml isn't part of this distribution", allow_module_level=True)
DEFINITION = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in DEFINITION["runs"]["steps"]}
DATASET = str(Path(collection.__file__).parent / "data")


def run_step(name: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """One step in a folder, with these inputs and otherwise the defaults."""
    values = {
        key: str(declared.get("default", "")) for key, declared in DEFINITION["inputs"].items()
    }
    values.update(inputs)

    def expression(match: re.Match[str]) -> str:
        room, _, rest = match[1].partition(".")
        return values[rest] if room == "inputs" else "retrieval-report/scores.json"

    step = STEPS[name]
    variables = {
        key: re.sub(r"\$\{\{ (.*?) \}\}", expression, value) for key, value in step["env"].items()
    }
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    program = programs / "rag-metrics"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m llama_index_rag_metrics "$@"\n')
    program.chmod(0o755)
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.slow
def test_a_retriever_is_evaluated_and_judged(tmp_path: Path) -> None:
    pytest.importorskip("bm25s", reason="the demo extra")
    pytest.importorskip("itables", reason="the report extra")
    done = run_step("Evaluate or score", tmp_path, dataset=DATASET, retriever="bm25")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output").read_text() == "scores=retrieval-report/scores.json\n"
    assert (tmp_path / "retrieval-report/report.html").exists()

    kept = run_step("Gate", tmp_path, rules="recall@5 >= 0.5\nfailed <= 0\n")
    assert kept.returncode == 0, kept.stderr
    assert "| 0.56 |" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    # the mean is 0.5621, as the demo shows
    assert run_step("Gate", tmp_path, rules="recall@5 >= 0.9").returncode == 1


@pytest.mark.slow
def test_a_stored_run_is_scored_and_inputs_are_never_code(tmp_path: Path) -> None:
    (tmp_path / "a $(touch hacked).run").write_text("q1 Q0 d1 1 2.0 tag\nq1 Q0 d2 2 1.0 tag\n")
    (tmp_path / "qrels.txt").write_text("q1 0 d2 1\n")
    inputs = {"run": "a $(touch hacked).run", "qrels": "qrels.txt", "metrics": "mrr recall@1"}
    done = run_step("Evaluate or score", tmp_path, **inputs)
    assert done.returncode == 0, done.stderr
    # d2 is second: mrr 1/2, recall@1 0
    assert run_step("Gate", tmp_path, rules="mrr >= 0.5\nrecall@1 <= 0").returncode == 0
    assert run_step("Gate", tmp_path, rules="mrr > 0.5").returncode == 1
    assert not (tmp_path / "hacked").exists()


@pytest.mark.slow
def test_wrong_usage_ends_the_step(tmp_path: Path) -> None:
    assert run_step("Evaluate or score", tmp_path, dataset="nowhere", retriever="bm25").returncode
