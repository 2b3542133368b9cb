"""RetrievalDataset: questions, what is relevant to them, and the corpus to look in."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import Self

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.report.text import one_line
from llama_index_rag_metrics.runtime.containers import map_values, picked
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first

from .conversations import read_conversation
from .dataset_reading import Corpus, read_dataset
from .lines import to_json, without_packing, write_lines
from .records import GRADED_BY

if TYPE_CHECKING:
    from llama_index.core.schema import TextNode

Metadata: TypeAlias = Mapping[str, Any]
_COLUMNS_SHOWN = 8
_LABELS_IN = (
    "None of {questions} has labels. They are read from expected_ids, or the column of "
    "columns={{'labels': …}}; columns here: {columns}. Without any, use llm_relevancy"
)
_LABELS = "a mapping from query id to relevant ids, such as {'q1': ['d1']}"
_OF_QUERIES = ("relevance", "metadata", "expected_texts")
_METADATA = "a mapping from id to {key: value}"
_TEXTS_BY_ID = "a mapping from id to text, such as {'q1': 'Why?'}"


@dataclass(init=False, repr=False)
class RetrievalDataset:
    """Questions, what is relevant to them, and the corpus to look in.

    Args:
        queries: query id to question.
        relevance: query id to what is relevant: ids, {id: grade}, groups of ids or a `Relevance`. A
            query that is absent is unjudged; one with nothing relevant has an empty one.
        corpus: document id to text, without its title. May be empty.
        metadata: query id to {key: value}, for slices, and for those who retrieve: `conversation`
            is the id of one, `history` what was said before, [{"role": …, "content": …}, …].
        expected_texts: query id to the texts that answer it, where relevance isn't known by id.
        titles: document id to title; what is indexed is the title, then the text.
        document_metadata: document id to {key: value}.
        name: what to call the dataset.
        notes: what a user of the dataset should know, such as how it came about.

    Raises:
        InvalidInput: an id isn't a text, or a part is about a query or document that isn't there.

    Examples:
        >>> dataset = RetrievalDataset(
        ...     {"q1": "Which moon has geysers?", "q2": "Who was the first on it?"},
        ...     {"q1": {"d1": 2, "d2": 1}},
        ...     {"d1": "Enceladus has geysers.", "d2": "Triton may have geysers."},
        ... )
        >>> dataset
        <RetrievalDataset: 2 questions, 1 of them labelled (2 labels), 2 passages>
        >>> dataset.check()
        ["1 of 2 questions have no labels: 'q2'"]
    """

    queries: dict[str, str]
    relevance: dict[str, Relevance]
    corpus: dict[str, str]
    metadata: dict[str, dict[str, Any]]
    expected_texts: dict[str, list[str]]
    titles: dict[str, str]
    document_metadata: dict[str, dict[str, Any]]
    name: str = field(compare=False)
    notes: list[str] = field(compare=False)

    def __init__(
        self,
        queries: Mapping[str, str],
        relevance: Mapping[str, RelevanceLike] | None = None,
        corpus: Mapping[str, str] | None = None,
        metadata: Mapping[str, Metadata] | None = None,
        expected_texts: Mapping[str, Iterable[str]] | None = None,
        *,
        titles: Mapping[str, str] | None = None,
        document_metadata: Mapping[str, Metadata] | None = None,
        name: str = "",
        notes: Iterable[str] = (),
    ) -> None:
        self.queries = _checked("queries", queries, str, _TEXTS_BY_ID)
        self.corpus = _checked("corpus", corpus, str, _TEXTS_BY_ID)
        labels = _checked("relevance", relevance, object, _LABELS)
        self.relevance = {key: _read_labels(key, value) for key, value in labels.items()}
        rows = _filled("metadata", metadata, Mapping, _METADATA)
        self.metadata = {key: read_conversation(key, row) for key, row in rows.items()}
        expected = "a mapping from query id to a list of texts"
        texts = _checked("expected_texts", expected_texts, (list, tuple), expected)
        self.expected_texts = map_values(list, texts)
        self.titles = _filled("titles", titles, str, _TEXTS_BY_ID)
        rows = _filled("document_metadata", document_metadata, Mapping, _METADATA)
        self.document_metadata = map_values(dict, rows)
        self.name, self.notes = name, list(notes)
        for part in _OF_QUERIES:
            _refuse_unknown(part, getattr(self, part), self.queries, "queries")
        for part in ("titles", "document_metadata"):
            _refuse_unknown(part, getattr(self, part), self.corpus, "corpus")

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
            source: a path: a BEIR folder; JSON of `save`, of LlamaIndex's datasets or of ragas;
                JSONL, CSV, TSV or Parquet with a question a row; each also packed as .gz, .bz2 or
                .xz. Or an object: a dataset of LlamaIndex or ir_datasets, a dict or a list of such
                a shape, a data frame. Without an id, a question has a digest of its text as its
                id; other fields become its metadata.
            corpus: the documents, where they are elsewhere: {document id: text}, a data frame, or
                a file like BEIR's corpus.jsonl.
            columns: what fields are called here: {"question": "input", "labels": "gold_ids"}.
            split: which split of a BEIR folder: by default test, else the only one there is.
            name: what to call it; by default as the file or the folder.

        Raises:
            FileFormatError: it is none of these, or empty; a line can't be read, or repeats an id.

        Examples:
            >>> goldens = [{"input": "why?", "gold_ids": ["d1"]}]
            >>> columns = {"question": "input", "labels": "gold_ids"}
            >>> RetrievalDataset.load(goldens, columns=columns).relevance
            {'q-f5b2b98bf44b': Relevance(['d1'])}
        """
        if isinstance(source, cls):
            return source
        parts = read_dataset(source, corpus, columns, split)
        parts["name"] = name or parts.get("name", "")
        try:
            return cls(**parts)
        except InvalidInput as error:
            is_path = isinstance(source, (str, os.PathLike))
            place = str(source) if is_path else f"this {type(source).__name__}"
            raise FileFormatError(place, sentence=f"{place}: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to one file of JSON.

        Raises:
            InvalidInput: the path doesn't end in .json, or .json.gz.
        """
        check_ending(Path(path))
        labels, graders = {}, {}
        for query_id, relevance in self.relevance.items():
            labels[query_id] = relevance.to_plain()
            if model := getattr(relevance, GRADED_BY, ""):
                graders[query_id] = model
        head = {"name": self.name, "queries": self.queries, "relevance": labels}
        parts = {**vars(self), GRADED_BY: graders}
        parts = head | {key: part for key, part in parts.items() if part and key not in head}
        write_lines(Path(path), [to_json(parts, indent=1)])

    mode = "text"  # LlamaIndex's evaluators ask for it

    @property
    def relevant_docs(self) -> dict[str, Relevance]:
        """What LlamaIndex's evaluators call `relevance`."""
        return self.relevance

    def to_nodes(self) -> list[TextNode]:
        """The corpus as LlamaIndex nodes of the same ids, not split; metadata isn't embedded."""
        from llama_index.core.schema import TextNode

        nodes = []
        for document_id in self.corpus:
            metadata = dict(self.document_metadata.get(document_id, {}))
            node = TextNode(
                id_=document_id,
                text=self.indexed_text(document_id),
                metadata=metadata,
                excluded_embed_metadata_keys=list(metadata),
                excluded_llm_metadata_keys=list(metadata),
            )
            nodes.append(node)
        return nodes

    def indexed_text(self, document_id: str) -> str:
        lines = (self.titles.get(document_id, ""), self.corpus[document_id])
        return "\n".join(filter(None, lines))

    def text_of(self, passage: str | Span) -> str | None:
        """The text of a passage by its id or place, or None."""
        if isinstance(passage, Span):
            return self.corpus.get(passage.source, "")[passage.start : passage.end] or None
        return self.indexed_text(passage) if passage in self.corpus else None

    def check(self) -> list[str]:
        """What to look at before trusting the scores, one sentence each; empty if all is well."""
        corpus, labelled = self.corpus, set(chain.from_iterable(self.relevance.values()))
        absent: set[str] = set()
        for labels in self.relevance.values():
            for item in labels:
                place = (labels.spans or {}).get(item)
                if corpus and {item, getattr(place, "source", item)}.isdisjoint(corpus):
                    absent.add(item)
        nothing = [key for key, labels in self.relevance.items() if not labels]
        blank = [key for key, text in self.queries.items() if not text.strip()]
        bare = [key for key in corpus if not self.indexed_text(key).strip()]
        remarks = [
            _share(self._unlabelled(), self.queries, "questions have no labels"),
            _share(nothing, self.queries, "questions have nothing relevant"),
            _share(absent, labelled, "labelled ids aren't in the corpus"),
            _share(blank, self.queries, "questions have no text"),
            _share(bare, corpus, "passages have no text"),
        ]
        return [*self.notes, *filter(None, remarks), *unread_labels(self)]

    def _unlabelled(self) -> list[str]:
        labelled = self.relevance.keys() | self.expected_texts.keys()
        return [query_id for query_id in self.queries if query_id not in labelled]

    def select(self, query_ids: Iterable[str]) -> RetrievalDataset:
        """A dataset with some of the queries only, in the order given, and the whole corpus.

        Raises:
            InvalidInput: there is no such query.
        """
        unique = list(dict.fromkeys(query_ids))
        _refuse_unknown("query_ids", unique, self.queries, "queries")
        parts = dict(vars(self))
        parts.pop("mode", None)  # where an evaluator of LlamaIndex's was told one
        for part in ("queries", *_OF_QUERIES):
            parts[part] = picked(parts[part], unique)
        return RetrievalDataset(**parts)

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        name = f" {one_line(self.name)}" if self.name else ""
        n_unlabelled = len(self._unlabelled())
        extent = f"{len(self) - n_unlabelled} of them labelled" if n_unlabelled else "labelled"
        counts = f"{questions(len(self))}, {extent}"
        if self.relevance:
            n_labels = sum(len(labels.grades) for labels in self.relevance.values())
            counts += f" ({counted(n_labels, 'label', 'labels')})"
        if self.corpus:
            counts += f", {counted(len(self.corpus), 'passage', 'passages')}"
        return f"<RetrievalDataset{name}: {counts}>"


def texts_of_passages(dataset: RetrievalDataset) -> dict[str, str]:
    """The texts that a dataset has by id: of its corpus, and of labels beside their ids."""
    texts: dict[str, str] = {}
    for query_id, labels in dataset.relevance.items():
        label_texts = dataset.expected_texts.get(query_id, ())
        if len(labels) == len(label_texts):
            texts.update(zip(labels, label_texts, strict=True))
    return texts | dict(zip(dataset.corpus, map(dataset.indexed_text, dataset.corpus), strict=True))


def check_ending(path: Path) -> None:
    if without_packing(path).suffix != ".json":
        raise InvalidInput("path", str(path), "a name that ends in .json")


def unread_labels(dataset: RetrievalDataset) -> list[str]:
    """Return a sentence if no question has labels, but other fields that may hold them."""
    columns = dict.fromkeys(chain.from_iterable(dataset.metadata.values()))
    if dataset.relevance or dataset.expected_texts or not columns:
        return []
    names = join_first(list(columns), _COLUMNS_SHOWN)
    return [_LABELS_IN.format(questions=questions(len(dataset)), columns=names)]


def _share(part: Collection[str], total: Collection[str], remark: str) -> str:
    if not part:
        return ""
    return f"{len(part):,} of {len(total):,} {remark}: {join_first(list(map(repr, sorted(part))))}"


def _checked(part: str, values: Any, kind: Any, expected: str) -> dict[str, Any]:
    if values is None:
        return {}
    if not hasattr(values, "items"):
        raise InvalidInput(part, values, expected)
    for key, value in values.items():
        _check_id(part, key)
        if not isinstance(value, kind):
            raise InvalidInput(f"{part}[{key!r}]", value, expected)
    return dict(values)


def _filled(part: str, values: Any, kind: Any, expected: str) -> dict[str, Any]:
    return {key: value for key, value in _checked(part, values, kind, expected).items() if value}


def _read_labels(query_id: str, labels: Any) -> Relevance:
    place = f"relevance[{query_id!r}]"
    try:
        relevance = as_relevance(labels)
    except InvalidInput as error:
        if error.argument != "expected_ids":
            place = f"{place}, {error.argument}"
        raise InvalidInput(place, error.value, error.expected, error.remedy) from None
    for document_id in relevance.grades:
        _check_id(place, document_id)
    return relevance


def _refuse_unknown(part: str, ids: Iterable[str], allowed: Collection[str], where: str) -> None:
    unknown = [key for key in ids if key not in allowed]
    if unknown:
        raise InvalidInput(part, unknown, f"only ids of {where}")


def _check_id(argument: str, key: object) -> None:
    if not isinstance(key, str) or not key:
        remedy = "Use str(id); grades are written as {id: grade}."
        raise InvalidInput(argument, key, "ids that are texts and not empty", remedy)
