"""Every public function refuses what isn't a number where it takes one, by the argument's name."""

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import TextNode

import llama_index_rag_metrics as package
from llama_index_rag_metrics import (
    LLMRelevancy,
    Ranking,
    RetrievalDataset,
    RetrieverEvaluator,
    Run,
    Scores,
    labels,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput, check_amount, check_integer

CORPUS = {"d1": "Enceladus has geysers.", "d2": "Titan has lakes."}
QUERIES = {f"q{number}": f"Which moon has {number} lakes?" for number in range(4)}
RELEVANT = {query_id: {"d1": 1} for query_id in QUERIES}
DATASET = RetrievalDataset(QUERIES, RELEVANT, CORPUS)
RUN = Run({query_id: Ranking(["d2", "d1"], texts=["Lakes.", "Geysers."]) for query_id in QUERIES})
OTHER = Run({query_id: ["d2", "d3"] for query_id in QUERIES})
SCORES = Scores(list(QUERIES), {"mrr": [1.0, 0.5, 0.5, 0.25]})


def retrieve(query: str) -> list[str]:
    return ["d1", "d2"]


def reviewed(**options: Any) -> object:
    to_judge = labels.pool({"a": RUN, "b": OTHER})
    return labels.write_review_page(to_judge, Path("never written.html"), **options)


def evaluator() -> RetrieverEvaluator:
    return RetrieverEvaluator.from_metric_names(["mrr"], retriever=retrieve)


NUMBERS: Mapping[str, Callable[..., object]] = {
    "LLMRelevancy.grade": lambda **options: LLMRelevancy(llm=MockLLM()).grade(
        QUERIES, RUN, **options
    ),
    "RetrieverEvaluator.evaluate_dataset": lambda **options: evaluator().evaluate_dataset(
        DATASET, **options
    ),
    "Scores.intervals": SCORES.intervals,
    "Scores.worst": lambda n=1: SCORES.worst("mrr", n),
    "agreement": lambda **options: labels.agreement(RELEVANT, RELEVANT, **options),
    "assert_retrieval": lambda **options: package.assert_retrieval(SCORES, "mrr >= 0", **options),
    "check_labels": lambda **options: labels.check_labels(DATASET, **options),
    "check_rules": lambda **options: package.check_rules(SCORES, ["mrr >= 0"], **options),
    "compare": lambda **options: package.compare({"a": SCORES, "b": SCORES}, "a", **options),
    "evaluate": lambda **options: package.evaluate(retrieve, DATASET, ["mrr"], **options),
    "evaluate_stages": lambda **options: package.evaluate_stages(
        retrieve, {"cutoff": SimilarityPostprocessor()}, DATASET, ["mrr"], **options
    ),
    "generate_question_context_pairs": lambda **options: package.generate_question_context_pairs(
        [TextNode(text="Titan has lakes.")], MockLLM(), **options
    ),
    "move_labels": lambda **options: labels.move_labels(DATASET, {"n": "Lakes."}, **options),
    "pool": lambda **options: labels.pool({"a": RUN, "b": OTHER}, RELEVANT, **options),
    "record_retrieval": lambda **options: package.record_retrieval("x", ["d1"], **options),
    "score_rankings": lambda **options: package.score_rankings(RELEVANT, RUN, ["mrr"], **options),
    "score_table": lambda **options: package.score_table(
        {"expected_ids": [["d1"]], "retrieved_ids": [["d1", "d2"]]}, ["mrr"], **options
    ),
    "sweep": lambda **options: package.sweep(
        lambda **_: retrieve, {"depth": [1, 2]}, DATASET, ["mrr"], **options
    ),
    "write_review_page": reviewed,
}
"""How each is called with everything but its numbers."""


HOMES = (package, labels)

ANY_NUMBER = {("agreement", "min_grade")}


def numbers_of(function: object) -> dict[str, str]:
    """The arguments that are a number, or a number or None, with their types."""
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return {
        parameter.name: parameter.annotation
        for parameter in parameters
        if re.fullmatch(r"(int|float)( \| None)?", str(parameter.annotation))
    }


def named(name: str) -> Any:
    first, *parts = name.split(".")
    target: Any = next(getattr(home, first) for home in HOMES if hasattr(home, first))
    for part in parts:
        target = getattr(target, part)
    return target


def arguments() -> Iterator[tuple[str, str, str]]:
    for name in NUMBERS:
        for argument, kind in numbers_of(named(name)).items():
            yield name, argument, kind


def test_functions_that_take_a_number_are_all_here() -> None:
    names = [*package.__all__, *labels.__all__]
    functions = {name for name in names if inspect.isfunction(named(name))}
    blocking = {name for name in functions if name[0] != "a" or name[1:] not in functions}
    assert {name for name in blocking if numbers_of(named(name))} <= NUMBERS.keys()


@pytest.mark.parametrize(("name", "argument", "kind"), list(arguments()))
@pytest.mark.parametrize("value", ["5", None, True, math.nan, -7.5, [1]], ids=repr)
def test_value_that_is_no_number(name: str, argument: str, kind: str, value: Any) -> None:
    if value is None and kind.endswith("None"):
        pytest.skip("None is a value of this argument")
    takes_any = argument == "min_score" or (name, argument) in ANY_NUMBER
    if value == -7.5 and takes_any:
        pytest.skip("any finite number will do")
    with pytest.raises(InvalidInput) as caught:
        NUMBERS[name](**{argument: value})
    assert argument in str(caught.value)


def test_whole_numbers_start_at_the_least() -> None:
    check_integer("n", 1)
    check_integer("n", -3, -math.inf)
    for value in (0, 1.0, True, "1", None):
        with pytest.raises(InvalidInput, match="n: expected a whole number of at least 1, got"):
            check_integer("n", value)


@pytest.mark.parametrize(
    ("name", "argument"), [("Scores.worst", "n"), ("pool", "n"), ("pool", "depth")]
)
def test_numpy_s_whole_numbers_are_whole_numbers(name: str, argument: str) -> None:
    plain, counted = (NUMBERS[name](**{argument: value}) for value in (2, np.int64(2)))
    assert repr(counted) == repr(plain)


def test_number_beyond_all_floats_is_out_of_range() -> None:
    with pytest.raises(InvalidInput, match="limit: expected a finite number"):
        check_amount("limit", 10**400, "a finite number", math.isfinite)


def test_amounts_are_within_their_range() -> None:
    check_amount("x", math.inf, "a number above 0", lambda value: value > 0)
    for value in (0, 1.1, math.nan, True, "0.5", None):
        with pytest.raises(InvalidInput, match="share: expected a number above 0, up to 1, got"):
            check_amount("share", value, "a number above 0, up to 1", lambda share: 0 < share <= 1)
