"""Hugging Face's datasets and ir_datasets, the real libraries over local files."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import RetrievalDataset
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, UnknownFormat

QUERIES = [{"_id": "q1", "text": "Which moon?"}, {"_id": "q2", "text": "Why?"}]
CORPUS = [
    {"_id": "d1", "title": "Moons", "text": "Triton."},
    {"_id": "d2", "title": "", "text": "Titan."},
]
JUDGEMENTS = {
    "test": [{"query-id": "q1", "corpus-id": "d1", "score": 2}],
    "train": [{"query-id": "q2", "corpus-id": "d2", "score": 1}],
}


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def card(folder: Path, configurations: dict[str, dict[str, str]]) -> Path:
    """The front matter by which the library knows which file is which configuration."""
    lines = ["---", "configs:"]
    for name, files in configurations.items():
        lines += [f"- config_name: {name}", "  data_files:"]
        for split, file in files.items():
            lines += [f"  - split: {split}", f"    path: {file}"]
    (folder / "README.md").write_text("\n".join([*lines, "---", ""]), encoding="utf-8")
    return folder


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    reason = "Hugging Face's datasets isn't installed"
    library = pytest.importorskip("datasets", reason=reason)
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(library.config, "HF_DATASETS_OFFLINE", True)
    library.disable_progress_bars()
    return library


def mteb_folder(folder: Path, prefix: str = "", qrels: str = "default") -> Path:
    write_rows(folder / "corpus.jsonl", CORPUS)
    write_rows(folder / "queries.jsonl", QUERIES)
    for split, rows in JUDGEMENTS.items():
        write_rows(folder / "qrels" / f"{split}.jsonl", rows)
    judged = {split: f"qrels/{split}.jsonl" for split in JUDGEMENTS}
    configurations = {
        qrels: judged,
        f"{prefix}corpus": {"corpus": "corpus.jsonl"},
        f"{prefix}queries": {"queries": "queries.jsonl"},
    }
    return card(folder, configurations)


@pytest.mark.usefixtures("library")
def test_the_layout_of_mteb(tmp_path: Path) -> None:
    dataset = RetrievalDataset.from_hugging_face(mteb_folder(tmp_path / "moons"))
    assert dataset.name == "moons"
    assert dataset.queries == {"q1": "Which moon?"}  # q2 is judged in another split only
    assert dataset.relevance == {"q1": Relevance({"d1": 2})}
    assert dataset.corpus == {"d1": "Triton.", "d2": "Titan."}
    assert dataset.titles == {"d1": "Moons"}


@pytest.mark.usefixtures("library")
def test_another_split_without_the_corpus(tmp_path: Path) -> None:
    folder = mteb_folder(tmp_path / "moons")
    dataset = RetrievalDataset.from_hugging_face(str(folder), "train", corpus=False)
    assert dataset.relevance == {"q2": Relevance({"d2": 1})}
    assert dataset.corpus == {}


@pytest.mark.usefixtures("library")
def test_one_of_several_languages(tmp_path: Path) -> None:
    folder = mteb_folder(tmp_path / "moons", "de-", "de-qrels")
    dataset = RetrievalDataset.from_hugging_face(folder, subset="de")
    assert dataset.relevance == {"q1": Relevance({"d1": 2})}


@pytest.mark.usefixtures("library")
def test_judgements_in_a_collection_of_their_own_as_beir_has_them(tmp_path: Path) -> None:
    beir, qrels = tmp_path / "scifact", tmp_path / "scifact-qrels"
    write_rows(beir / "corpus.jsonl", CORPUS)
    write_rows(beir / "queries.jsonl", QUERIES)
    qrels.mkdir()
    (qrels / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td1\t1\n", encoding="utf-8")
    card(beir, {"corpus": {"corpus": "corpus.jsonl"}, "queries": {"queries": "queries.jsonl"}})
    with pytest.raises(InvalidInput, match="Labels from elsewhere: qrels="):
        RetrievalDataset.from_hugging_face(beir)
    dataset = RetrievalDataset.from_hugging_face(beir, qrels=qrels)
    assert dataset.relevance == {"q2": Relevance({"d1": 1})}


@pytest.mark.usefixtures("library")
def test_a_split_that_isn_t_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"one of \['test', 'train'\]"):
        RetrievalDataset.from_hugging_face(mteb_folder(tmp_path / "moons"), "dev")


@pytest.mark.usefixtures("library")
def test_a_judgement_of_a_query_that_isn_t_there(tmp_path: Path) -> None:
    folder = mteb_folder(tmp_path / "moons")
    rows = [{"query-id": "q9", "corpus-id": "d1", "score": 1}, *JUDGEMENTS["test"]]
    write_rows(folder / "qrels" / "test.jsonl", rows)
    with pytest.raises(
        FileFormatError, match="default, test, row 1: expected the id of one of its questions"
    ):
        RetrievalDataset.from_hugging_face(folder)
    with pytest.warns(UserWarning, match="1 skipped"):
        dataset = RetrievalDataset.from_hugging_face(folder, on_error="skip")
    assert dataset.relevance == {"q1": Relevance({"d1": 2})}


@pytest.fixture
def irds() -> Any:
    library = pytest.importorskip("ir_datasets", reason="ir_datasets isn't installed")
    logging.getLogger("ir_datasets").setLevel(logging.ERROR)
    return library


def local_files(folder: Path) -> dict[str, str]:
    texts = {
        "docs_tsv": "d1\tTriton.\nd2\tTitan.\n",
        "queries_tsv": "q1\tWhich moon?\nq2\tWhy?\n",
        "qrels_trec": "q1 0 d1 2\nq1 0 d2 0\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name: str(folder / name) for name in texts}


def test_a_collection_of_ir_datasets(irds: Any, tmp_path: Path) -> None:
    collection = irds.create_dataset(**local_files(tmp_path))
    dataset = RetrievalDataset.from_ir_datasets(collection, name="moons")
    assert dataset.queries == {"q1": "Which moon?", "q2": "Why?"}
    assert dataset.relevance == {"q1": Relevance({"d1": 2, "d2": 0})}
    assert dataset.corpus == {"d1": "Triton.", "d2": "Titan."}
    assert RetrievalDataset.of(collection).relevance == dataset.relevance
    assert RetrievalDataset.from_ir_datasets(collection, corpus=False).corpus == {}


def test_a_collection_without_queries(irds: Any, tmp_path: Path) -> None:
    collection = irds.create_dataset(docs_tsv=local_files(tmp_path)["docs_tsv"])
    with pytest.raises(InvalidInput, match="Choose one of its subsets"):
        RetrievalDataset.from_ir_datasets(collection)


def test_what_is_none_of_these() -> None:
    with pytest.raises(UnknownFormat, match="ir_datasets"):
        RetrievalDataset.of(object())
