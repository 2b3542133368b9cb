"""RetrievalDataset: questions, what is relevant to them, and the corpus to look in."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from llama_index_rag_metrics.files import beir, dataset_objects, dataset_summary, file_kinds
from llama_index_rag_metrics.files import dataset_content as arguments
from llama_index_rag_metrics.files.conversations import with_turns
from llama_index_rag_metrics.files.dataset_content import OF_QUERIES, DatasetContent
from llama_index_rag_metrics.files.tables import is_frame
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.runtime.amounts import check_amount, check_integer
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd
    from llama_index.core.schema import Document, TextNode


_REMEDY = "RetrievalDataset.load(path) reads a file, RetrievalDataset.of(…) an object in memory."


class RetrievalDataset(DatasetContent):
    """Questions, what is relevant to them, and the corpus to look in.

    Args:
        queries: query id to question.
        relevance: query id to what is relevant: ids, {id: grade}, groups of ids or a `Relevance`. A
            query that is absent, or None, is unjudged; one with nothing relevant has an empty one.
        corpus: document id to text, without its title. May be empty.
        metadata: query id to {key: value}, for slices, and for those who retrieve. Of a question in
            a conversation, `conversation` is its id, `turn` a number from 1 (worked out where it is
            missing), and `history` what was said before: [{"role": …, "content": …}, …].
        expected_texts: query id to the texts that answer it, where relevance isn't known by id.
        titles: document id to title; what is indexed is the title, then the text.
        document_metadata: document id to {key: value}.
        name: what to call the dataset; two datasets may be equal under different names.
        mode: "text" or "image", as in LlamaIndex's old dataset.
        notes: what a user of the dataset should know, such as how it came about.
        relevant_docs: the old name of `relevance`.

    Raises:
        InvalidInput: an id isn't a text, or a part is about a query or document that isn't there.

    Examples:
        >>> dataset = RetrievalDataset(
        ...     queries={"q1": "Which moon has geysers?", "q2": "Who was the first on it?"},
        ...     relevance={"q1": {"d1": 2, "d2": 1}},
        ...     corpus={"d1": "Enceladus has geysers.", "d2": "Triton may have geysers."},
        ... )
        >>> dataset
        <RetrievalDataset: 2 questions, 1 of them labelled (2 labels), 2 passages>
        >>> dataset.relevance["q1"]
        Relevance({'d1': 2.0, 'd2': 1.0})
        >>> dataset.check()
        ["1 of 2 questions have no labels: 'q2'"]
    """

    def __init__(
        self,
        queries: Mapping[str, str],
        relevance: Mapping[str, RelevanceLike | None] | None = None,
        corpus: Mapping[str, str] | None = None,
        metadata: Mapping[str, arguments.Metadata | None] | None = None,
        expected_texts: Mapping[str, Iterable[str]] | None = None,
        *,
        titles: Mapping[str, str | None] | None = None,
        document_metadata: Mapping[str, arguments.Metadata | None] | None = None,
        name: str = "",
        mode: str = "text",
        notes: Iterable[str] = (),
        relevant_docs: Mapping[str, RelevanceLike | None] | None = None,
    ) -> None:
        if relevance is not None and relevant_docs is not None:
            sentence = "relevant_docs can't be given with relevance, which is the same."
            raise InvalidInput("relevant_docs", relevant_docs, sentence=sentence)
        judged = relevance if relevance is not None else relevant_docs
        super().__init__(
            queries=arguments.read_texts("queries", queries),
            relevance=arguments.read_relevance(judged or {}),
            corpus=arguments.read_texts("corpus", corpus or {}),
            metadata=with_turns(queries, arguments.read_metadata("metadata", metadata or {})),
            expected_texts=arguments.read_lists("expected_texts", "texts", expected_texts or {}),
            titles=arguments.read_titles(titles or {}),
            document_metadata=arguments.read_metadata("document_metadata", document_metadata or {}),
            name=name,
            mode=mode,
            notes=list(notes),
        )
        for part in OF_QUERIES:
            arguments.refuse_unknown(part, getattr(self, part), self.queries, "queries")
        for part in ("titles", "document_metadata"):
            arguments.refuse_unknown(part, getattr(self, part), self.corpus, "corpus")

    @classmethod
    def of(cls, source: Any) -> Self:
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
            <RetrievalDataset: 1 question, labelled (1 label)>
        """
        if isinstance(source, cls):
            return source
        if isinstance(source, (str, os.PathLike)):
            return cls.load(source)
        return cls._read("", dataset_objects.read_object, source)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, split: str | None = None, name: str = ""
    ) -> Self:
        """Read a dataset, whose format is recognised by itself.

        Args:
            path: a BEIR folder; JSON of `save`, of LlamaIndex's `EmbeddingQAFinetuneDataset` or
                `LabelledRagDataset`, or of ragas; JSONL; CSV of ragas. Files may be gzipped.
            split: which split of a BEIR folder: by default test, else the only one there is.
            name: what to call it; by default as the file or the folder.

        Raises:
            UnknownFormat: it is none of these, or empty; lists what is understood.
            FileFormatError: a line can't be read, or repeats an id or a judgement.
            FileNotFoundError: there is nothing at that path.
        """
        return cls._read(name, file_kinds.read_path, _path("path", path), split)

    from_json = load

    @classmethod
    def from_jsonl(cls, path: str | os.PathLike[str], *, name: str = "") -> Self:
        """Read JSON lines: each is a question or, with a `document_id`, a document; see `load`."""
        return cls._read(name, dataset_objects.read_jsonl, _path("path", path))

    @classmethod
    def from_beir(
        cls, folder: str | os.PathLike[str], split: str | None = None, *, name: str = ""
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
        return cls._read(name, beir.read_beir, _path("folder", folder), split)

    @classmethod
    def from_ir_datasets(cls, dataset: Any, *, corpus: bool = True, name: str = "") -> Self:
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
        return cls._read(name, dataset_objects.read_ir_dataset, dataset, corpus=corpus)

    @classmethod
    def from_pandas(
        cls, frame: pd.DataFrame, corpus: dataset_objects.Corpus | None = None, *, name: str = ""
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
        return cls._read(name, dataset_objects.read_frame, frame, documents=corpus)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to one file: .json, or .jsonl with one question or document per line.

        Raises:
            InvalidInput: the path has another ending.
        """
        if check_ending(Path(path)) == ".json":
            dataset_objects.write_mapping(self, Path(path))
        else:
            self.to_jsonl(path)

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write as `save` does; LlamaIndex's old dataset calls it so."""
        self.save(path)

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write JSON lines: the questions, then the documents.

        Raises:
            InvalidInput: the mode isn't text, which only JSON holds.
        """
        dataset_objects.write_jsonl(self, Path(path))

    @property
    def relevant_docs(self) -> dict[str, Relevance]:
        """The old name of `relevance`: a Relevance is the list of relevant ids."""
        return self.relevance

    @property
    def query_docid_pairs(self) -> list[tuple[str, Relevance]]:
        """Question and relevant ids of every judged query, as LlamaIndex's old dataset had them."""
        return [(self.queries[query_id], ids) for query_id, ids in self.relevance.items()]

    def to_documents(self) -> list[Document]:
        """The corpus as LlamaIndex documents with the same ids.

        What is indexed is the title and the text; metadata is carried along, not embedded.
        """
        from llama_index.core.schema import Document

        return [Document(**fields) for fields in arguments.node_fields(self)]

    def to_nodes(self) -> list[TextNode]:
        """The corpus as LlamaIndex nodes with the same ids, one per document, not split further.

        What is indexed is the title and the text; metadata is carried along, not embedded.
        """
        from llama_index.core.schema import TextNode

        return [TextNode(**fields) for fields in arguments.node_fields(self)]

    def check(self) -> list[str]:
        """What to look at before trusting the scores, one sentence each; empty if all is well.

        For example: expected ids that the corpus lacks, unjudged questions, documents without text.
        """
        return dataset_summary.findings(self)

    def fingerprint(self) -> str:
        """A hash of the questions and the corpus, whatever their order: what retrieval depends on.

        >>> RetrievalDataset({"q1": "why?"}).fingerprint()[:12]
        'f09595bc59f7'
        """
        return arguments.digest(
            self.queries, {item: self.indexed_text(item) for item in self.corpus}
        )

    def select(self, query_ids: Iterable[str]) -> RetrievalDataset:
        """A dataset with some of the queries only, in the order given, and the whole corpus.

        Raises:
            InvalidInput: there is no such query.
        """
        chosen = list(dict.fromkeys(query_ids))
        arguments.refuse_unknown("query_ids", chosen, self.queries, "queries")
        parts = dict(vars(self))
        for part in ("queries", *OF_QUERIES):
            by_query = parts[part]
            parts[part] = {key: by_query[key] for key in chosen if key in by_query}
        return RetrievalDataset(**parts)

    def split(
        self, fraction: float = 0.5, seed: int = 0
    ) -> tuple[RetrievalDataset, RetrievalDataset]:
        """Two datasets with different queries, drawn at random, and the same corpus.

        Args:
            fraction: the share of the queries in the first, in [0, 1].
            seed: the same seed draws the same queries.
        """
        expected = "a number from 0 to 1"
        check_amount("fraction", fraction, expected, lambda share: 0 <= share <= 1)
        check_integer("seed", seed, -math.inf, "a whole number")
        chance = random.Random(int(seed))
        drawn = set(chance.sample(sorted(self.queries), round(fraction * len(self))))
        return (
            self.select(query_id for query_id in self.queries if query_id in drawn),
            self.select(query_id for query_id in self.queries if query_id not in drawn),
        )

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        name = f" {terminal(self.name)}" if self.name else ""
        return f"<RetrievalDataset{name}: {dataset_summary.summary(self)}>"

    @classmethod
    def _read(
        cls,
        name: str,
        read: Callable[..., DatasetContent],
        *source: Any,
        documents: dataset_objects.Corpus | None = None,
        **options: Any,
    ) -> Self:
        content = dataset_objects.with_corpus(read(*source, **options), documents)
        return cls(**vars(content) | {"name": name or content.name})


def check_ending(path: Path) -> str:
    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending not in (".json", ".jsonl", ".ndjson"):
        raise InvalidInput("path", str(path), "a name that ends in .json or .jsonl")
    return ending


def _path(argument: str, value: object) -> Path:
    if not isinstance(value, (str, os.PathLike)):
        raise InvalidInput(argument, value, "a path", _REMEDY)
    return Path(value)
