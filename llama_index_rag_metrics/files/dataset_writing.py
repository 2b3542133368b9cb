"""A dataset's ways out: into the files of this package and of other tools."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from llama_index_rag_metrics.files import beir, dataset_formats, jsonl, mapping, trec
from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.embedding_qa import write_embedding_qa
from llama_index_rag_metrics.files.frame import to_frame
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd


def check_ending(path: Path) -> str:
    """The ending of a file that `save` writes, whether it is compressed or not.

    Raises:
        InvalidInput: the path has another ending.
    """
    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending not in (".json", ".jsonl", ".ndjson"):
        remedy = "To write a folder, use to_beir() or to_trec()."
        raise InvalidInput("path", str(path), "a name that ends in .json or .jsonl", remedy)
    return ending


class WritableDataset(DatasetContent):
    """The content of a dataset, which writes itself."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to one file: .json, or .jsonl with one question or document per line.

        Raises:
            InvalidInput: the path has another ending.
        """
        if check_ending(Path(path)) == ".json":
            mapping.write_mapping(self, Path(path))
        else:
            self.to_jsonl(path)

    def save_json(self, path: str | os.PathLike[str], *, lossy: bool = False) -> None:
        """Write the JSON of LlamaIndex's old dataset, which old versions read.

        Titles become the first line of their texts.

        Args:
            path: the file.
            lossy: leave out what that JSON can't hold: grades, groups, metadata, expected texts.

        Raises:
            FormatTooNarrow: something of that kind is there, and `lossy` isn't set.
        """
        write_embedding_qa(self, Path(path), lossy=lossy)

    def to_jsonl(self, path: str | os.PathLike[str], *, lossy: bool = False) -> None:
        """Write JSON lines: the questions, then the documents.

        Raises:
            FormatTooNarrow: the mode isn't text, and `lossy` isn't set.
        """
        jsonl.write_jsonl(self, Path(path), lossy=lossy)

    def to_beir(
        self, folder: str | os.PathLike[str], split: str = "test", *, lossy: bool = False
    ) -> None:
        """Write a BEIR folder.

        Args:
            folder: the folder; other splits that it has stay there.
            split: the name of the file in qrels/.
            lossy: leave out what BEIR can't hold: groups, expected texts, the judgement that
                nothing is relevant.

        Raises:
            FormatTooNarrow: something of that kind is there, and `lossy` isn't set.
        """
        beir.write_beir(self, Path(folder), split, lossy=lossy)

    def to_trec(self, folder: str | os.PathLike[str], *, lossy: bool = False) -> None:
        """Write qrels.txt, topics.tsv and, as BEIR does, corpus.jsonl.

        Args:
            folder: the folder.
            lossy: leave out what TREC's files can't hold: groups, metadata, expected texts, the
                judgement that nothing is relevant.

        Raises:
            FormatTooNarrow: something of that kind is there, and `lossy` isn't set; or grades
                aren't whole, ids have spaces, or questions have several lines.
        """
        qrels, topics, corpus = (Path(folder) / name for name in dataset_formats.TREC_FILES)
        trec.write_trec(self, qrels, topics, lossy=lossy)
        beir.write_corpus(self, corpus)

    def to_pandas(self) -> pd.DataFrame:
        """One row per question: query, relevance, expected texts, one column per metadata key."""
        return to_frame(self)
