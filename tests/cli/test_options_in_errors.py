"""Errors on the command line name its options, where a program has arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import refusal, run

from llama_index_rag_metrics import RetrievalDataset, write_qrels, write_run

BM25 = "llama_index_rag_metrics.demo.retrievers:bm25"
EVALUATE = ("evaluate", "-d", "d.json", "-r", BM25)
SCORE = ("score", "a.run", "--qrels", "q.txt", "-m")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "CO_API_KEY", "COHERE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    dataset = RetrievalDataset({"q1": "Who?"}, {"q1": ["d1"]}, {"d1": "She.", "d2": "He."})
    dataset.save("d.json")
    write_run({"q1": ["d1", "d2"]}, "a.run")
    write_run({"q1": ["d2", "d1"]}, "b.run")
    Path("b.csv").write_text("query_id,doc_id,rank\nq1,d2,1\nq1,d1,2\n")
    write_qrels(dataset.relevance, "q.txt")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("labels", "check", "d.json", "math:pi"), "CORPUS: expected"),
        (("labels", "move", "d.json", "math:pi", "-o", "m.json"), "NEW: expected"),
        (("labels", "move", "d.json", "d.json", "-o", "m.json", "--threshold", "0"),
         "--threshold: expected a number"),
        (("labels", "move", "d.json", "d.json", "-o", "m.xyz"), "--output: expected a name"),
        ((*EVALUATE, "--matcher", "foo"), "--matcher: expected 'id', 'text', 'span'"),
        (("evaluate", "-d", "d.json", "-r", "math:pi", "-m", "mrr"),
         "--retriever: expected a retriever"),
        ((*SCORE, "bm25_similarity"),
         "--metric: expected metrics of rankings, got 'bm25_similarity'. A metric of texts needs "
         "questions and texts, which `rag-metrics evaluate` has."),
        ((*SCORE, "span_recall"), "Give RUN as JSON lines with retrieved_spans."),
        ((*SCORE, "recall@200tokens"), "Give RUN as JSON lines with retrieved_texts, or use"),
    ],
)  # fmt: skip
def test_options_are_named(arguments: tuple[str, ...], said: str) -> None:
    assert said in refusal(run(*arguments))


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("llm_relevancy", "Set Settings.llm in the module of --retriever."),
        ("embedding_similarity", "Set Settings.embed_model in the module of --retriever."),
        ("cohere_rerank_relevancy", "needs an API key: set CO_API_KEY or COHERE_API_KEY,"),
    ],
)
def test_what_a_metric_lacks(metric: str, said: str) -> None:
    ended = run(*EVALUATE, "-m", metric)
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert "=..." not in ended.stderr


def write_lines(name: str, *records: dict[str, object]) -> None:
    Path(name).write_text("".join(f"{json.dumps(record)}\n" for record in records))


def test_a_fault_in_the_judgements_beside_a_run_is_said() -> None:
    beside: dict[str, object] = {"query_id": "q1", "expected_ids": ["d1"], "retrieved_ids": ["d1"]}
    write_lines("beside.jsonl", beside, {**beside, "query_id": "q2", "expected_ids": {"d1": "bad"}})
    said = refusal(run("score", "beside.jsonl", "-m", "recall"))
    assert said.startswith("beside.jsonl, line 2: expected ")


def test_a_run_without_judgements_beside_it() -> None:
    write_lines("bare.jsonl", {"query_id": "q1", "doc_id": "d1", "rank": 1})
    said = refusal(run("score", "bare.jsonl", "-m", "recall"))
    assert "RUN: expected expected_ids beside its rankings" in said
    assert "--qrels FILE" in said


@pytest.mark.parametrize("name", ["gone.run", "gone.jsonl"])
def test_a_run_that_is_not_there(name: str) -> None:
    assert refusal(run("score", name, "-m", "mrr")) == f"{name}: No such file or directory"
