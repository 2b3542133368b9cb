"""The demo: its collection, its two retrievers, and the command from end to end."""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import TextNode
from support.paths import ROOT
from typer.testing import CliRunner

from llama_index_rag_metrics import RetrievalDataset, Scores
from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.demo.collection import load_collection
from llama_index_rag_metrics.demo.retrievers import bm25, lsa
from llama_index_rag_metrics.runtime.errors import InvalidInput

BUILDERS = {"bm25": bm25, "lsa": lsa}
NAMES = [["bm25"], ["lsa"]]


@pytest.fixture(scope="module")
def collection() -> RetrievalDataset:
    return load_collection()


@pytest.fixture(scope="module", params=BUILDERS)
def retriever(request: pytest.FixtureRequest, collection: RetrievalDataset) -> BaseRetriever:
    return BUILDERS[request.param](collection.to_nodes(), 10)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*address: Any) -> None:
        raise AssertionError(f"the demo asked for the network: {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_collection_has_what_its_readme_says(collection: RetrievalDataset) -> None:
    grades = [
        grade for relevance in collection.relevance.values() for grade in relevance.grades.values()
    ]
    rows = collection.metadata.values()
    assert (len(collection.corpus), len(collection.queries), len(grades)) == (108, 63, 284)
    assert Counter(grades) == {0: 132, 1: 54, 2: 45, 3: 53}
    assert Counter(row["language"] for row in rows) == {"en": 49, "zh": 8, "ko": 6}
    assert Counter(row["type"] for row in rows) == {
        "keyword": 20,
        "paraphrase": 21,
        "multi": 17,
        "unanswerable": 5,
    }
    assert Counter(item[:3] for item in collection.corpus if item[:3] in ("zh-", "ko-")) == {
        "zh-": 12,
        "ko-": 10,
    }


def test_judgements_speak_of_the_collection(collection: RetrievalDataset) -> None:
    judged = {item for relevance in collection.relevance.values() for item in relevance.grades}
    several = [relevance for relevance in collection.relevance.values() if len(relevance) > 1]
    unanswerable = [query_id for query_id, labels in collection.relevance.items() if not labels]
    assert judged <= collection.corpus.keys()
    assert collection.relevance.keys() == collection.queries.keys() == collection.metadata.keys()
    assert all(len(relevance.grades) >= 3 for relevance in collection.relevance.values())
    assert len(several) == 41  # 58 answerable questions, 17 of them with one passage
    assert [collection.metadata[query_id]["type"] for query_id in unanswerable] == [
        "unanswerable"
    ] * 5


def test_passage_in_another_language_has_no_highest_grade(collection: RetrievalDataset) -> None:
    for query_id, relevance in collection.relevance.items():
        language = collection.metadata[query_id]["language"]
        for item, grade in relevance.grades.items():
            own = item[:2] if item[:3] in ("zh-", "ko-") else "en"
            assert grade < 3 or own == language, (query_id, item)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What does error E-17 on the Ferrowick K80 mean?", "kiln-fault"),
        ("志工林雅惠什麼時候在服務台？", "zh-guide"),
        ("한국어 도예 교실 참가비는 얼마입니까?", "ko-kids"),
    ],
)
def test_retrievers_know_each_language(retriever: BaseRetriever, query: str, expected: str) -> None:
    retrieved = retriever.retrieve(query)
    assert retrieved[0].node.node_id == expected
    assert len({node.node_id for node in retrieved}) == len(retrieved) > 3
    assert all(node.score > 0 for node in retrieved)  # type: ignore[operator]
    assert [node.score for node in retrieved] == sorted(
        (node.score for node in retrieved), reverse=True
    )  # type: ignore[type-var]


def test_retrievers_differ(collection: RetrievalDataset) -> None:
    first, second = (build(collection.to_nodes(), 10) for build in BUILDERS.values())
    rankings = [
        tuple(tuple(node.node_id for node in each.retrieve(query)) for each in (first, second))
        for query in collection.queries.values()
    ]
    assert all(by_first and by_second for by_first, by_second in rankings)
    assert sum(by_first[:3] != by_second[:3] for by_first, by_second in rankings) > 40


def test_query_that_matches_nothing_has_no_result(retriever: BaseRetriever) -> None:
    assert retriever.retrieve("☃ ⚑") == []


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_small_corpora(build: Callable[..., BaseRetriever]) -> None:
    texts = {"a": "the kiln is red", "b": "用濕海綿擦拭陶土", "c": "!!", "d": ""}
    nodes = [TextNode(id_=name, text=text) for name, text in texts.items()]
    assert [node.node_id for node in build(nodes, 10).retrieve("red kiln")] == ["a"]
    assert [node.node_id for node in build(nodes, 10).retrieve("陶土")] == ["b"]
    assert [node.node_id for node in build(nodes[:1], 5).retrieve("kiln")] == ["a"]
    with pytest.raises(InvalidInput, match="at least one node"):
        build([])


def test_embedding_is_the_same_each_time(collection: RetrievalDataset) -> None:
    nodes = collection.to_nodes()
    first, second = (lsa(nodes, 10).retrieve("Who may change knife set PK-260?") for _ in "ab")
    assert [(node.node_id, node.score) for node in first] == [
        (node.node_id, node.score) for node in second
    ]


@pytest.mark.usefixtures("no_network")
def test_command(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    result = CliRunner().invoke(app, ["demo", "--json", str(path)])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "rag-metrics init index" in lines[-2]
    rows = [line.split() for line in lines]
    table = rows[lines.index("On ndcg@10") :]
    means = [row[2] if "(baseline)" in row else row[1] for row in table if row[:1] in NAMES][:2]
    counts = rows[next(n for n, line in enumerate(lines) if line.startswith("Questions and")) :]
    assert [row[1:4] for row in counts if row[:1] in NAMES][:2] == [["63", "58", "5"]] * 2
    assert {"keyword", "zh", "q33", "relevant"} <= set(result.stdout.split())
    assert sum(line.startswith(" q") and "questions" not in line for line in lines) == 3
    saved = {
        name: Scores.from_json(json.dumps(scores))
        for name, scores in json.loads(path.read_text()).items()
    }
    assert list(saved) == ["bm25", "lsa"]
    assert means == [f"{scores.means['ndcg@10']:.2f}" for scores in saved.values()]
    assert all(0.5 < scores.means["ndcg@10"] < 0.9 for scores in saved.values())


@pytest.mark.slow
def test_python_m_runs_the_demo_too() -> None:
    folder = ROOT
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONIOENCODING": "ascii"}
    environment["COLUMNS"] = "60"
    done = subprocess.run(
        [sys.executable, "-m", "llama_index_rag_metrics", "demo", "-m", "mrr"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Saltbeck Works" in done.stdout
    assert "63/63" in done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 60
