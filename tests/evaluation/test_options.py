"""Options of an evaluation are declared once: what type checkers and signatures make of them."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import llama_index_rag_metrics as package
from llama_index_rag_metrics.decisions.sweeps.sweeping import SweepOptions
from llama_index_rag_metrics.evaluation.asking.run_options import (
    EvaluateOptions,
    RunOptions,
    StageOptions,
)
from llama_index_rag_metrics.runtime.amounts import WORKERS

HOME = Path(package.__file__).parent.parent
DATASET = {"queries": {"q": "x?"}, "corpus": {}, "relevant_docs": {"q": ["d"]}}

SCRIPT = """
from llama_index_rag_metrics import (
    RetrieverEvaluator, aevaluate, asweep, evaluate, evaluate_stages, sweep
)

def retrieve(query: str) -> list[str]:
    return ["d1"]

evaluator = RetrieverEvaluator.from_metric_names(["mrr"], retriever=retrieve)
evaluate(retrieve, "beir", workers=8, timeout=3).scores.means["mrr"].hex()
evaluate_stages(retrieve, [], "beir", workers=8, failed="exclude")
evaluator.evaluate_dataset("beir", 8, True, journal="run.jsonl")
sweep(lambda k: retrieve, {"k": [1, 2]}, "beir", workers=8, cache=None, matcher="text").winner

async def awaited() -> None:
    await aevaluate(retrieve, "beir", workers=8, timeout=None)
    await aevaluate(retrieve, "beir", worker=8)  # refused
    await evaluator.aevaluate_dataset("beir", worker=8)  # refused
    await asweep(lambda k: retrieve, {"k": [1, 2]}, "beir", workers=8, journal="sweep")
    await asweep(lambda k: retrieve, {"k": [1, 2]}, "beir", worker=8)  # refused

evaluate(retrieve, "beir", worker=8)  # refused
evaluate(retrieve, "beir", timeout="3 s")  # refused
evaluate(retrieve, "beir", failed="cold")  # refused
evaluate_stages(retrieve, [], "beir", worker=8)  # refused
evaluate_stages(retrieve, [], "beir", journal="run.jsonl")  # refused
evaluator.evaluate_dataset("beir", worker=8)  # refused
sweep(lambda k: retrieve, {"k": [1, 2]}, "beir", worker=8)  # refused
sweep(lambda k: retrieve, {"k": [1, 2]}, "beir", timeout="3 s")  # refused
sweep(lambda k: retrieve, {"k": [1, 2]}, "beir", run="mine")
"""


FUNCTIONS: dict[Callable[..., Any], Any] = {
    package.evaluate: EvaluateOptions,
    package.aevaluate: EvaluateOptions,
    package.RetrieverEvaluator.aevaluate_dataset: EvaluateOptions,
    package.RetrieverEvaluator.evaluate_dataset: EvaluateOptions,
    package.evaluate_stages: StageOptions,
    package.aevaluate_stages: StageOptions,
    package.sweep: SweepOptions,
    package.asweep: SweepOptions,
}
each_function = pytest.mark.parametrize(
    "function", FUNCTIONS, ids=lambda function: f"{function.__module__}.{function.__qualname__}"
)


def checked(checker: str, *options: str) -> str:
    """What a type checker prints; with mypy's own cache, which saves a minute."""
    if find_spec(checker) is None:
        pytest.skip(f"{checker} isn't installed")
    command = [sys.executable, "-m", checker, *options]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=HOME, env=environment
    )
    if not result.stdout.strip():
        pytest.skip(f"{checker} doesn't run here: {result.stderr[-200:]}")
    return result.stdout


@pytest.mark.parametrize(
    ("checker", "options"), [("mypy", ["--strict"]), ("pyright", ["--pythonpath", sys.executable])]
)
def test_type_checkers_know_every_option(checker: str, options: list[str], tmp_path: Path) -> None:
    script = tmp_path / "users_script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    printed = checked(checker, *options, str(script))
    errors = {int(line) for line in re.findall(r"users_script\.py:(\d+)\S* (?:- )?error", printed)}
    lines = enumerate(SCRIPT.splitlines(), 1)
    assert errors == {number for number, line in lines if line.endswith("# refused")}, printed


@each_function
def test_a_signature_shows_every_option_with_its_default(function: Any) -> None:
    shown = inspect.signature(function).parameters
    declared = FUNCTIONS[function].__annotations__
    assert declared.keys() <= shown.keys()
    assert not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in shown.values())
    assert shown["workers"].default == WORKERS
    assert shown["timeout"].annotation == "float | None"
    defaults = RunOptions()
    for name in declared.keys() - {"cache"}:
        assert shown[name].default == getattr(defaults, name)


def test_the_run_has_every_option_and_its_type() -> None:
    run, declared = RunOptions.__annotations__, EvaluateOptions.__annotations__
    types = {name: annotation.__forward_arg__ for name, annotation in declared.items()}
    assert types.keys() <= run.keys()
    assert {name: run[name] for name in types if name != "cache"} == {
        name: text for name, text in types.items() if name != "cache"
    }


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("worker", "evaluate() has no argument 'worker'. Did you mean 'workers'?"),
        ("time_out", "evaluate() has no argument 'time_out'. Did you mean 'timeout'?"),
        ("top_k", "evaluate() has no argument 'top_k'. The retriever decides how many nodes"),
        ("beta", "evaluate() has no argument 'beta'. Parameters of a metric belong to the metric."),
    ],
)
def test_an_option_that_isnt_there(argument: str, sentence: str) -> None:
    with pytest.raises(package.RagMetricsError, match=re.escape(sentence)):
        package.evaluate(lambda query: ["d"], DATASET, ["mrr"], **{argument: 8})  # type: ignore[arg-type]
