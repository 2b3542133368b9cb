"""Every place where other people's code runs × every fault: one query is lost, and nothing else."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.evaluation.retrieval.metrics_base import (
    BaseRetrievalMetric,
    RetrievalMetricResult,
)
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import Field
from support.question_llms import ScriptedLLM

from llama_index_rag_metrics import (
    EmbeddingSimilarity,
    LLMRelevancy,
    RerankRelevancy,
    RetrievalDataset,
    evaluate,
    generate_question_context_pairs,
)
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import register_secret

QUERIES = {f"q{n}": f"{n}?" for n in range(12)}
DATASET = RetrievalDataset(QUERIES, {query_id: ["d"] for query_id in QUERIES}, {"d": "a text"})
UNLUCKY = "q3"
KEY = "a-key-that-a-server-echoes"

Fault = Callable[[], Any]


class OwnBaseError(BaseException):
    """What some libraries derive from BaseException."""


class Unreadable(Exception):
    """Its message can't be had."""

    def __str__(self) -> str:
        raise RuntimeError("no message")


def raising(error: Callable[[], BaseException]) -> Fault:
    def fault() -> NoReturn:
        raise error()

    return fault


class Clock:
    """Time for the limits of queries: it passes where nothing but what hangs is waited for."""

    def __init__(self) -> None:
        self.n_hang = 0
        self._limits: set[asyncio.TimerHandle] = set()

    def call_later(
        self, loop: Any, seconds: float, callback: Any, *arguments: Any, **o: Any
    ) -> Any:
        if seconds != LIMIT:
            return loop.call_at(loop.time() + seconds, callback, *arguments, **o)
        timer = loop.call_at(loop.time() + 1e6, callback, *arguments, **o)
        self._limits.add(timer)

        def pass_by() -> None:
            self._limits = {limit for limit in self._limits if not limit.cancelled()}
            if timer in self._limits and len(self._limits) == self.n_hang:
                callback(*arguments)
                self._limits.remove(timer)
                self.n_hang -= 1
            elif timer in self._limits:
                loop.call_at(loop.time() + 0.01, pass_by)

        pass_by()
        return timer


LIMIT = 60
CLOCK = Clock()


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    CLOCK.__init__()  # type: ignore[misc]

    def call_later(*arguments: Any, **options: Any) -> Any:
        return CLOCK.call_later(*arguments, **options)

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_later", call_later)


def hang() -> None:
    CLOCK.n_hang += 1
    threading.Event().wait()


async def hang_asynchronously() -> None:
    CLOCK.n_hang += 1
    await asyncio.sleep(3600)


FAULTS: dict[str, tuple[Fault, str]] = {
    "StopIteration": (lambda: next(iter([])), "StopIteration"),
    "StopAsyncIteration": (raising(StopAsyncIteration), "StopAsyncIteration"),
    "SystemExit": (raising(lambda: SystemExit(3)), "SystemExit: 3"),
    "KeyboardInterrupt": (raising(KeyboardInterrupt), "KeyboardInterrupt"),
    "GeneratorExit": (raising(GeneratorExit), "GeneratorExit"),
    "CancelledError": (raising(asyncio.CancelledError), "CancelledError"),
    "own BaseException": (raising(OwnBaseError), "OwnBaseError"),
    "__str__ raises": (raising(Unreadable), "Unreadable: (its message can't be read"),
    "50 MB message": (raising(lambda: ValueError("m" * 50_000_000)), "ValueError: mmm"),
    "key echoed": (raising(lambda: ValueError(f"{KEY} is refused")), "ValueError: *** is refused"),
    "hangs": (hang, "TimeoutError: not finished within 60 s (timeout=60)"),
}
"""What happens, and how its record begins."""

IN_BETWEEN = {
    # PEP 479
    "StopIteration": "RuntimeError: coroutine raised StopIteration",
    # LlamaIndex's instrumentation asks for the message, and that error comes out instead
    "Unreadable: (its message can't be read": "RuntimeError: no message",
}
"""What Python and LlamaIndex make of some faults on the way."""


def is_recorded(error: str, recorded: str) -> bool:
    return error.startswith((recorded, IN_BETWEEN.get(recorded, recorded)))


def fails(fault: Fault, query: Any) -> None:
    """The fault, where it is the unlucky query's turn."""
    if QUERIES[UNLUCKY] in str(query):
        fault()


class Blocking(BaseRetriever):
    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault = fault

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        fails(self.fault, query_bundle.query_str)
        return [NodeWithScore(node=TextNode(id_="d", text="a text"), score=1.0)]


class Asynchronous(Blocking):
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(0.001)
        if self.fault is hang and query_bundle.query_str == QUERIES[UNLUCKY]:
            await hang_asynchronously()
        return self._retrieve(query_bundle)


def asynchronous_function(fault: Fault) -> Any:
    async def ask(query: str) -> list[str]:
        if fault is hang and query == QUERIES[UNLUCKY]:
            CLOCK.n_hang += 1
            while True:  # and it doesn't let itself be cancelled
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    continue
        fails(fault, query)
        return ["d"]

    return ask


class Postprocessor(BaseNodePostprocessor):
    fault: Any = Field(exclude=True)

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
        fails(self.fault, query_bundle)
        return [NodeWithScore(node=hit.node, score=1.0) for hit in nodes]


class Metric(BaseRetrievalMetric):
    metric_name = "own"
    fault: Any = Field(exclude=True)

    def compute(self, query: Any = None, *_: Any, **__: Any) -> RetrievalMetricResult:
        fails(self.fault, query)
        return RetrievalMetricResult(score=1.0)


class AsynchronousMetric(Metric):
    async def acompute(self, query: Any = None, *_: Any, **__: Any) -> RetrievalMetricResult:
        if self.fault is hang and query == QUERIES[UNLUCKY]:
            await hang_asynchronously()
        return self.compute(query)


class Embedding(BaseEmbedding):
    fault: Any = Field(exclude=True)

    def _get_text_embedding(self, text: str) -> list[float]:
        return [1.0, 0.0]

    def _get_query_embedding(self, query: str) -> list[float]:
        fails(self.fault, query)
        return [1.0, 0.0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def judge(fault: Fault, answer: str = '{"grade": 1}') -> ScriptedLLM:
    def answered(prompt: str) -> str:
        fails(fault, prompt)
        return answer

    return ScriptedLLM(answered)


RETRIEVAL: dict[str, Callable[[Fault], dict[str, Any]]] = {
    "retriever": lambda fault: {"retriever": Blocking(fault)},
    "asynchronous retriever": lambda fault: {"retriever": Asynchronous(fault)},
    "asynchronous function": lambda fault: {"retriever": asynchronous_function(fault)},
    "postprocessor": lambda fault: {"node_postprocessors": [Postprocessor(fault=fault)]},
}
METRICS: dict[str, Callable[[Fault], BaseRetrievalMetric]] = {
    "metric": lambda fault: Metric(fault=fault),
    "asynchronous metric": lambda fault: AsynchronousMetric(fault=fault),
    "embedding": lambda fault: EmbeddingSimilarity(embed_model=Embedding(fault=fault)),
    "reranker": lambda fault: RerankRelevancy(reranker=Postprocessor(fault=fault)),
    "LLM": lambda fault: LLMRelevancy(llm=judge(fault)),
}


def asked(retriever: Any = None, metrics: Any = (), **options: Any) -> EvaluationResults:
    """The results, of an evaluation that ends."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(
                evaluate(
                    retriever or Blocking(lambda: None),
                    DATASET,
                    ["recall", *metrics],
                    timeout=LIMIT if options.pop("hangs", False) else None,
                    **options,
                )
            )
        except BaseException as error:  # noqa: BLE001 - raised below
            outcome.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    assert outcome, "it hangs"
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _registered() -> None:
    register_secret(KEY)


@pytest.mark.parametrize(("fault", "recorded"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("place", RETRIEVAL)
def test_retrieval_loses_one_query(place: str, fault: Fault, recorded: str, tmp_path: Path) -> None:
    made = RETRIEVAL[place](fault)
    results = asked(**made, journal=tmp_path / "journal", hangs=fault is hang)
    assert list(results.scores.failed) == [UNLUCKY]
    assert is_recorded(results.scores.failed[UNLUCKY], recorded)
    assert len(results.scores.failed[UNLUCKY]) < 1_100
    assert results.scores.means["recall"] == 11 / 12
    rows = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    assert {row["query_id"] for row in rows[1:]} == QUERIES.keys() - {UNLUCKY}


@pytest.mark.parametrize(("fault", "recorded"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("place", METRICS)
def test_metric_loses_one_value(place: str, fault: Fault, recorded: str) -> None:
    metric = METRICS[place](fault)
    results = asked(metrics=[metric], hangs=fault is hang)
    assert results.scores.failed == {}
    assert results.scores.means["recall"] == 1
    name = metric.metric_name
    assert results.scores.by_query(name).keys() == QUERIES.keys() - {UNLUCKY}
    (note,) = (note for note in results.scores.notes if note.startswith(name))
    begin, _, error = note.partition(f"'{UNLUCKY}': ")
    assert begin == f"{name} has no value for 1 question; "
    assert is_recorded(error, recorded)
    assert KEY not in note
    assert len(note) < 1_200


@pytest.mark.parametrize(
    ("fault", "recorded"),
    [fault for name, fault in FAULTS.items() if name != "hangs"],
    ids=[name for name in FAULTS if name != "hangs"],
)
def test_node_that_an_llm_fails_on_has_no_questions(fault: Fault, recorded: str) -> None:
    nodes = [TextNode(id_=query_id, text=query) for query_id, query in QUERIES.items()]
    dataset = generate_question_context_pairs(nodes, judge(fault, "Who wrote it?"), retry_limit=1)
    answered = {document for relevant in dataset.relevance.values() for document in relevant}
    assert answered == QUERIES.keys() - {UNLUCKY}
    (note,) = (note for note in dataset.notes if "1 of 12 nodes failed" in note)
    assert is_recorded(note.partition(f"'{UNLUCKY}' (")[2], recorded)
    assert len(note) < 1_200


class TestLimits:
    def test_hanging_queries_stall_nobody(self) -> None:
        stuck = threading.Event()

        def ask(query: str) -> list[str]:
            if int(query[:-1]) % 4 == 0:
                CLOCK.n_hang += 1
                stuck.wait()
            return ["d"]

        results = evaluate(ask, DATASET, ["recall"], workers=2, timeout=LIMIT)
        stuck.set()
        assert list(results.scores.failed) == ["q0", "q4", "q8"]

    @pytest.mark.parametrize(
        "options", [{"timeout": 0}, {"timeout": True}, {"timeout": "1"}, {"timeout": float("nan")}]
    )
    def test_limits_that_are_no_seconds_are_refused_first(self, options: Any) -> None:
        with pytest.raises(InvalidInput, match=next(iter(options))):
            evaluate(lambda query: pytest.fail("asked"), DATASET, ["recall"], **options)


def test_reranker_s_key_is_not_shown() -> None:
    class Keyed(Postprocessor):
        api_key: str = KEY

    metric = RerankRelevancy(reranker=Keyed(fault=None), label="keyed")
    assert KEY not in repr(metric) + str(metric) + str(metric.model_dump())
