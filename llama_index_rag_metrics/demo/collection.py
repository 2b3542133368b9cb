"""The collection that the package ships: see data/README.md for what it is and isn't."""

from __future__ import annotations

from importlib.resources import as_file, files

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset


def load_collection() -> RetrievalDataset:
    """108 passages about a fictional makerspace and 63 graded questions, in three languages.

    Every question's metadata has its `language` (en, zh, ko) and its `type` (keyword, paraphrase,
    multi, unanswerable).
    """
    with as_file(files(__package__) / "data") as folder:
        return RetrievalDataset.load(folder, name="Saltbeck Works")
