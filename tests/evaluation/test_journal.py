"""The journal: nothing finished is asked again, after a kill, after Ctrl-C, with other metrics."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from os import environ
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import TransformQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever, RecursiveRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from support.processes import Forked
from support.retrievers import Postprocessor, Scripted

from llama_index_rag_metrics import RetrievalDataset, RetrieverEvaluator, evaluate
from llama_index_rag_metrics.evaluation.asking.query_runner import Asking, Journal
from llama_index_rag_metrics.rankings.run import Call, Ranking
from llama_index_rag_metrics.runtime.errors import (
    JournalBusy,
    JournalDamaged,
    JournalMismatch,
    RowsDropped,
)

SCRIPT = {"one?": ["a"], "two?": ["x", "b"], "three?": ["x"]}


@pytest.fixture
def dataset() -> RetrievalDataset:
    return RetrievalDataset(
        queries={"q1": "one?", "q2": "two?", "q3": "three?"},
        relevance={"q1": ["a"], "q2": ["b"], "q3": ["c"]},
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "run.jsonl"


def test_a_finished_query_is_never_asked_again(dataset: RetrievalDataset, path: Path) -> None:
    first = evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    again = Scripted({})
    second = evaluate(again, dataset, ["mrr", "recall@2"], journal=path)
    assert again.asked == []
    assert second.run == first.run
    assert second.scores.means["mrr"] == first.scores.means["mrr"] == 0.5
    assert second.scores.means["recall@2"] == pytest.approx(2 / 3)


def test_failed_queries_are_tried_again(dataset: RetrievalDataset, path: Path) -> None:
    evaluate(Scripted({**SCRIPT, "two?": RuntimeError("busy")}), dataset, ["mrr"], journal=path)
    retriever = Scripted(SCRIPT)
    results = evaluate(retriever, dataset, ["mrr"], journal=path)
    assert retriever.asked == ["two?"]
    assert results.scores.failed == {}


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_last_line_is_mended(dataset: RetrievalDataset, path: Path, cut: int) -> None:
    evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path, workers=1)
    path.write_bytes(path.read_bytes()[:-cut])
    retriever = Scripted(SCRIPT)
    results = evaluate(retriever, dataset, ["mrr"], journal=path)
    assert retriever.asked == ["three?"]
    assert results.scores.means["mrr"] == 0.5
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 1 + 3


def test_a_torn_header_starts_anew(dataset: RetrievalDataset, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"format": "llama-in')
    retriever = Scripted(SCRIPT)
    evaluate(retriever, dataset, ["mrr"], journal=path)
    assert len(retriever.asked) == 3
    assert len(path.read_text().splitlines()) == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda row: row.replace(b'"q2"', b'"q7"'),
        lambda row: row.replace(b'"retrieved_ids"', b'"retrieved_idz"'),
        lambda row: b"not json\n",
    ],
)
def test_a_damaged_row_is_named_and_its_query_asked_again(
    damage: Callable[[bytes], bytes], dataset: RetrievalDataset, path: Path
) -> None:
    whole = evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    rows = path.read_bytes().splitlines(keepends=True)
    damaged = next(n for n, row in enumerate(rows) if b'"query_id": "q2"' in row)
    rows[damaged] = damage(rows[damaged])
    path.write_bytes(b"".join(rows))
    retriever = Scripted(SCRIPT)
    with pytest.warns(RowsDropped, match=rf"line {damaged + 1}\)"):
        again = evaluate(retriever, dataset, ["mrr"], journal=path)
    assert retriever.asked == [dataset.queries["q2"]]
    assert again.scores.means == whole.scores.means
    retriever = Scripted(SCRIPT)
    evaluate(retriever, dataset, ["mrr"], journal=path)
    assert retriever.asked == []


@pytest.mark.parametrize(
    "changed",
    [
        {"query_id": 1},
        {"retrieved_ids": "ab"},
        {"retrieved_ids": ["a", 1]},
        {"scores": ["0.5", 0.1]},
        {"scores": [0.5]},
        {"retrieved_texts": [None, "b"]},
        {"latency": "fast"},
        {"retrieved_spans": [{"source": "doc", "start": "0", "end": 3}, None]},
        {"retrieved_spans": [{"source": "doc", "start": 0}, None]},
        {"retrieved_spans": 5},
        {"repeat": 0},
        {"repeat": 1},
        {"repeat": "2"},
    ],
)
def test_rows_are_checked_by_type(changed: dict[str, Any], path: Path) -> None:
    row = {
        **{"query_id": "q", "retrieved_ids": ["a", "b"], "scores": [0.5, 0.1]},
        **{"retrieved_texts": ["a", "b"], "latency": 0.1, "concurrency": 1},
        "retrieved_spans": [{"source": "doc", "start": 0, "end": 3}, None],
    }
    with Journal(path, {"a": "b"}) as journal:
        journal.write(row | changed)
        journal.write(row)
    with pytest.warns(RowsDropped, match="line 2"):
        journal = Journal(path, {"a": "b"})
    journal.close()
    assert list(journal.finished) == [Asking("q")]


def test_another_file_is_refused_and_left_alone(dataset: RetrievalDataset, path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"my": "data"}\n')
    with pytest.raises(JournalDamaged, match="line 1"):
        evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    assert path.read_text() == '{"my": "data"}\n'


def test_a_file_of_one_line_that_is_no_journal_is_left_alone(
    dataset: RetrievalDataset, path: Path
) -> None:
    path.parent.mkdir()
    path.write_text("my precious notes, no newline")
    with pytest.raises(JournalDamaged, match="line 1"):
        evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    assert path.read_text() == "my precious notes, no newline"


def test_a_journal_of_another_run_is_refused(dataset: RetrievalDataset, path: Path) -> None:
    evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path, retriever_id="bm25, k1=1.2")
    with pytest.raises(JournalMismatch, match="retriever is 'bm25, k1=2', but the journal has"):
        evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path, retriever_id="bm25, k1=2")
    with pytest.raises(JournalMismatch, match="match_on is 'ref_doc_id'"):
        evaluate(
            Scripted(SCRIPT),
            dataset,
            ["mrr"],
            journal=path,
            retriever_id="bm25, k1=1.2",
            match_on="ref_doc_id",
        )
    with pytest.raises(JournalMismatch, match="postprocessors is 'Postprocessor"):
        evaluate(
            Scripted(SCRIPT),
            dataset,
            ["mrr"],
            journal=path,
            retriever_id="bm25, k1=1.2",
            node_postprocessors=[Postprocessor(function=lambda nodes: nodes)],
        )
    other = RetrievalDataset(queries={"q1": "another?"}, relevance={"q1": ["a"]})
    with pytest.raises(JournalMismatch, match="dataset is"):
        evaluate(Scripted(SCRIPT), other, ["mrr"], journal=path, retriever_id="bm25, k1=1.2")


class Searcher:
    """Searches as deep as it is told, and counts how often."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.n_asked = 0

    def __call__(self, question: str) -> list[str]:
        self.n_asked += 1
        return ["a", "b", "c"][: self.depth]

    def search(self, question: str) -> list[str]:
        return self(question)


def _searching(depth: int) -> Callable[[str], list[str]]:
    asked = []

    def search(question: str) -> list[str]:
        asked.append(question)
        return ["a", "b", "c"][:depth]

    return search


def _by_default(depth: int) -> Callable[[str], list[str]]:
    def search(question: str, depth: int = depth) -> list[str]:
        return ["a", "b", "c"][:depth]

    return search


def _within(depth: int) -> Callable[[str], list[str]]:
    if depth == 1:
        return lambda question: [item for item in "abc" if item in {"a"}]
    return lambda question: [item for item in "abc" if item in {"a", "b"}]


def _of_module(depth: int) -> Any:
    module: dict[str, Any] = {"DEPTH": depth, "n": 0}
    exec("def search(question):\n global n\n n += 1\n return ['a', 'b', 'c'][:DEPTH]", module)
    return module["search"]


AROUND = """
    from enum import Enum
    from functools import cache
    from pathlib import Path
    from types import SimpleNamespace
    import re

    args = SimpleNamespace(depth=DEPTH, of_search=SimpleNamespace(depth=DEPTH), n=0)
    path, pattern, number = Path(str(DEPTH)), re.compile(f"[a-c]{{{DEPTH}}}"), np.int64(DEPTH)

    class Config:
        depth = DEPTH

    class Searcher:
        def search(self):
            return list("abc")[:DEPTH]

    class Level(Enum):
        LOW, HIGH = 1, 2

    searcher, level = Searcher(), Level(DEPTH)

    @cache
    def cached():
        return list("abc")[:DEPTH]

    def search(question):
        args.n += args.n + 1
        depth = EXPRESSION
        return (lambda: depth)() if isinstance(depth, list) else list("abc")[:depth]
"""


def _around(expression: str) -> Callable[[int], Any]:
    def make(depth: int) -> Any:
        module: dict[str, Any] = {"__name__": "mine", "DEPTH": depth, "np": np}
        exec(dedent(AROUND).replace("EXPRESSION", expression), module)
        return module["search"]

    return make


SEVERAL = """
    from functools import cached_property, wraps

    def cut(function):
        @wraps(function)
        def within(question):
            return function(question)[:DEPTH]
        return within

    @cut
    def all_of(question):
        return list("abc")

    class Cut:
        def __init__(self, depth):
            self.size, self.n, self.asked = depth, 0, []

        def __call__(self, question):
            self.n += 1
            self.asked.append(question)
            return list("abc")[:self.size]

    class Nested:
        sizes = (DEPTH,)

        def __init__(self, depth):
            self.inner = Cut(depth)

        def __call__(self, question):
            return self.inner(question)[:self.sizes[0]]

    class Cached:
        @cached_property
        def size(self):
            return DEPTH

        def __call__(self, question):
            return list("abc")[:self.size]

    class Global:
        def __call__(self, question):
            return all_of(question)

    class Remembering:
        def __init__(self, depth, asked=()):
            self.size, self.asked, self.letters = depth, [*asked], ""

        @property
        def all(self):
            self.letters = self.letters or "abc"
            return self.letters

        def __call__(self, question):
            self.asked.append(question)
            return list(self.all)[:self.size]
"""


def _several(expression: str) -> Callable[[int], Any]:
    def make(depth: int) -> Any:
        module: dict[str, Any] = {"__name__": "mine", "DEPTH": depth}
        exec(dedent(SEVERAL), module)
        return eval(expression, module)

    return make


def _imported(expression: str) -> Callable[[int], Any]:
    """What asks a function or a class of another module of the user's."""

    def make(depth: int) -> Any:
        of_another = ModuleType("of_another")
        vars(of_another)["DEPTH"] = depth
        base = """
            def search(question):
                return list("abc")[:DEPTH]

            class Base:
                def find(self, question):
                    return list("abc")[:DEPTH]
        """
        exec(dedent(base), vars(of_another))
        module: dict[str, Any] = {"__name__": "mine", "of_another": of_another}
        code = (
            "class Found(of_another.Base):\n def __call__(self, question):\n  return self.find(1)"
        )
        exec(code, module)
        return eval(expression, module)

    return make


def _engine(depth: int) -> Any:
    nodes = [TextNode(id_=name, text=name) for name in "abc"]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))
    stages = [SimilarityPostprocessor(similarity_cutoff=depth / 4)]
    return index.as_query_engine(MockLLM(), node_postprocessors=stages)


def _transforming(depth: int) -> Any:
    engine = VectorStoreIndex([], embed_model=MockEmbedding(embed_dim=4)).as_query_engine(
        MockLLM(), similarity_top_k=depth
    )
    return TransformQueryEngine(engine, HyDEQueryTransform(MockLLM()))


def _recursive(depth: int) -> Any:
    index = VectorStoreIndex([], embed_model=MockEmbedding(embed_dim=4))
    inner = index.as_retriever(similarity_top_k=depth)
    return RecursiveRetriever("vector", retriever_dict={"vector": inner})


def _vectors(depth: int) -> Any:
    nodes = [TextNode(id_=name, text=name) for name in "abc"]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))
    filters = [MetadataFilter(key="year", value=depth)]
    return index.as_retriever(filters=MetadataFilters(filters=filters))


def _fused(depth: int) -> Any:
    weights = [1 / depth, 1 - 1 / depth]
    retrievers: list[BaseRetriever] = [Scripted(SCRIPT), Scripted(SCRIPT)]
    return QueryFusionRetriever(
        retrievers,
        llm=MockLLM(),
        num_queries=1,
        retriever_weights=weights,
        mode=FUSION_MODES.RELATIVE_SCORE,
    )


@pytest.mark.parametrize(
    "make",
    [
        Searcher,
        lambda depth: Searcher(depth).search,
        lambda depth: partial(Searcher.search, Searcher(depth)),
        _searching,
        _by_default,
        _within,
        _of_module,
        *map(_around, ["args.depth", "args.of_search.depth", "Config.depth", "cached()"]),
        *map(_around, ["searcher.search()", "Searcher().search()", "level.value", "int(number)"]),
        *map(_around, ["int(path.name)", "len(pattern.match('abc').group())"]),
        *map(_several, ["all_of", "Nested(DEPTH)", "Cut(DEPTH)", "Cached()", "Global()"]),
        _several("Remembering(DEPTH)"),
        *map(_imported, ["lambda question: of_another.search(question)", "Found()"]),
        _vectors,
        _fused,
        _engine,
        _transforming,
        _recursive,
    ],
)
def test_what_another_retriever_found_never_comes_back(
    make: Callable[[int], Any], dataset: RetrievalDataset, path: Path
) -> None:
    """Of one class or function, with other settings; what it did meanwhile makes no difference."""
    retriever = make(1)
    for source in (retriever, retriever, make(1)):
        evaluate(source, dataset, ["map"], journal=path)
    with pytest.raises(JournalMismatch, match="retriever is"):
        evaluate(make(2), dataset, ["map"], journal=path)


def test_what_has_no_bearing_on_a_search_refuses_no_journal(
    dataset: RetrievalDataset, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = VectorStoreIndex([], embed_model=MockEmbedding(embed_dim=4)).as_query_engine(MockLLM())
    logger, n = logging.getLogger("of a search"), 0

    def search(question: str) -> list[str]:
        nonlocal n
        n += 1
        logger.info("%s %s %s", question, environ.get("TERM"), engine)
        return ["a"]

    evaluate(search, dataset, ["map"], journal=path)
    monkeypatch.setenv("TERM", "another")
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    prompts = [each for each in engine.get_prompts().values() if len(each.template_vars) > 1]
    for prompt in prompts:  # sets of names are in another order in another process
        monkeypatch.setattr(prompt, "template_vars", prompt.template_vars[::-1])
    assert prompts
    evaluate(search, dataset, ["map"], journal=path)
    assert n == len(dataset.queries)


def test_corrected_labels_need_no_new_retrieval(dataset: RetrievalDataset, path: Path) -> None:
    evaluate(Scripted(SCRIPT), dataset, ["mrr"], journal=path)
    corrected = RetrievalDataset(queries=dataset.queries, relevance={"q1": ["x"], "q2": ["x"]})
    results = evaluate(Scripted({}), corrected, ["mrr"], journal=path)
    assert results.scores.by_query("mrr") == {"q1": 0.0, "q2": 1.0}


def test_any_text_survives(path: Path) -> None:
    ranking = Ranking(
        ["é\u2028\n", "\ud800"], [float("inf"), None], ["中文\r\n", "한국어\x00"], 0.5
    )
    with Journal(path, {"a": "b"}) as journal:
        journal.record(Asking("q\u2029"), ranking)
    with Journal(path, {"a": "b"}) as journal:
        assert journal.finished == {Asking("q\u2029"): ranking}


def test_one_run_at_a_time(path: Path) -> None:
    with Journal(path, {"a": "b"}), pytest.raises(JournalBusy, match="by this process"):
        Journal(path, {"a": "b"})


PROGRAM = r"""
    import sys, time
    from llama_index_rag_metrics import RetrievalDataset, evaluate

    def slow(query):
        time.sleep(0.05)
        print(query + "\n", end="", flush=True)
        return ["d" + query]

    queries = {f"q{n}": str(n) for n in range(100)}
    dataset = RetrievalDataset(queries=queries, relevance={one: ["d5"] for one in queries})
    results = evaluate(slow, dataset, ["mrr"], journal=sys.argv[1], workers=2)
    print(results.scores.means["mrr"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_finished_is_lost(tmp_path: Path, how: signal.Signals) -> None:
    journal = tmp_path / "run.jsonl"
    killed = Forked(PROGRAM, str(journal))
    asked = [killed.stdout.readline().strip() for _ in range(20)]
    os.kill(killed.pid, how)
    rest, errors = killed.communicate()
    if how is signal.SIGINT:
        assert "KeyboardInterrupt" in errors
    kept = [json.loads(line)["query_id"] for line in journal.read_text().splitlines()[1:] if line]
    assert len(kept) < 100
    # at most the two queries under way when the signal came are missing
    assert len(asked) + len(rest.split()) - len(kept) <= 2
    done = Forked(PROGRAM, str(journal))
    *asked_again, mean = done.communicate()[0].split()
    assert done.wait() == 0
    assert not {f"q{number}" for number in asked_again} & set(kept)
    assert len(asked_again) + len(kept) == 100
    assert float(mean) == pytest.approx(1 / 100)


def test_a_ranking_with_an_empty_id_is_kept(dataset: RetrievalDataset, path: Path) -> None:
    calls = []

    def retrieve(query: str) -> list[TextNode]:
        calls.append(query)
        return [TextNode(text=name, metadata={"file": name}) for name in ("x", "")]

    options: dict[str, Any] = {"match_on": "file", "journal": path, "retriever_id": "files"}
    first = evaluate(retrieve, dataset, ["mrr"], **options)
    again = evaluate(retrieve, dataset, ["mrr"], **options)
    assert len(calls) == len(dataset.queries)
    assert again.scores.means == first.scores.means


def test_a_call_whose_error_is_masked_anew_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Call(["x"], query="?", error="no entry for zz-secret-zz")
    with Journal(path, {"a": "b"}) as journal:
        journal.record(Asking("q1"), Ranking(["x"], calls=[call]))
    monkeypatch.setenv("SOME_API_KEY", "zz-secret-zz")
    with Journal(path, {"a": "b"}) as journal:
        (kept,) = journal.finished[Asking("q1")].calls or ()
    assert kept.error is not None
    assert "zz-secret-zz" not in kept.error


def _by_evaluator(source: Any, dataset: Any, metrics: list[str], **options: Any) -> Any:
    return RetrieverEvaluator(metrics=metrics, retriever=source).evaluate_dataset(
        dataset, **options
    )


@pytest.mark.parametrize("evaluated", [evaluate, _by_evaluator])
def test_an_index_by_a_name_of_ones_own_is_asked_for_more_by_a_deeper_metric(
    tmp_path: Path, evaluated: Any
) -> None:
    nodes = [TextNode(id_=f"d{n}", text=f"{n}") for n in range(12)]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))
    dataset = RetrievalDataset({"q1": "x?"}, {"q1": ["d1"]})
    options: dict[str, Any] = {"journal": tmp_path / "journal.jsonl", "retriever_id": "mine"}
    assert len(evaluated(index, dataset, ["recall@3"], **options).run["q1"].ids) == 3
    with pytest.raises(JournalMismatch, match="depth is '12', but the journal has '3'"):
        evaluated(index, dataset, ["recall@12"], **options)
