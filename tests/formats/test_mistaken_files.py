"""Files given for others: what they are is said, and what reads them; nothing is read wrongly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import (
    Nugget,
    Nuggets,
    Relevance,
    RetrievalDataset,
    pool,
    read_judgements,
    read_qrels,
    read_run,
    write_qrels,
    write_review_page,
    write_run,
)
from llama_index_rag_metrics.errors import FileFormatError, MistakenFile, UnknownFormat
from llama_index_rag_metrics.formats.runs.mistaken import READERS

RUNS = {"a": {"q1": ["d1", "d2"]}, "b": {"q1": ["d3", "d1"]}}
DATASET = RetrievalDataset(
    {"q1": "Who?"}, {"q1": Relevance({"d1": 2, "d2": 0})}, {"d1": "She.", "d2": "He.", "d3": "They"}
)
REVIEWED = {"query_id": "q1", "doc_id": "d1", "grade": 2, "reviewer": "anna", "skipped": False}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    """Name of a file to the file, as this package writes it, and what it is."""
    kinds = {
        "d.json": "a dataset", "d.jsonl": "a dataset", "beir": "a dataset",
        "a.run": "a run", "a.jsonl": "a run", "q.txt": "qrels", "q.tsv": "qrels",
        "p.jsonl": "a pool to be judged", "j.jsonl": "reviewers' judgements",
        "n.jsonl": "nuggets",
    }  # fmt: skip
    found = {name: (tmp_path / name, kind) for name, kind in kinds.items()}
    DATASET.save(found["d.json"][0])
    DATASET.save(found["d.jsonl"][0])
    DATASET.to_beir(found["beir"][0])
    write_run(RUNS["a"], found["a.run"][0])
    write_run(RUNS["a"], found["a.jsonl"][0])
    write_qrels(DATASET.relevance, found["q.txt"][0])
    write_qrels(DATASET.relevance, found["q.tsv"][0])
    pool(RUNS, metric="precision@2", dataset=DATASET, judgements={}).to_jsonl(found["p.jsonl"][0])
    found["j.jsonl"][0].write_text(json.dumps(REVIEWED))
    Nuggets({"q1": [Nugget("A fact", "vital", {"d1": "full"})]}).save(found["n.jsonl"][0])
    return found


def as_page(path: Path) -> object:
    return write_review_page(path, path.with_suffix(".html"))


READS: dict[str, tuple[Callable[[Path], Any], set[str]]] = {
    "a run": (read_run, {"a.run", "a.jsonl"}),
    "qrels": (read_qrels, {"q.txt", "q.tsv", "d.json", "j.jsonl", "n.jsonl"}),
    "a dataset": (RetrievalDataset.load, {"d.json", "d.jsonl", "beir", "n.jsonl"}),
    "a pool to be judged": (as_page, {"p.jsonl"}),
    "reviewers' judgements": (read_judgements, {"j.jsonl"}),
    "nuggets": (Nuggets.load, {"n.jsonl"}),
}
"""Kind to what reads it, and the files that it can read."""

READS["a run"][1].add("q.tsv")  # query-id, corpus-id, score: a run's columns could be called so


@pytest.mark.parametrize("wanted", READS)
def test_every_kind_for_every_other(files: dict[str, tuple[Path, str]], wanted: str) -> None:
    read, readable = READS[wanted]
    for name, (path, kind) in files.items():
        if name in readable:
            assert read(path)
        elif kind != wanted and name != "beir":
            with pytest.raises(MistakenFile) as caught:
                read(path)
            assert str(caught.value) == f"{path} isn't {wanted} but {kind}. {READERS[kind]}"
            assert caught.value.path == str(path)


def test_a_folder_of_beir_given_as_qrels(files: dict[str, tuple[Path, str]]) -> None:
    with pytest.raises(MistakenFile, match="but a dataset"):
        read_qrels(files["beir"][0])


def test_the_judgements_of_a_dataset_are_qrels(files: dict[str, tuple[Path, str]]) -> None:
    assert read_qrels(files["d.json"][0]) == DATASET.relevance
    queries = {"queries": {"q1": "Who?"}, "relevant_docs": {"q1": ["d1"]}}
    assert read_qrels(queries) == {"q1": Relevance(["d1"])}


@pytest.mark.parametrize(
    ("name", "read", "text", "line"),
    [
        ("a.run", read_run, "q1 Q0 d1 1 0.5 x\nq1 Q0 d2\n", 2),
        ("cut.run", read_run, "q1 Q0 d1 1\n", 1),
        ("q.txt", read_qrels, "q1 0 d1 1\nq1 0 d2 x\n", 2),
        ("q.jsonl", read_qrels, '{"query_id": "q", "doc_id": "d", "grade": "x"}', 1),
    ],
)
def test_what_is_only_damaged_is_said_so(
    tmp_path: Path, name: str, read: Callable[[Path], Any], text: str, line: int
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        read(path)
    assert (type(caught.value), caught.value.line) == (FileFormatError, line)


def test_what_is_of_no_kind(tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_text("Of all the moons\nthe coldest\n")
    with pytest.raises(UnknownFormat, match="Supported forms"):
        RetrievalDataset.load(path)


def test_a_log_of_documents_with_ranks_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = {"query_id": "q", "query": "Who?", "doc_id": "d", "text": "She.", "rank": 1}
    path.write_text(json.dumps(row))
    assert read_run(path)["q"].ids == ["d"]
