"""The parts of a dataset as a caller gives them: checked, and copied."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.formats.beir import read_corpus
from llama_index_rag_metrics.formats.content import DatasetContent
from llama_index_rag_metrics.formats.frame import frame_records
from llama_index_rag_metrics.formats.lines import Faults
from llama_index_rag_metrics.formats.records import read_document
from llama_index_rag_metrics.relevance import Relevance, RelevanceLike

if TYPE_CHECKING:
    import pandas as pd

Corpus: TypeAlias = "Mapping[str, str] | pd.DataFrame | str | os.PathLike[str]"
"""{document id: text}, a data frame of documents, or a file like BEIR's corpus.jsonl."""


OF_QUERIES = ("relevance", "metadata", "expected_texts", "forbidden")
"""The parts of a dataset that are by query."""


def read_texts(part: str, given: Mapping[str, str]) -> dict[str, str]:
    """Texts by id."""
    if not isinstance(given, Mapping):
        raise InvalidInput(part, given, "a mapping from id to text")
    for one, text in given.items():
        _check_id(part, one)
        if not isinstance(text, str):
            raise InvalidInput(f"{part}[{one!r}]", text, "a text")
    return dict(given)


def read_relevance(given: Mapping[str, RelevanceLike | None]) -> dict[str, Relevance]:
    """Relevance by query id, in any form; None is left out, since it says that none was judged."""
    judged = {one: Relevance.of(found) for one, found in given.items() if found is not None}
    for one, found in judged.items():
        for document_id in found.grades:
            _check_id(f"relevance[{one!r}]", document_id)
    return judged


def read_metadata(given: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Metadata by id, where there is any."""
    return {one: dict(row) for one, row in given.items() if row}


def read_forbidden(given: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Lists of forbidden ids by query id."""
    if not isinstance(given, Mapping):
        raise InvalidInput("forbidden", given, "a mapping from query id to ids")
    for one, ids in given.items():
        if isinstance(ids, str):
            raise InvalidInput(f"forbidden[{one!r}]", ids, "a list of ids")
    return {one: list(dict.fromkeys(ids)) for one, ids in given.items()}


def read_expected_texts(given: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Lists of texts by query id."""
    for one, texts in given.items():
        if isinstance(texts, str):
            raise InvalidInput(f"expected_texts[{one!r}]", texts, "a list of texts")
    return {one: list(texts) for one, texts in given.items()}


def refuse_unknown(part: str, ids: Iterable[str], known: Collection[str], where: str) -> None:
    """Raise unless every id is known."""
    unknown = [one for one in ids if one not in known]
    if unknown:
        raise InvalidInput(part, unknown, f"only ids of {where}")


def with_corpus(content: DatasetContent, corpus: Corpus | None, faults: Faults) -> DatasetContent:
    """Add the documents of a mapping, a data frame, or a file like BEIR's corpus.jsonl."""
    if isinstance(corpus, (str, os.PathLike)):
        read_corpus(Path(corpus), content, faults)
    elif isinstance(corpus, Mapping):
        content.corpus.update(corpus)
    elif corpus is not None:
        faults.each(
            frame_records(corpus), lambda record, place: read_document(content, record, place)
        )
    return content


def _check_id(argument: str, given: object) -> None:
    if not isinstance(given, str) or not given:
        raise InvalidInput(argument, given, "ids that are texts and not empty", "Use str(id).")
