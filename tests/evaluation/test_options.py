"""Options of an evaluation are declared in signatures: Python and type checkers refuse others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import llama_index_rag_metrics as package
from llama_index_rag_metrics.decisions.stages import aevaluate_stages
from llama_index_rag_metrics.evaluation.plan import Plan

DATASET = {"queries": {"q": "x?"}, "corpus": {}, "relevant_docs": {"q": ["d"]}}
DECLARED = {field.name: field for field in fields(Plan) if field.init}
FUNCTIONS = [package.evaluate, package.aevaluate, package.evaluate_stages, aevaluate_stages]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_options_have_the_defaults_and_types_of_a_plan(function: Callable[..., Any]) -> None:
    shown = inspect.signature(function).parameters
    options = shown.keys() & DECLARED.keys() - {"dataset", "metrics", "cache", "matcher"}
    assert len(options) >= 7
    for name in options:
        assert shown[name].annotation == DECLARED[name].type
    for name in options - {"workers"}:
        assert shown[name].default == DECLARED[name].default


def test_evaluate_has_every_option() -> None:
    assert inspect.signature(package.evaluate).parameters.keys() - {"retriever"} == DECLARED.keys()


@pytest.mark.parametrize(
    "call",
    [
        lambda options: package.evaluate(lambda query: ["d"], DATASET, ["mrr"], **options),
        lambda options: package.evaluate_stages(lambda query: ["d"], {}, DATASET, **options),
        lambda options: package.sweep(lambda k: lambda q: ["d"], {"k": [1]}, DATASET, **options),
        lambda options: package.RetrieverEvaluator.from_metric_names(
            ["mrr"], retriever=lambda query: ["d"]
        ).evaluate_dataset(DATASET, **options),
    ],
)
def test_python_refuses_an_option_that_isnt_there(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'worker'"):
        call({"worker": 8})


def test_the_refusal_names_the_function_that_was_called() -> None:
    with pytest.raises(TypeError, match=r"^evaluate\(\) got an unexpected"):
        package.evaluate(lambda query: ["d"], DATASET, worker=8)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^evaluate\(\) missing 1 required"):
        package.evaluate(lambda query: ["d"])  # type: ignore[call-arg]
