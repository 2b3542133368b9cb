"""The evaluator on real LlamaIndex retrievers: results, failures, concurrency, sources, options."""

import asyncio
import inspect
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.evaluation import get_retrieval_results_df
from llama_index.core.evaluation.retrieval.base import RetrievalEvalMode
from llama_index.core.evaluation.retrieval.metrics import HitRate as CoreHitRate
from support.retrievers import Postprocessor, Scripted, node

import llama_index_rag_metrics as package
from llama_index_rag_metrics import (
    Relevance,
    RetrievalDataset,
    RetrieverEvaluator,
    aevaluate,
    evaluate,
)
from llama_index_rag_metrics.decisions.stages import aevaluate_stages
from llama_index_rag_metrics.distributed import ray
from llama_index_rag_metrics.evaluation.plan import Plan
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning, RetrievalFailed

SCRIPT = {"first?": ["d1", "x"], "second?": ["x", "d2"], "third?": [], "fourth?": ["d4"]}


@pytest.fixture
def dataset() -> RetrievalDataset:
    return RetrievalDataset(
        queries={"q1": "first?", "q2": "second?", "q3": "third?", "q4": "fourth?"},
        relevance={"q1": {"d1": 3, "x": 1}, "q2": ["d2"], "q3": ["d3"], "q4": {"d4": 0}},
        metadata={"q1": {"language": "en"}, "q2": {"language": "ko"}},
    )


def test_results_hold_run_relevance_scores_and_rows_of_llama_index(
    dataset: RetrievalDataset,
) -> None:
    results = evaluate(Scripted(SCRIPT), dataset, ["mrr", "ndcg@2"], name="scripted")
    # q1: 1; q2: first hit at 2; q3: nothing retrieved; q4: nothing relevant, left out
    assert results.scores.means["mrr"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert results.scores.query_ids == ("q1", "q2", "q3")
    assert results.scores.excluded == {"q4": "no_relevant"}
    assert results.scores.empty == ("q3",)
    assert results.scores.name == results.run.name == "scripted"
    assert results.run.queries == dataset.queries
    assert list(results.run["q2"].ids) == ["x", "d2"]
    assert results.relevance["q1"].grades == {"d1": 3, "x": 1}
    assert [result.query for result in results] == ["first?", "second?", "third?", "fourth?"]
    assert results[0].metric_vals_dict["mrr"] == 1
    assert results[0].retrieved_texts == ["text of d1", "text of x"]
    assert results[3].metric_dict == {}


def test_llama_index_table_shows_the_same_means(dataset: RetrievalDataset) -> None:
    pytest.importorskip("pandas", reason="LlamaIndex's table needs pandas")
    results = evaluate(Scripted(SCRIPT), dataset, ["mrr", "hit_rate"])
    table = get_retrieval_results_df(["scripted"], [list(results)], metric_keys=["mrr", "hit_rate"])
    assert table["mrr"][0] == pytest.approx(results.scores.means["mrr"])
    assert table["hit_rate"][0] == pytest.approx(2 / 3)


def test_failing_query_is_recorded_and_scores_zero(dataset: RetrievalDataset) -> None:
    retriever = Scripted({**SCRIPT, "second?": RuntimeError("the index is gone")})
    results = evaluate(retriever, dataset, ["mrr"])
    assert results.scores.failed == {"q2": "RuntimeError: the index is gone"}
    assert results.scores.counts.failed == 1
    assert results.scores.by_query("mrr") == {"q1": 1.0, "q2": 0.0, "q3": 0.0}
    assert results[1].metric_dict["mrr"].metadata["error"] == "RuntimeError: the index is gone"
    left_out = evaluate(retriever, dataset, ["mrr"], failed="exclude")
    assert left_out.scores.means["mrr"] == pytest.approx((1 + 0) / 2)
    assert left_out.scores.excluded["q2"] == "failed"


def test_raise_on_error_names_the_query(dataset: RetrievalDataset) -> None:
    retriever = Scripted({**SCRIPT, "second?": RuntimeError("the index is gone")})
    with pytest.raises(RetrievalFailed, match="question 'q2': RuntimeError: the index is gone"):
        evaluate(retriever, dataset, ["mrr"], raise_on_error=True)


def test_blocking_retrievers_run_side_by_side() -> None:
    queries = {f"q{n}": f"{n}?" for n in range(12)}
    dataset = RetrievalDataset(queries=queries, relevance={query_id: ["d"] for query_id in queries})
    six_at_once = threading.Barrier(6)

    def ask(query: str) -> list[str]:
        six_at_once.wait(timeout=20)  # raises where fewer than six are asked at once
        return ["d"]

    assert evaluate(ask, dataset, ["mrr"], workers=6).scores.failed == {}


def test_blocking_retriever_never_blocks_the_loop(dataset: RetrievalDataset) -> None:
    loop_went_on = threading.Event()

    def ask(query: str) -> list[str]:
        if not loop_went_on.wait(timeout=20):
            raise TimeoutError("the event loop stood still while the retriever was asked")
        return SCRIPT[query]

    async def main() -> dict[str, str]:
        asked = asyncio.create_task(aevaluate(ask, dataset, ["mrr"], workers=2))
        for _ in range(100):
            await asyncio.sleep(0)
        loop_went_on.set()
        return (await asked).scores.failed  # type: ignore[return-value]

    assert asyncio.run(main()) == {}


def test_postprocessors_run_in_order(dataset: RetrievalDataset) -> None:
    steps: Any = (lambda nodes: nodes[::-1], lambda nodes: nodes[:1])
    chain = [Postprocessor(function=step) for step in steps]
    results = evaluate(Scripted(SCRIPT), dataset, ["mrr"], node_postprocessors=chain)
    assert list(results.run["q2"].ids) == ["d2"]


@pytest.mark.parametrize("match_on", ["ref_doc_id", "file", lambda hit: hit.node.metadata["file"]])
def test_chunks_of_a_document_count_at_their_best_rank(match_on: Any) -> None:
    chunks = [
        node("c1", document="other.txt", file="other.txt"),
        node("c2", document="wanted.txt", file="wanted.txt"),
        node("c3", document="wanted.txt", file="wanted.txt"),
    ]
    dataset = RetrievalDataset(queries={"q": "?"}, relevance={"q": ["wanted.txt"]})
    metrics = ["ap", "precision", "recall@3"]  # of the ranking other.txt, wanted.txt
    results = evaluate(Scripted({"?": chunks}), dataset, metrics, match_on=match_on)
    assert results.scores.means == {"ap": 0.5, "precision": 0.5, "recall@3": 1.0}
    assert "1 of 1 rankings have under 3 ids, which passages share" in results.scores.notes[0]


def test_labels_that_match_nothing_are_reported_with_what_would_fit() -> None:
    chunks = [node("c1", document="a.txt"), node("c2", document="b.txt")]
    dataset = RetrievalDataset(
        queries={"q1": "?", "q2": "?"}, relevance={"q1": ["a.txt"], "q2": ["b.txt", "c.txt"]}
    )
    message = "0 of 3 labels match node_id; 2 match ref_doc_id: use match_on='ref_doc_id'"
    with pytest.warns(LabelWarning, match=message):
        results = evaluate(Scripted({"?": chunks}), dataset, ["mrr"])
    assert results.scores.notes == (f"Not a valid score: {message} (--match-on ref_doc_id)",)
    fitting = evaluate(Scripted({"?": chunks}), dataset, ["mrr"], match_on="ref_doc_id")
    assert fitting.scores.notes == ()


def test_labels_that_fit_nothing_are_shown() -> None:
    dataset = RetrievalDataset(queries={"q": "?"}, relevance={"q": ["label"]})
    with pytest.warns(LabelWarning, match="A label is 'label', a retrieved id 'c1'"):
        evaluate(Scripted({"?": ["c1"]}), dataset, ["mrr"])


def test_metadata_key_that_one_node_lacks_is_an_error_of_the_query() -> None:
    dataset = RetrievalDataset(queries={"p": "!", "q": "?"}, relevance={"p": ["f"], "q": ["f"]})
    second = [node("c1", page=3, file=None), node("c2", file="f")]
    retriever = Scripted({"!": [node("c0", file="f")], "?": second})
    results = evaluate(retriever, dataset, ["mrr"], match_on="file", workers=1)
    assert results.scores.by_query("mrr") == {"p": 1.0, "q": 0.0}
    assert (
        "node 'c1' has: ['node_id', 'ref_doc_id', 'page'], got 'file'. In Python, for the"
        in results.scores.failed["q"]
    )


def test_llama_index_own_metrics_take_part(dataset: RetrievalDataset) -> None:
    results = evaluate(Scripted(SCRIPT), dataset, ["mrr", CoreHitRate()])
    # core's raises on the empty retrieval of q3; q4's labels hold nothing relevant
    assert results.scores.by_query("hit_rate") == {"q1": 1.0, "q2": 1.0}
    mixed = "hit_rate: by LlamaIndex's definition; the others by this package's"
    assert mixed in results.scores.notes
    alone = evaluate(Scripted(SCRIPT), dataset, [CoreHitRate()])
    assert mixed not in alone.scores.notes


class TestSingleQuery:
    def test_evaluates_one_query_with_graded_relevance(self) -> None:
        evaluator = RetrieverEvaluator.from_metric_names(
            ["ndcg(mode=exponential)@2", "f1"], retriever=Scripted(SCRIPT)
        )
        result = evaluator.evaluate("first?", Relevance({"d1": 1, "x": 3}))
        # gains 1, 7 at ranks 1, 2 against 7, 1
        assert result.metric_vals_dict["ndcg(mode=exponential)@2"] == pytest.approx(
            (1 + 7 / 1.5849625007211562) / (7 + 1 / 1.5849625007211562)
        )
        assert result.metric_vals_dict["f1"] == 1

    @pytest.mark.parametrize(("label", "mrr"), [("d1", 0.5), ("y", 0.0)])
    def test_most_of_what_comes_may_be_unlabelled(self, label: str, mrr: float) -> None:
        retriever = Scripted({"?": ["x", "d1", "z"]})
        evaluator = RetrieverEvaluator.from_metric_names(["mrr"], retriever=retriever)
        result = evaluator.evaluate("?", [label], mode=RetrievalEvalMode.TEXT)
        assert result.metric_vals_dict == {"mrr": mrr}
        assert result.mode is RetrievalEvalMode.TEXT
        image = evaluator.evaluate("?", [label], mode=RetrievalEvalMode.IMAGE)
        assert image == result.model_copy(update={"mode": RetrievalEvalMode.IMAGE})

    def test_needs_relevance(self) -> None:
        evaluator = RetrieverEvaluator.from_metric_names(["mrr@10"], retriever=Scripted(SCRIPT))
        nothing: Any
        for nothing in ([], None, {"d1": 0}):
            with pytest.raises(InvalidInput, match=r"no value for 'first\?'. It needs a label"):
                evaluator.evaluate("first?", nothing)

    def test_refuses_arguments_that_would_be_ignored(self) -> None:
        evaluator = RetrieverEvaluator.from_metric_names(["mrr"], retriever=Scripted(SCRIPT))
        with pytest.raises(TypeError, match="agg"):
            evaluator.evaluate("first?", ["d1"], agg="mean")

    def test_twin_calls_the_method_of_a_subclass(self) -> None:
        class Own(RetrieverEvaluator):
            async def aevaluate(self, *arguments: Any, **options: Any) -> Any:
                return "of the subclass"

        own: Any = Own.from_metric_names(["mrr"], retriever=lambda query: ["d1"])
        assert own.evaluate("what?", expected_ids=["d1"]) == "of the subclass"

    def test_error_of_the_retriever_comes_out(self) -> None:
        retriever = Scripted({"?": RuntimeError("gone")})
        evaluator = RetrieverEvaluator.from_metric_names(["mrr"], retriever=retriever)
        with pytest.raises(RetrievalFailed, match="RuntimeError: gone"):
            evaluator.evaluate("?", ["d1"])


class TestOldCode:
    """What notebooks for core 0.14.20 and earlier do, with only the import changed."""

    def test_old_dataset_and_the_old_call(self) -> None:
        class EmbeddingQAFinetuneDataset(BaseModel):
            queries: dict[str, str] = {"q1": "first?", "q2": "second?"}
            corpus: dict[str, str] = {"d1": "one", "d2": "two"}
            relevant_docs: dict[str, list[str]] = {"q1": ["d1"], "q2": ["d2"]}
            mode: str = "text"

        evaluator = RetrieverEvaluator.from_metric_names(
            ["hit_rate", "mrr", "precision", "recall", "ap", "ndcg"], retriever=Scripted(SCRIPT)
        )
        results = asyncio.run(evaluator.aevaluate_dataset(EmbeddingQAFinetuneDataset(), workers=2))
        assert [result.metric_vals_dict["mrr"] for result in results] == [1.0, 0.5]
        assert str(results[0]).startswith("Query: first?")

    def test_synchronous_twin_inside_a_running_loop(self, dataset: RetrievalDataset) -> None:
        async def notebook() -> float:
            return evaluate(Scripted(SCRIPT), dataset, ["mrr"]).scores.means["mrr"]

        assert asyncio.run(notebook()) == pytest.approx(0.5)


def test_text_metric_says_that_it_got_fewer_passages_than_it_reads() -> None:
    # its mean is of what was retrieved: of two depths, the smaller one looks better
    dataset = RetrievalDataset({"q": "jets"}, {"q": ["a"]}, {"a": "Jets of water."})
    metrics = ["bm25_similarity@5", "recall@5", "recall@9tokens", "recall@2tokens"]
    depth, room = evaluate(lambda _: ["a"], dataset, metrics).scores.notes
    assert depth == "metrics at 5 got at most 1 passage: is similarity_top_k too small?"
    assert room == "recall@9tokens has room left in 1 of 1 rankings: is similarity_top_k too small?"


def retrieve(query: str) -> list[str]:
    return ["d1"]


def test_head_of_a_report_names_the_retriever_as_people_do() -> None:
    def inside(query: str) -> list[str]:
        return ["d1"]

    def named(retriever: Any, **options: Any) -> str | None:
        dataset = RetrievalDataset({"q": "?"}, {"q": ["d1"]}, {"d1": "Io."})
        return evaluate(retriever, dataset, "mrr", **options).about.get("retriever")

    assert named(retrieve) == "retrieve"
    assert named(inside) == "inside"
    assert named(lambda query: ["d1"]) == "function"
    # a name that was given needs no class beside it
    assert named(inside, name="mine") is None
    processed = named(inside, name="mine", node_postprocessors=[Postprocessor(function=list)])
    assert processed == "mine → Postprocessor"


N = 12
DATASET = RetrievalDataset(
    queries={f"q{n}": f"query {n}" for n in range(N)}, relevance={f"q{n}": ["a"] for n in range(N)}
)
SECONDS = 0.05


class OneDesk:
    """Serves one query at a time, so that the others wait."""

    def __init__(self) -> None:
        self.desk = threading.Lock()
        self.waiting: set[str] = set()
        self.at_once: list[int] = []

    def __call__(self, query: str) -> list[str]:
        self.waiting.add(query)
        self.at_once.append(len(self.waiting))
        with self.desk:
            time.sleep(SECONDS)
        self.waiting.remove(query)
        return ["a"]


def test_reports_name_how_many_queries_were_asked_at_once() -> None:
    results = evaluate(OneDesk(), DATASET, ["mrr"], workers=4)
    latency = results.run.latency
    assert latency is not None
    assert latency.concurrency == 4
    # a query waits for the three before it
    assert latency.p50 > 2 * SECONDS
    assert "(workers 4)" in str(results)
    assert "(workers 4)" in results._repr_html_()


def test_ids_whose_tokens_are_counted_are_timed() -> None:
    dataset = RetrievalDataset({"q": "?"}, {"q": ["a"]}, {"a": "A text."})
    ranking = evaluate(lambda _: ["a"], dataset, ["recall@9tokens"]).run["q"]
    assert (ranking.latency or 0) > 0


def test_journal_keeps_how_many_were_asked_at_once(tmp_path: Any) -> None:
    for workers in (2, 5):
        journal = tmp_path / "run.jsonl"
        results = evaluate(OneDesk(), DATASET, ["mrr"], workers=workers, journal=journal)
        assert results.run.latency is not None
        assert results.run.latency.concurrency == 2


ONE_LABEL = {"queries": {"q": "x?"}, "corpus": {}, "relevant_docs": {"q": ["d"]}}
EVALUATOR = RetrieverEvaluator.from_metric_names(["mrr"], retriever=lambda query: ["d"])
DECLARED = {field.name: field for field in fields(Plan) if field.init}
FUNCTIONS = [
    *(package.evaluate, package.aevaluate, package.evaluate_stages, aevaluate_stages),
    *(package.RetrieverEvaluator.evaluate_dataset, ray.evaluate),
]


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
        lambda options: package.evaluate(lambda query: ["d"], ONE_LABEL, ["mrr"], **options),
        lambda options: package.evaluate_stages(lambda query: ["d"], {}, ONE_LABEL, **options),
        lambda options: package.sweep(lambda k: lambda q: ["d"], {"k": [1]}, ONE_LABEL, **options),
        lambda options: EVALUATOR.evaluate_dataset(ONE_LABEL, **options),
        lambda options: EVALUATOR.evaluate("one", ["d"], **options),
        lambda options: ray.evaluate(lambda: None, ONE_LABEL, **options),
    ],
)
def test_python_refuses_an_option_that_isnt_there(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"^(?!Plan).*unexpected keyword argument 'worker'"):
        call({"worker": 8})


@pytest.mark.skipif(sys.version_info < (3, 12), reason="profiles threads that run already")
def test_few_files_evaluate_a_function() -> None:
    home, files = str(Path(package.__file__).parent), set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(home):
            files.add(frame.f_code.co_filename)

    dataset = RetrievalDataset({"q": "x?"}, {"q": ["d"]})
    evaluate(lambda query: ["d"], dataset, ["mrr"])  # imports what is imported late
    profile: Any = vars(threading)["setprofile_all_threads"]
    profile(note)
    try:
        evaluate(lambda query: ["d"], dataset, ["mrr"])
    finally:
        profile(None)
    assert 10 < len(files) <= 25
