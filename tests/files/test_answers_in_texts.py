"""Answers that stand in a text become places in documents: SQuAD and rows of its shape."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from llama_index.core import Document
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.schema import NodeWithScore
from typer.testing import CliRunner

from llama_index_rag_metrics import RetrievalDataset, Span, evaluate
from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.runtime.errors import FileFormatError

MOONS = "Enceladus 🌋 has geysers of water. Triton may have some of nitrogen."
KILNS = "A kiln fires clay. Potters stack it carefully."


def answers(context: str, *texts: str) -> list[dict[str, Any]]:
    return [{"text": text, "answer_start": context.index(text)} for text in texts]


def questions() -> list[dict[str, Any]]:
    return [
        {"id": "a1", "question": "Which moon has geysers of water?",
         "answers": answers(MOONS, "Enceladus", "Enceladus", "Enceladus 🌋"),
         "is_impossible": False},
        {"id": "a2", "question": "Which moon has geysers of lava?", "answers": [],
         "is_impossible": True},
    ]  # fmt: skip


def squad() -> dict[str, Any]:
    kiln = {"id": "b1", "question": "What fires clay?", "answers": answers(KILNS, "kiln")}
    return {
        "version": "v2.0",
        "data": [
            {"title": "Moons", "paragraphs": [{"context": MOONS, "qas": questions()}]},
            {"title": "", "paragraphs": [{"context": KILNS, "qas": [kiln]}]},
        ],
    }


def rows() -> list[dict[str, Any]]:
    """As Hugging Face's data sets have them."""
    records = []
    for article in squad()["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                columns = {key: [a[key] for a in qa["answers"]] for key in ("text", "answer_start")}
                row = {"id": qa["id"], "title": article["title"], "question": qa["question"]}
                records.append({**row, "context": paragraph["context"], "answers": columns})
    return records


def check(dataset: RetrievalDataset) -> None:
    assert list(dataset.queries) == ["a1", "a2", "b1"]
    assert sorted(dataset.corpus.values()) == sorted([MOONS, KILNS])
    places = [(dataset.relevance[query_id].spans or {}).values() for query_id in dataset.queries]
    texts = [[dataset.corpus[p.source][p.start : p.end] for p in spans] for spans in places]
    assert texts == [["Enceladus", "Enceladus 🌋"], [], ["kiln"]]
    assert not dataset.relevance["a2"]
    assert not any("corpus" in line for line in dataset.check())


def test_a_file_of_squad(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(squad()), encoding="utf-8")
    check(RetrievalDataset.load(path))
    check(RetrievalDataset.of(squad()))


@pytest.mark.parametrize(
    ("paragraph", "message"),
    [
        (7, "expected a paragraph with 'context' and 'qas', got 7"),
        ({"context": "a", "qas": ["Who?"]}, "expected a question with 'id' and 'question'"),
    ],
)
def test_what_is_no_paragraph_or_question(paragraph: object, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        RetrievalDataset.of({"data": [{"paragraphs": [paragraph]}]})


@pytest.mark.parametrize("column", [5, None, "a text"])
def test_a_column_that_is_none(column: object) -> None:
    with pytest.raises(FileFormatError, match="expected a column 'reference_contexts'"):
        RetrievalDataset.of({"query": ["Who?"], "reference_contexts": column})


def test_rows(tmp_path: Path) -> None:
    lines = tmp_path / "dev.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    check(RetrievalDataset.load(lines))
    check(RetrievalDataset.of(rows()))
    check(RetrievalDataset.from_pandas(pd.DataFrame(rows())))
    table = tmp_path / "dev.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows()[0]))
        writer.writeheader()
        writer.writerows({**row, "answers": json.dumps(row["answers"])} for row in rows())
    check(RetrievalDataset.load(table))


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_written_and_read_again(tmp_path: Path, ending: str) -> None:
    dataset = RetrievalDataset.of(squad())
    dataset.save(tmp_path / f"moons{ending}")
    assert RetrievalDataset.load(tmp_path / f"moons{ending}") == dataset


def test_an_answer_that_stands_elsewhere_is_refused(tmp_path: Path) -> None:
    wrong = squad()
    wrong["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] = 3
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(wrong), encoding="utf-8")
    with pytest.raises(
        FileFormatError, match=r"dev.json, question 'a1'.*'Enceladus' at character 3"
    ):
        RetrievalDataset.load(path)
    with pytest.warns(match="'Enceladus' at character 3"):
        skipped = RetrievalDataset.load(path, on_error="skip")
    assert list(skipped.queries) == ["a2", "b1"]


def test_answers_without_places_stay_what_they_were() -> None:
    row = {"question": "Who?", "context": MOONS, "answers": ["Enceladus"]}
    dataset = RetrievalDataset.of([row])
    assert not dataset.relevance
    assert dataset.metadata["q1"]["answers"] == ["Enceladus"]


def test_places_beside_questions(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    place = {"source": "moons", "start": 0, "end": 9}
    row = {"query": "Which?", "expected_spans": [place, ["moons", 12, 15]]}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    spans = RetrievalDataset.load(path).relevance["q1"].spans or {}
    assert list(spans.values()) == [Span("moons", 0, 9), Span("moons", 12, 15)]
    path.write_text(json.dumps({**row, "expected_spans": [[1]]}) + "\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match="a span: source, start and end"):
        RetrievalDataset.load(path)


def test_any_chunking_is_judged(tmp_path: Path) -> None:
    dataset = RetrievalDataset.of(squad())
    documents = [
        Document(doc_id=document_id, text=text) for document_id, text in dataset.corpus.items()
    ]
    for size in (14, 40):  # the splitter drops the blanks between chunks
        splitter = TokenTextSplitter(chunk_size=size, chunk_overlap=0)
        nodes = splitter.get_nodes_from_documents(documents)
        retrieved = [NodeWithScore(node=node, score=1.0) for node in nodes]
        results = evaluate(lambda query, nodes=retrieved: nodes, dataset, "span_recall")
        assert results.scores.means["span_recall"] == 1.0
        assert results.scores.counts.no_relevant == 1
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(squad()), encoding="utf-8")
    arguments = ["evaluate", "-d", str(path), "-r", "bm25", "-m", "span_recall,span_precision"]
    result = CliRunner().invoke(
        app, [*arguments, "--no-progress", "--json", str(tmp_path / "s.json")]
    )
    assert result.exit_code == 0, result.output
    (scores,) = json.loads((tmp_path / "s.json").read_text("utf-8"))["result"].values()
    assert scores["means"]["span_recall"] == 1.0
