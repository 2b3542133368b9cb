"""A dataset's ways in: files and objects of this package and of other tools."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from llama_index_rag_metrics.files import beir, dataset_formats, jsonl, trec
from llama_index_rag_metrics.files.dataset_arguments import Corpus, with_corpus
from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.dataset_summary import misnamed_fields
from llama_index_rag_metrics.files.dataset_writing import WritableDataset
from llama_index_rag_metrics.files.frame import is_frame
from llama_index_rag_metrics.files.hugging_face import read_hugging_face
from llama_index_rag_metrics.files.ir_datasets import read_ir_dataset
from llama_index_rag_metrics.files.labelled_rag import read_frame
from llama_index_rag_metrics.files.lines import Faults, OnError, check_on_error
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import FieldsUnread, InvalidInput

if TYPE_CHECKING:
    import pandas as pd


_REMEDY = "RetrievalDataset.load(path) reads a file, RetrievalDataset.of(…) an object in memory."


class ReadableDataset(WritableDataset):
    """The content of a dataset, which reads and writes itself."""

    @classmethod
    def of(cls, source: Any, *, on_error: OnError = "raise") -> Self:
        """Make a dataset from any object that holds one.

        Args:
            source: a dataset; a path, see `load`; LlamaIndex's old `EmbeddingQAFinetuneDataset` or
                `LabelledRagDataset`, or objects like them; a dict or a list of such a shape; a data
                frame, or an object with `to_pandas()`, such as a test set of ragas; a dataset of
                the ir_datasets library.

        Raises:
            UnknownFormat: it is none of these; lists what is understood.

        Examples:
            >>> from llama_index_rag_metrics import RetrievalDataset
            >>> RetrievalDataset.of({"queries": {"q1": "why?"}, "relevant_docs": {"q1": ["d1"]}})
            <RetrievalDataset: 1 query, judged (1 judgement)>
        """
        check_on_error(on_error)
        if isinstance(source, cls):
            return source
        return cls._read(lambda faults: dataset_formats.read_object(source, faults), on_error)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        split: str | None = None,
        name: str = "",
        on_error: OnError = "raise",
    ) -> Self:
        """Read a dataset, whose format is recognised by itself.

        Args:
            path: a BEIR folder; a folder that `to_trec` wrote; JSON of `save`, of LlamaIndex's
                `EmbeddingQAFinetuneDataset` or `LabelledRagDataset`, or of ragas; JSON of SQuAD;
                JSONL; CSV of ragas, or with JSON `references`. Files may be gzipped.
            split: which split of a BEIR folder: by default test, else the only one there is.
            name: what to call it; by default as the file or the folder.
            on_error: "raise" ends at the first line that can't be read, or that judges a question
                that isn't there; "skip" leaves such lines out, warns of them, and lists them in the
                dataset's `skipped`.

        Raises:
            UnknownFormat: it is none of these, or empty; lists what is understood.
            FileFormatError: a line can't be read, or repeats an id or a judgement.
            FileNotFoundError: there is nothing at that path.
        """
        return cls._read(
            lambda faults: dataset_formats.read_path(_path("path", path), split, faults),
            on_error,
            name,
        )

    from_json = load

    @classmethod
    def from_jsonl(
        cls, path: str | os.PathLike[str], *, name: str = "", on_error: OnError = "raise"
    ) -> Self:
        """Read JSON lines: each is a question or, with a `document_id`, a document; see `load`.

        Raises:
            FileFormatError: a line can't be read, or repeats an id.
        """
        return cls._read(
            lambda faults: jsonl.read_jsonl(_path("path", path), faults), on_error, name
        )

    @classmethod
    def from_beir(
        cls,
        folder: str | os.PathLike[str],
        split: str | None = None,
        *,
        name: str = "",
        on_error: OnError = "raise",
    ) -> Self:
        """Read a BEIR folder: queries.jsonl, corpus.jsonl and qrels/<split>.tsv.

        Args:
            folder: the folder. Questions that only another split judges are left out.
            split: by default test, else the only one there is.
            name: what to call it; by default as the folder.

        Raises:
            InvalidInput: there is no such split, or there are several and none was chosen.
            FileFormatError: a line can't be read, or repeats an id or a judgement.
        """
        return cls._read(
            lambda faults: beir.read_beir(_path("folder", folder), split, faults), on_error, name
        )

    @classmethod
    def from_trec(
        cls,
        qrels: str | os.PathLike[str],
        topics: str | os.PathLike[str],
        corpus: Corpus | None = None,
        *,
        subtopics: bool = False,
        name: str = "",
        on_error: OnError = "raise",
    ) -> Self:
        """Read TREC's qrels, and topics as <top> blocks or as id, tab, question.

        Args:
            qrels: the judgements.
            topics: the questions.
            corpus: {document id: text}, a data frame, or a file like BEIR's corpus.jsonl.
            subtopics: whether the second column of the qrels is a subtopic, as in those of TREC's
                diversity task; each is a facet then.
            name: what to call it; by default as the qrels file.

        Raises:
            FileFormatError: a line can't be read, repeats a judgement, or judges an unknown topic.
        """

        paths = _path("qrels", qrels), _path("topics", topics)

        def read(faults: Faults) -> DatasetContent:
            content = trec.read_trec(*paths, faults, subtopics=subtopics)
            return with_corpus(content, corpus, faults)

        return cls._read(read, on_error, name)

    @classmethod
    def from_hugging_face(
        cls,
        name: str | os.PathLike[str],
        split: str | None = None,
        *,
        qrels: str | os.PathLike[str] | None = None,
        subset: str | None = None,
        corpus: bool = True,
        on_error: OnError = "raise",
    ) -> Self:
        """Read a collection of Hugging Face's datasets library, laid out as BEIR's or MTEB's are.

        Args:
            name: the collection's, such as "mteb/scifact", or a local folder of the same layout:
                configurations corpus, queries, and qrels or default.
            split: whose judgements: by default test, else the only one there is. Questions that it
                doesn't judge are left out.
            qrels: the collection that holds the judgements, where it is another one, as with
                "BeIR/scifact" and "BeIR/scifact-qrels".
            subset: of a collection in several languages: "de" for de-corpus, de-queries, de-qrels.
            corpus: whether to read the documents, too.

        Raises:
            MissingExtra: the datasets library isn't installed.
            InvalidInput: there is no such part or split, or there are several and none was chosen.
            FileFormatError: a row can't be read, or repeats an id or a judgement.
        """

        _path("name", name)

        def read(faults: Faults) -> DatasetContent:
            return read_hugging_face(
                name, split, qrels=qrels, subset=subset, corpus=corpus, faults=faults
            )

        return cls._read(read, on_error)

    @classmethod
    def from_ir_datasets(
        cls, dataset: Any, *, corpus: bool = True, name: str = "", on_error: OnError = "raise"
    ) -> Self:
        """Read a collection of the ir_datasets library.

        Args:
            dataset: what `ir_datasets.load` gives. Its texts are those that the library chooses;
                other fields of a query become metadata, judgements by subtopic facets.
            corpus: whether to read the documents, too.
            name: what to call it; by default as the collection.

        Raises:
            InvalidInput: the collection has no queries.
            FileFormatError: a judgement is repeated, or is about a query that isn't there.
        """
        return cls._read(
            lambda faults: read_ir_dataset(dataset, corpus=corpus, faults=faults), on_error, name
        )

    @classmethod
    def from_pandas(
        cls,
        frame: pd.DataFrame,
        corpus: Corpus | None = None,
        *,
        name: str = "",
        on_error: OnError = "raise",
    ) -> Self:
        """Read a data frame with one question a row.

        Args:
            frame: columns query_id, query, relevance, expected_texts, or as other tools call them
                (question, user_input, relevant_docs, reference_contexts, …). Other columns become
                metadata; cells without a value are left out. Lists may stand as text, as CSV has
                them, in a column that holds text alone.
            corpus: {document id: text}, a data frame (document_id, text, title), or a file like
                BEIR's corpus.jsonl.
            name: what to call it.

        Raises:
            FileFormatError: a row isn't a question, or repeats an id; says which.
        """

        if not is_frame(frame):
            raise InvalidInput("frame", frame, "a data frame", _REMEDY)

        def read(faults: Faults) -> DatasetContent:
            return with_corpus(read_frame(frame, faults), corpus, faults)

        return cls._read(read, on_error, name)

    @classmethod
    def _read(
        cls, read: Callable[[Faults], DatasetContent], on_error: OnError, name: str = ""
    ) -> Self:
        faults = Faults(on_error)
        content = read(faults)
        faults.warn()
        if misnamed := misnamed_fields(content):
            warn_caller(FieldsUnread(" ".join(misnamed)))
        parts = {"name": name or content.name, "skipped": faults.skipped}
        return cls(**{**vars(content), **parts})


def _path(argument: str, value: object) -> Path:
    if not isinstance(value, (str, os.PathLike)):
        raise InvalidInput(argument, value, "a path", _REMEDY)
    return Path(value)
