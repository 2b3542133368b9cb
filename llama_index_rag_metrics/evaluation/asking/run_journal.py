"""The journal of an evaluation: a Run on disk, so that what was retrieved is never asked for again.

Failed queries aren't kept: the next call tries them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.rankings.run import Call, Items, Ranking
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.journal import UNREADABLE, JsonLinesJournal, read_rows

_FORMAT = "llama-index-rag-metrics journal, version 2"
_MARKS = ("forbidden", "forbidden_unknown")


class Journal(JsonLinesJournal[tuple[str, Ranking]]):
    """An append-only file of rankings; `finished` has those of earlier calls by query id."""

    def __init__(self, path: str | Path, fingerprint: Mapping[str, str]) -> None:
        super().__init__(path, _FORMAT, fingerprint, _read)
        self.finished: dict[str, Ranking] = dict(self.rows)

    def record(self, query_id: str, ranking: Ranking) -> None:
        """Keep a finished query."""
        row = {"query_id": query_id, **_columns(ranking), "concurrency": ranking.concurrency}
        for name in _MARKS:
            marked = getattr(ranking, name)
            row[name] = None if marked is None else list(marked)
        if ranking.calls is not None:
            row["calls"] = [
                {
                    **_columns(call),
                    "query": call.query,
                    "by": call.asked_by,
                    "retriever": call.retriever,
                    "error": call.error,
                }
                for call in ranking.calls
            ]
            row["context"] = None if ranking.context is None else _columns(ranking.context)
        self.write(row)


def read_finished(path: Path) -> set[str]:
    """The ids of the queries that a journal has finished; its file isn't locked."""
    finished = set()
    for row in read_rows(path):
        with suppress(*UNREADABLE):
            finished.add(_read(row)[0])
    return finished


def _columns(items: Items) -> dict[str, Any]:
    return {
        "ids": list(items.ids),
        "scores": items.scores and list(items.scores),
        "texts": items.texts and list(items.texts),
        "latency": items.latency,
        "spans": items.spans and list(items.spans),
        "tokens": items.tokens and list(items.tokens),
    }


def _read(row: Mapping[str, Any]) -> tuple[str, Ranking]:
    calls, context = row.get("calls"), row.get("context")
    marks: dict[str, Any] = {
        name: _each(row[name], str) for name in _MARKS if row.get(name) is not None
    }
    ranking = Ranking(
        **_read_columns(row),
        concurrency=row.get("concurrency"),
        **marks,
        calls=None if calls is None else tuple(map(_read_call, calls)),
        context=None if context is None else Ranking(**_read_columns(context)),
    )
    if type(row["query_id"]) is not str:
        raise TypeError(row)
    return row["query_id"], ranking


def _read_call(row: Mapping[str, Any]) -> Call:
    query, asked_by, retriever = _each([row["query"], row["by"], row.get("retriever", "")], str)
    (error,) = _each([row["error"]], str, type(None))
    return Call(
        **_read_columns(row), error=error, query=query, asked_by=asked_by, retriever=retriever
    )


def _read_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    spans, tokens = row["spans"], row.get("tokens")
    if type(row["latency"]) not in (float, int, type(None)):
        raise TypeError(row)
    return {
        "ids": _each(row["ids"], str),
        "scores": row["scores"] and _each(row["scores"], float, int, type(None)),
        "texts": row["texts"] and _each(row["texts"], str),
        "latency": row["latency"],
        "spans": spans and [span and _span(*span) for span in spans],
        "tokens": tokens and _each(tokens, int),
    }


def _span(source: object, start: object, end: object) -> Span:
    if type(source) is not str or type(start) is not int or type(end) is not int:
        raise TypeError(source, start, end)
    return Span(source, start, end)


def _each(column: object, *types: type) -> list[Any]:
    if type(column) is not list or not {*map(type, column)}.issubset(types):
        raise TypeError(column)
    return column
