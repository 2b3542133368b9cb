"""Nuggets as JSON: a list of facts beside the question, each with the passages that support it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llama_index_rag_metrics.files.fields import NUGGETS
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.rankings.nugget import Nugget, facets_of
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import InvalidInput

_EXPECTED = 'nuggets, a list of {"text": …, "importance": "vital" or "okay", "supports": {id: …}}'


def read_nuggets(value: object, place: Place) -> list[Nugget]:
    """The nuggets of a question.

    Args:
        value: {"text", "importance", "supports"} each; without importance a nugget is vital.

    Examples:
        >>> read_nuggets([{"text": "a moon of Saturn", "supports": {"d1": "full"}}], Place("x"))
        [Nugget('a moon of Saturn', 'vital', {'d1': 'full'})]
    """
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(nugget, Mapping) for nugget in value
    ):
        raise place.wrong(_EXPECTED, value)
    nuggets: dict[str, Nugget] = {}
    for record in value:
        try:
            nugget = Nugget(
                record["text"], record.get("importance") or "vital", record.get("supports") or {}
            )
        except LookupError as error:
            raise place.wrong(_EXPECTED, record) from error
        except InvalidInput as error:
            raise place.wrong(_EXPECTED, str(error)) from error
        if nugget.text in nuggets:
            raise place.wrong("every nugget of a question once", nugget.text)
        nuggets[nugget.text] = nugget
    return list(nuggets.values())


def are_nuggets(value: object) -> bool:
    """Whether this is a list of records, of which at least one is of a fact."""
    return isinstance(value, (list, tuple)) and any(
        isinstance(record, Mapping) and "text" in record for record in value
    )


def read_nugget_facets(value: object, place: Place) -> Relevance:
    """The nuggets of a question as facets, supplied in full: weight 1 if vital, else 0.5."""
    return facets_of(read_nuggets(value, place))


def nuggets_record(
    query_id: str, query: str, nuggets: Iterable[Nugget], error: str | None = None
) -> dict[str, Any]:
    """The record of a question and its nuggets, with what went wrong if anything did."""
    records = [
        {
            "text": nugget.text,
            "importance": nugget.importance,
            **({"supports": dict(nugget.supports)} if nugget.supports else {}),
        }
        for nugget in nuggets
    ]
    record = {"query_id": query_id, "query": query, NUGGETS: records}
    return record if error is None else {**record, "error": error}
