"""Judgements that come one a line, gathered into Relevance; grades as text."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import FileFormatError


class Qrels(dict[str, Relevance]):
    """Query id to Relevance.

    Attributes:
        skipped: the error of every line that `on_error="skip"` left out.
        metadata: query id to its `conversation` and `turn`, where the labels say them.

    Examples:
        >>> from llama_index_rag_metrics import read_qrels
        >>> read_qrels({"q1": {"d1": 2, "d2": 0}})
        {'q1': Relevance({'d1': 2.0, 'd2': 0.0})}
    """

    skipped: tuple[FileFormatError, ...] = ()
    metadata: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


class Judgements:
    """The judgements of a file, each once; `known` are the query ids there are."""

    def __init__(self, known: Collection[str] | None = None, expected: str = "") -> None:
        self._known = known
        self._expected = expected
        self._grades: dict[str, dict[str | None, dict[str, float]]] = {}

    def add(
        self,
        query_id: object,
        document_id: object,
        grade: object,
        place: Place,
        facet: str | None = None,
    ) -> None:
        query, document = read_id(query_id, place), read_id(document_id, place)
        number = read_grade(grade, place)
        if self._known is not None and query not in self._known:
            raise place.wrong(self._expected, query)
        grades = self._grades.setdefault(query, {}).setdefault(facet, {})
        if document in grades:
            raise place.wrong("every judgement once", f"{query} {document}")
        grades[document] = number

    def relevance(self) -> dict[str, Relevance]:
        """Query id to its Relevance; a facet without a grade above 0 is left out."""
        return {query_id: _combined(by_facet) for query_id, by_facet in self._grades.items()}


def _combined(by_facet: Mapping[str | None, Mapping[str, float]]) -> Relevance:
    if None in by_facet:
        return Relevance(by_facet[None])
    facets = {str(facet): Relevance(grades) for facet, grades in by_facet.items()}
    facets = {facet: relevant for facet, relevant in facets.items() if relevant}
    return Relevance.facets(facets) if facets else Relevance()


def format_grade(grade: float) -> str:
    return str(int(grade)) if grade == int(grade) else repr(grade)


def read_grade(text: object, place: Place) -> float:
    grade = read_number(text)
    place.check(math.isfinite(grade), "a grade, a finite number", text)
    return grade


def read_number(value: object) -> float:
    """A number, or its text as every language writes it; NaN where it is none."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan
