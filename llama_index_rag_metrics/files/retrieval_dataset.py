"""RetrievalDataset: questions, what is relevant to them, and the corpus to look in."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from llama_index_rag_metrics.files.dataset_arguments import (
    OF_QUERIES,
    Metadata,
    digest,
    node_fields,
    read_expected_texts,
    read_forbidden,
    read_metadata,
    read_relevance,
    read_text_hashes,
    read_texts,
    read_titles,
    refuse_unknown,
)
from llama_index_rag_metrics.files.dataset_reading import ReadableDataset
from llama_index_rag_metrics.files.dataset_summary import as_html, findings, summary
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.runtime.amounts import check_amount, check_whole
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

if TYPE_CHECKING:
    from llama_index.core.schema import Document, TextNode


class RetrievalDataset(ReadableDataset):
    """Questions, what is relevant to them, and the corpus to look in.

    Every method that reads a dataset takes `on_error`, which `load` explains.

    Args:
        queries: query id to question.
        relevance: query id to what is relevant: ids, {id: grade}, groups of ids or a `Relevance`. A
            query that is absent, or None, is unjudged; one with nothing relevant has an empty one.
        corpus: document id to text, without its title. May be empty.
        metadata: query id to {key: value}, for slices.
        expected_texts: query id to the texts that answer it, where relevance isn't known by id.
        titles: document id to title; what is indexed is the title, then the text.
        document_metadata: document id to {key: value}.
        forbidden: query id to the ids that its asker may not see, for metrics of leaks.
        text_hashes: labelled passage to a hash of its text when it was labelled, which
            `remember_texts` makes: so `check_labels` sees what changed without the corpus.
        name: what to call the dataset; two datasets may be equal under different names.
        mode: "text" or "image", as in LlamaIndex's old dataset.
        notes: what a user of the dataset should know, such as how it came about.
        skipped: the error of every line that a reader with `on_error="skip"` left out.
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
        <RetrievalDataset: 2 queries, 1 of them judged (2 judgements), 2 documents>
        >>> dataset.relevance["q1"]
        Relevance({'d1': 2.0, 'd2': 1.0})
        >>> dataset.check()
        ["1 of 2 queries are unjudged: 'q2'"]
    """

    def __init__(
        self,
        queries: Mapping[str, str],
        relevance: Mapping[str, RelevanceLike | None] | None = None,
        corpus: Mapping[str, str] | None = None,
        metadata: Mapping[str, Metadata | None] | None = None,
        expected_texts: Mapping[str, Iterable[str]] | None = None,
        *,
        titles: Mapping[str, str | None] | None = None,
        document_metadata: Mapping[str, Metadata | None] | None = None,
        forbidden: Mapping[str, Iterable[str]] | None = None,
        text_hashes: Mapping[str, str] | None = None,
        name: str = "",
        mode: str = "text",
        notes: Iterable[str] = (),
        skipped: Iterable[FileFormatError] = (),
        relevant_docs: Mapping[str, RelevanceLike | None] | None = None,
    ) -> None:
        if relevance is not None and relevant_docs is not None:
            sentence = "relevant_docs can't be given with relevance, which is the same."
            raise InvalidInput("relevant_docs", relevant_docs, sentence=sentence)
        judged = relevance if relevance is not None else relevant_docs
        super().__init__(
            queries=read_texts("queries", queries),
            relevance=read_relevance(judged or {}),
            corpus=read_texts("corpus", corpus or {}),
            metadata=read_metadata("metadata", metadata or {}),
            expected_texts=read_expected_texts(expected_texts or {}),
            titles=read_titles(titles or {}),
            document_metadata=read_metadata("document_metadata", document_metadata or {}),
            forbidden=read_forbidden(forbidden or {}),
            text_hashes=read_text_hashes(text_hashes or {}),
            name=name,
            mode=mode,
            notes=list(notes),
            skipped=tuple(skipped),
        )
        for part in OF_QUERIES:
            refuse_unknown(part, getattr(self, part), self.queries, "queries")
        for part in ("titles", "document_metadata"):
            refuse_unknown(part, getattr(self, part), self.corpus, "corpus")

    @property
    def relevant_docs(self) -> dict[str, Relevance]:
        """The old name of `relevance`: a Relevance is the list of relevant ids."""
        return self.relevance

    @property
    def query_docid_pairs(self) -> list[tuple[str, Relevance]]:
        """Question and relevant ids of every judged query, as LlamaIndex's old dataset had them."""
        return [
            (self.queries[query_id], relevance) for query_id, relevance in self.relevance.items()
        ]

    def to_documents(self) -> list[Document]:
        """The corpus as LlamaIndex documents with the same ids.

        What is indexed is the title and the text; metadata is carried along, not embedded.
        """
        from llama_index.core.schema import Document

        return [Document(**fields) for fields in node_fields(self)]

    def to_nodes(self) -> list[TextNode]:
        """The corpus as LlamaIndex nodes with the same ids, one per document, not split further.

        What is indexed is the title and the text; metadata is carried along, not embedded.
        """
        from llama_index.core.schema import TextNode

        return [TextNode(**fields) for fields in node_fields(self)]

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
        return digest(
            self.queries,
            {document_id: self.indexed_text(document_id) for document_id in self.corpus},
        )

    def select(self, query_ids: Iterable[str]) -> RetrievalDataset:
        """A dataset with some of the queries only, in the order given, and the whole corpus.

        Raises:
            InvalidInput: there is no such query.
        """
        chosen = list(dict.fromkeys(query_ids))
        refuse_unknown("query_ids", chosen, self.queries, "queries")
        parts = {
            part: {
                query_id: getattr(self, part)[query_id]
                for query_id in chosen
                if query_id in getattr(self, part)
            }
            for part in ("queries", *OF_QUERIES)
        }
        return RetrievalDataset(**{**vars(self), **parts})

    def split(
        self, fraction: float = 0.5, seed: int = 0
    ) -> tuple[RetrievalDataset, RetrievalDataset]:
        """Two datasets with different queries, drawn at random, and the same corpus.

        Args:
            fraction: the share of the queries in the first, in [0, 1].
            seed: the same seed draws the same queries.

        Raises:
            InvalidInput: the fraction is out of range, or the seed is no whole number.
        """
        expected = "a number from 0 to 1"
        check_amount("fraction", fraction, expected, lambda share: 0 <= share <= 1)
        check_whole("seed", seed, -math.inf, "a whole number")
        chance = random.Random(int(seed))
        drawn = set(chance.sample(sorted(self.queries), round(fraction * len(self))))
        return (
            self.select(query_id for query_id in self.queries if query_id in drawn),
            self.select(query_id for query_id in self.queries if query_id not in drawn),
        )

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"<RetrievalDataset{name}: {summary(self)}>"

    def _repr_html_(self) -> str:
        return as_html(self)
