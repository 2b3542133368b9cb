"""Warnings point at the program's own line, whatever stands between it and the package."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from llama_index_rag_metrics import RetrieverEvaluator, aevaluate, evaluate
from llama_index_rag_metrics.evaluation.as_ask import SourceRetriever, as_source
from llama_index_rag_metrics.metrics.metric_names import metrics
from llama_index_rag_metrics.runtime.errors import LabelWarning

DATASET = {"queries": {"q": "?"}, "corpus": {}, "relevant_docs": {"q": ["label"]}}


def retrieve(query: str) -> list[str]:
    return ["c1"]


def evaluator() -> RetrieverEvaluator:
    return RetrieverEvaluator(
        metrics=metrics(["mrr"]), retriever=SourceRetriever(as_source(retrieve))
    )


async def awaited() -> None:
    await aevaluate(retrieve, DATASET, ["mrr"])


async def inside_a_loop() -> None:
    evaluate(retrieve, DATASET, ["mrr"])


WAYS: list[Callable[[], Any]] = [
    lambda: evaluate(retrieve, DATASET, ["mrr"]),
    lambda: evaluator().evaluate_dataset(DATASET),
    lambda: asyncio.run(awaited()),
    lambda: asyncio.run(inside_a_loop()),
]


@pytest.mark.parametrize("way", WAYS, ids=["sync", "evaluator", "async", "sync in a loop"])
def test_labels_are_warned_of_where_the_program_calls(way: Callable[[], Any]) -> None:
    with pytest.warns(LabelWarning) as caught:
        way()
    (warning,) = [warning for warning in caught if warning.category is LabelWarning]
    assert warning.filename == __file__


def test_each_call_warns_once_and_another_line_again() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            evaluate(retrieve, DATASET, ["mrr"])
        evaluate(retrieve, DATASET, ["mrr"])
    lines = [warning.lineno for warning in caught if warning.category is LabelWarning]
    assert len(set(lines)) == len(lines) == 2
