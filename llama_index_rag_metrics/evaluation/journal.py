"""The journal of an evaluation: a Run on disk, so that what was retrieved is never asked for again.

Failed queries aren't kept: the next call tries them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.journal import JsonLinesJournal
from llama_index_rag_metrics.run import Ranking
from llama_index_rag_metrics.span import Span

_FORMAT = "llama-index-rag-metrics journal, version 2"


class Journal(JsonLinesJournal[tuple[str, Ranking]]):
    """An append-only file of rankings, open as long as the run goes on.

    Args:
        path: the file; it and its folder are made where they don't exist.
        fingerprint: what the run is of, by aspect.

    Attributes:
        finished: query id to ranking, of the queries that were finished before.

    Raises:
        JournalMismatch, JournalDamaged, JournalBusy, InvalidInput: see `JsonLinesJournal`.
    """

    def __init__(self, path: str | Path, fingerprint: Mapping[str, str]) -> None:
        super().__init__(path, _FORMAT, fingerprint, _read)
        self.finished: dict[str, Ranking] = dict(self.rows)

    def record(self, query_id: str, ranking: Ranking) -> None:
        """Keep a finished query."""
        self.write(
            {
                "query_id": query_id,
                "ids": list(ranking.ids),
                "scores": ranking.scores and list(ranking.scores),
                "texts": ranking.texts and list(ranking.texts),
                "latency": ranking.latency,
                "concurrency": ranking.concurrency,
                "spans": ranking.spans and list(ranking.spans),
                "tokens": ranking.tokens and list(ranking.tokens),
                "forbidden": None if ranking.forbidden is None else list(ranking.forbidden),
            }
        )


def _read(row: Mapping[str, Any]) -> tuple[str, Ranking]:
    spans, tokens, forbidden = row["spans"], row.get("tokens"), row.get("forbidden")
    query_id, ranking = (
        row["query_id"],
        Ranking(
            ids=_each(row["ids"], str),
            scores=row["scores"] and _each(row["scores"], float, int, type(None)),
            texts=row["texts"] and _each(row["texts"], str),
            latency=row["latency"],
            concurrency=row.get("concurrency"),
            spans=spans and [span and _span(*span) for span in spans],
            tokens=tokens and _each(tokens, int),
            forbidden=None if forbidden is None else _each(forbidden, str),
        ),
    )
    if type(query_id) is not str or type(ranking.latency) not in (float, int, type(None)):
        raise TypeError(row)
    return query_id, ranking


def _span(source: object, start: object, end: object) -> Span:
    if type(source) is not str or type(start) is not int or type(end) is not int:
        raise TypeError(source, start, end)
    return Span(source, start, end)


def _each(column: object, *types: type) -> list[Any]:
    if type(column) is not list or not {*map(type, column)}.issubset(types):
        raise TypeError(column)
    return column
