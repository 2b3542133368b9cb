"""The journal of an evaluation: a Run on disk, so that what was retrieved is never asked for again.

Failed queries aren't kept: the next call tries them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.files.fields import CALLS
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.runs.run_fields import ranking_record, read_ranking
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.journal import UNREADABLE, JsonLinesJournal, read_rows

_FORMAT = "llama-index-rag-metrics journal, version 3"


class Journal(JsonLinesJournal[tuple[str, Ranking]]):
    """An append-only file of rankings; `finished` has those of earlier calls by query id."""

    def __init__(self, path: str | Path, fingerprint: Mapping[str, str]) -> None:
        super().__init__(path, _FORMAT, fingerprint, _read)
        self.finished: dict[str, Ranking] = dict(self.rows)

    def record(self, query_id: str, ranking: Ranking) -> None:
        """Keep a finished query."""
        self.write(_row(query_id, ranking))


def read_finished(path: Path) -> set[str]:
    """The ids of the queries that a journal has finished; its file isn't locked."""
    finished = set()
    for row in read_rows(path):
        with suppress(*UNREADABLE):
            finished.add(_read(row)[0])
    return finished


def _row(query_id: str, ranking: Ranking) -> dict[str, Any]:
    return {**ranking_record(query_id, ranking), "concurrency": ranking.concurrency}


def _read(row: Mapping[str, Any]) -> tuple[str, Ranking]:
    query_id = row["query_id"]
    ranking = read_ranking(row, Place("journal", is_ours=True))
    ranking = replace(ranking, concurrency=row["concurrency"])
    again = _row(query_id, ranking)
    for call, kept in zip(again.get(CALLS, ()), row.get(CALLS, ()), strict=True):
        if type(kept.get("error")) is str:  # masked anew, by what is a secret now
            call["error"] = kept["error"]
    if type(query_id) is not str or again != row:  # which no journal has written
        raise ValueError(row)
    return query_id, ranking
