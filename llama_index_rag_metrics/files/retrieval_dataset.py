"""RetrievalDataset: questions, what is relevant to them, and the corpus to look in."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.runtime.amounts import check_amount, check_integer
from llama_index_rag_metrics.runtime.errors import InvalidInput

from . import dataset_content as arguments
from .conversations import check_histories
from .dataset_content import OF_QUERIES, DatasetContent
from .dataset_objects import write_dataset
from .dataset_reading import Corpus, read_dataset
from .dataset_summary import findings, summary

if TYPE_CHECKING:
    from llama_index.core.schema import Document, TextNode


class RetrievalDataset(DatasetContent):
    """Questions, what is relevant to them, and the corpus to look in.

    Args:
        queries: query id to question.
        relevance: query id to what is relevant: ids, {id: grade}, groups of ids or a `Relevance`. A
            query that is absent, or None, is unjudged; one with nothing relevant has an empty one.
        corpus: document id to text, without its title. May be empty.
        metadata: query id to {key: value}, for slices, and for those who retrieve. Of a question in
            a conversation, `conversation` is its id and `history` what was said before:
            [{"role": …, "content": …}, …].
        expected_texts: query id to the texts that answer it, where relevance isn't known by id.
        titles: document id to title; what is indexed is the title, then the text.
        document_metadata: document id to {key: value}.
        name: what to call the dataset; two datasets may be equal under different names.
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
            metadata=arguments.read_metadata("metadata", metadata or {}),
            expected_texts=arguments.read_lists("expected_texts", "texts", expected_texts or {}),
            titles=arguments.read_titles(titles or {}),
            document_metadata=arguments.read_metadata("document_metadata", document_metadata or {}),
            name=name,
            notes=list(notes),
        )
        check_histories(self.queries, self.metadata)
        for part in OF_QUERIES:
            arguments.refuse_unknown(part, getattr(self, part), self.queries, "queries")
        for part in ("titles", "document_metadata"):
            arguments.refuse_unknown(part, getattr(self, part), self.corpus, "corpus")

    @classmethod
    def load(
        cls,
        source: Any,
        *,
        corpus: Corpus | None = None,
        columns: Mapping[str, str] | None = None,
        split: str | None = None,
        name: str = "",
    ) -> Self:
        """Read a dataset from a file, a folder, or an object of another tool.

        Args:
            source: a path: a BEIR folder; JSON of `save`, of LlamaIndex's
                `EmbeddingQAFinetuneDataset` or `LabelledRagDataset`, or of ragas; JSONL, CSV, TSV
                or Parquet with a question a row; each also packed as .gz, .bz2 or .xz. Or an
                object: those datasets of LlamaIndex, a dict or a list of such a shape, a data
                frame, what has `to_pandas()`, a dataset of ir_datasets. A question without an id
                has a digest of its text as its id; fields without a meaning become its metadata.
            corpus: the documents, where they are elsewhere: {document id: text}, a data frame, or
                a file like BEIR's corpus.jsonl.
            columns: what fields are called here: {"question": "input", "labels": "gold_ids"}.
            split: which split of a BEIR folder: by default test, else the only one there is.
            name: what to call it; by default as the file or the folder.

        Raises:
            FileFormatError: it is none of these, or empty; lists what is understood.
            FileFormatError: a line can't be read, repeats an id, or contradicts another.
            FileNotFoundError: there is nothing at that path.

        Examples:
            >>> from llama_index_rag_metrics import RetrievalDataset
            >>> RetrievalDataset.load({"queries": {"q1": "why?"}, "relevant_docs": {"q1": ["d1"]}})
            <RetrievalDataset: 1 question, labelled (1 label)>
            >>> goldens = [{"input": "why?", "gold_ids": ["d1"]}]
            >>> columns = {"question": "input", "labels": "gold_ids"}
            >>> RetrievalDataset.load(goldens, columns=columns).relevance
            {'q-f5b2b98bf44b': Relevance(['d1'])}
        """
        if isinstance(source, cls):
            return source
        parts = read_dataset(source, corpus, columns, split)
        return cls(**{**parts, "name": name or parts.get("name", "")})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to one file: .json, or .jsonl with one question or document per line.

        Raises:
            InvalidInput: the path has another ending.
        """
        write_dataset(self, Path(path))

    mode = "text"
    """What LlamaIndex's evaluators ask of a dataset."""

    @property
    def relevant_docs(self) -> dict[str, Relevance]:
        """The old name of `relevance`: a Relevance is the list of relevant ids."""
        return self.relevance

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
        return findings(self)

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
        unique = list(dict.fromkeys(query_ids))
        arguments.refuse_unknown("query_ids", unique, self.queries, "queries")
        parts = dict(vars(self))
        for part in ("queries", *OF_QUERIES):
            by_query = parts[part]
            parts[part] = {key: by_query[key] for key in unique if key in by_query}
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
        return f"<RetrievalDataset{name}: {summary(self)}>"
