"""Datasets in files and folders."""

from __future__ import annotations

from pathlib import Path

from llama_index_rag_metrics.files.beir import is_beir, read_beir, read_corpus
from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.dataset_objects import UNDERSTOOD
from llama_index_rag_metrics.files.file_contents import DATASET, read_as
from llama_index_rag_metrics.files.file_kinds import KINDS, kind_of
from llama_index_rag_metrics.files.lines import Faults, name_of
from llama_index_rag_metrics.files.trec import read_trec
from llama_index_rag_metrics.runtime.errors import UnknownFormat

TREC_FILES = ("qrels.txt", "topics.tsv", "corpus.jsonl")


def read_path(path: Path, split: str | None = None, faults: Faults | None = None) -> DatasetContent:
    """Read a dataset from a file or a folder; `split` is that of a BEIR folder."""
    with read_as(DATASET, path):
        if path.is_dir():
            return _read_folder(path, split, faults)
        content = KINDS[kind_of(path)].read_dataset(path, faults or Faults())
        content.name = content.name or name_of(path)
        return content


def _read_folder(folder: Path, split: str | None, faults: Faults | None) -> DatasetContent:
    if is_beir(folder):
        return read_beir(folder, split, faults)
    qrels, topics, corpus = (folder / name for name in TREC_FILES)
    if qrels.is_file() and topics.is_file():
        content = read_trec(qrels, topics, faults)
        content.name = folder.name
        return read_corpus(corpus, content, faults) if corpus.is_file() else content
    inside = sorted(path.name for path in folder.iterdir())
    raise UnknownFormat(str(folder), f"the folder holds {inside[:8]}", UNDERSTOOD)
