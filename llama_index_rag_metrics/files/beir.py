"""BEIR folders: corpus.jsonl, queries.jsonl and qrels/<split>.tsv, each of them gzipped or not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.files import records
from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.fields import DOC_ID, QUERY_ID
from llama_index_rag_metrics.files.lines import Place, each, from_json, read_lines
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import InvalidInput

_SCORE_HEADINGS = {"score", "relevance", "rel", "grade", "label"}


def is_beir(folder: Path) -> bool:
    return _find(folder, "queries.jsonl") is not None


def read_beir(folder: Path, split: str | None) -> DatasetContent:
    content = DatasetContent(name=folder.name)
    queries = _find(folder, "queries.jsonl") or folder / "queries.jsonl"
    _each_object(queries, partial(read_query, content))
    if corpus := _find(folder, "corpus.jsonl"):
        content = read_corpus(corpus, content)
    splits = {
        path.name.removesuffix(".gz").removesuffix(".tsv"): path
        for path in sorted((folder / "qrels").glob("*.tsv*"))
        if path.name.endswith((".tsv", ".tsv.gz"))
    }
    chosen = _choose(split, list(splits))
    if chosen is None:
        return content
    elsewhere = {
        query_id
        for other, path in splits.items()
        if other != chosen
        for query_id in read_judgements(path)
    }
    relevance = read_judgements(splits[chosen], known=content.queries)
    for query_id in elsewhere - set(relevance):
        content.queries.pop(query_id, None)
        content.metadata.pop(query_id, None)
    content.relevance = relevance
    return content


def read_judgements(path: Path, known: Collection[str] | None = None) -> dict[str, Relevance]:
    """Read a file of qrels/: query id, document id (or as its header says) and grade, by tabs."""
    grades = records.Judgements(known, "a query id of queries.jsonl")
    documents_first = False

    def read(line: str, place: Place) -> None:
        nonlocal documents_first
        columns = line.split("\t")
        expected = "query-id, corpus-id and score, with tabs between them"
        place.check(len(columns) == 3, expected, line)
        *ids, grade = columns
        if place.line == 1 and grade.strip().lower() in _SCORE_HEADINGS:
            documents_first = ids[0].strip().lower() in DOC_ID
        else:
            query_id, document_id = ids[::-1] if documents_first else ids
            grades.add(query_id, document_id, grade, place)

    each(read_lines(path), read)
    return grades.relevance()


def read_corpus(path: Path, content: DatasetContent) -> DatasetContent:
    _each_object(path, partial(records.read_document, content))
    return content


def _each_object(path: Path, read: Callable[[Any, Place], None]) -> None:
    lines = read_lines(path)
    each(lines, lambda line, place: read(from_json(line, place), place))


def read_query(content: DatasetContent, record: Any, place: Place) -> None:
    is_question = isinstance(record, dict) and isinstance(record.get("text"), str)
    place.check(is_question, 'a question, {"_id": …, "text": …}', record)
    fields = {key: value for key, value in record.items() if value is not None}
    query_id = records.read_id(records.take(fields, QUERY_ID), place)
    place.check(query_id not in content.queries, "every query id once", query_id)
    content.queries[query_id] = fields.pop("text")
    if metadata := records.take_metadata(fields):
        content.metadata[query_id] = metadata


def _choose(split: str | None, splits: list[str]) -> str | None:
    if split is None and "test" in splits:
        return "test"
    if split is None and len(splits) <= 1:
        return next(iter(splits), None)
    if split not in splits:
        raise InvalidInput("split", split, f"one of {sorted(splits)}")
    return split


def _find(folder: Path, name: str) -> Path | None:
    paths = (folder / name, folder / f"{name}.gz")
    return next((path for path in paths if path.is_file()), None)
