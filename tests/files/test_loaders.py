"""ir_datasets, the real library over local files."""

import logging
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import RetrievalDataset
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import FileFormatError

pytestmark = pytest.mark.servers


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


def test_collection_of_ir_datasets(irds: Any, tmp_path: Path) -> None:
    collection = irds.create_dataset(**local_files(tmp_path))
    dataset = RetrievalDataset.load(collection, name="moons")
    assert dataset.queries == {"q1": "Which moon?", "q2": "Why?"}
    assert dataset.relevance == {"q1": Relevance({"d1": 2, "d2": 0})}
    assert dataset.corpus == {"d1": "Triton.", "d2": "Titan."}
    assert RetrievalDataset.load(collection).relevance == dataset.relevance
    assert RetrievalDataset.load(collection, corpus={}).corpus == {}


def test_collection_without_queries(irds: Any, tmp_path: Path) -> None:
    collection = irds.create_dataset(docs_tsv=local_files(tmp_path)["docs_tsv"])
    with pytest.raises(FileFormatError, match="it has no questions; one of its subsets"):
        RetrievalDataset.load(collection)


def test_source_that_is_none_of_these() -> None:
    with pytest.raises(FileFormatError, match="ir_datasets"):
        RetrievalDataset.load(object())
