"""Messages name the argument, its value, what was expected and what to do; errors travel."""

import asyncio
import inspect
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from support.golden import check_golden

from llama_index_rag_metrics import (
    ERR,
    MRR,
    NDCG,
    Accuracy,
    FScore,
    Precision,
    RagMetricsError,
    RetrieverEvaluator,
    aevaluate,
    evaluate,
    metric,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.as_ask import SourceRetriever, as_source
from llama_index_rag_metrics.metrics.metric_names import metrics
from llama_index_rag_metrics.runtime import errors as package_errors
from llama_index_rag_metrics.runtime.errors import (
    FileFormatError,
    GateFailed,
    InvalidInput,
    JournalMismatch,
    LabelWarning,
    MissingExtra,
    MissingKey,
    RetrievalFailed,
    ScorerFailed,
    UnknownMetric,
)

ONE_OF_EACH = [
    RagMetricsError("anything"),
    InvalidInput("k", 0, "a number above 0", "Leave it out."),
    UnknownMetric("ngcd", ["ndcg"]),
    MissingExtra("score_table()", "batch"),
    FileFormatError("run.trec", 3, "six columns", "q1 Q0"),
    MissingKey("cohere_rerank_relevancy", ["CO_API_KEY"]),
    ScorerFailed("reranker", "timeout", "request-1"),
    RetrievalFailed("q1", "timeout"),
    JournalMismatch("journal 'run.jsonl' is of another run"),
    GateFailed("a table"),
]


def test_all_errors_of_the_package_are_listed() -> None:
    classes = {
        member
        for _, member in inspect.getmembers(package_errors, inspect.isclass)
        if issubclass(member, RagMetricsError)
    }
    assert {type(error) for error in ONE_OF_EACH} == classes


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error: RagMetricsError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    "warning",
    [
        kind("a message")
        for kind in vars(package_errors).values()
        if isinstance(kind, type) and issubclass(kind, UserWarning)
    ],
    ids=lambda warning: type(warning).__name__,
)
def test_warnings_are_made_of_a_message_as_pytest_xdist_makes_them(warning: UserWarning) -> None:
    assert str(type(warning)(*warning.args)) == str(warning)
    assert str(pickle.loads(pickle.dumps(warning))) == str(warning)


@pytest.mark.parametrize(
    "error",
    [error for error in ONE_OF_EACH if isinstance(error, (InvalidInput, UnknownMetric))],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_a_value_are_value_errors(error: RagMetricsError) -> None:
    assert isinstance(error, ValueError)


def test_missing_extra_is_an_import_error() -> None:
    error = MissingExtra("score_table()", "batch")
    assert isinstance(error, ImportError)
    command = "python -m pip install 'llama-index-rag-metrics[batch]'"
    assert str(error) == f"score_table() needs an extra: {command}"


def test_long_value_is_shortened() -> None:
    assert len(str(InvalidInput("ids", ["x"] * 1000, "a list"))) < 200


REFUSED: list[Callable[[], Any]] = [
    lambda: MRR().compute("", None, ["a"]),
    lambda: MRR().compute("", {"a": 0}, ["a"]),
    lambda: MRR().compute("", ["a"], None),
    lambda: MRR().compute("", ["1"], [1]),  # type: ignore[list-item]
    lambda: MRR().compute("", "a", ["a"]),
    lambda: MRR().compute("", ["a"], "a"),
    lambda: MRR().compute("", ["a"], ["a"], agg="mean"),
    lambda: ERR().compute("", {"a": 5}, ["a"]),
    lambda: NDCG(mode="exponential").compute("", {"a": 65}, ["x"]),
    lambda: Accuracy(corpus_size=2).compute("", ["a"], ["b", "c"]),
    lambda: metric("ngcd@10"),
    lambda: metric("ndcg(mod=linear)"),
    lambda: metric("ndcg@0"),
    lambda: metric("ndcg(ideal=all)@10"),
    lambda: metric("accuracy"),
    lambda: metrics(["mrr", "mrr"]),
    lambda: metrics([Precision]),  # type: ignore[list-item]
    lambda: metrics([]),
    lambda: score_rankings([["a"]], [["a"], ["b"]], "mrr"),
    lambda: score_rankings({"q": ["a"]}, [["a"]], "mrr"),
    lambda: score_rankings({1: ["a"]}, {"1": ["a"]}, "mrr"),  # type: ignore[dict-item]
    lambda: score_rankings([["a"]], [["a"]], "mrr", no_relevant="drop"),  # type: ignore[arg-type]
    lambda: score_rankings({"q7": {"a": 0}}, {"q7": []}, "mrr", no_relevant="error"),
]


def test_messages_name_what_is_wrong_and_what_to_do() -> None:
    texts = []
    for call in REFUSED:
        with pytest.raises(RagMetricsError) as caught:
            call()
        texts.append(str(caught.value))
    check_golden("messages.txt", texts)


@pytest.mark.parametrize(
    "build",
    [
        lambda: NDCG(k=True),
        lambda: NDCG(k=0),
        lambda: NDCG(k=5.0),  # type: ignore[arg-type]
        lambda: NDCG(k="5"),  # type: ignore[arg-type]
        lambda: NDCG(q=1),  # type: ignore[call-arg]
        lambda: NDCG(mode="log"),
        lambda: NDCG(k=5, ideal="all"),
        lambda: Precision(min_grade=0),
        lambda: Precision(min_grade=float("nan")),
        lambda: FScore(beta=0),
        lambda: FScore(beta=float("inf")),
        lambda: ERR(max_grade=65),
        Accuracy,
        lambda: Accuracy(corpus_size=True),
    ],
)
def test_metric_refuses_parameters_that_mean_nothing(build: Callable[[], Any]) -> None:
    with pytest.raises((InvalidInput, UnknownMetric)):
        build()


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


def test_warnings_come_once_a_call_and_again_on_another_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            evaluate(retrieve, DATASET, ["mrr"])
        evaluate(retrieve, DATASET, ["mrr"])
    lines = [warning.lineno for warning in caught if warning.category is LabelWarning]
    assert len(set(lines)) == len(lines) == 2
