"""The journal of an evaluation: a Run on disk, of which only failed queries are asked again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from llama_index_rag_metrics.files.fields import CALLS
from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.files.runs.run_records import ranking_record, read_ranking, read_repeat
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.journal import UNREADABLE, JsonLinesJournal, read_rows

_FORMAT = "llama-index-rag-metrics journal, version 3"


class Asking(NamedTuple):
    """One time that a query is asked, numbered from 1 on."""

    query_id: str
    repeat: int = 1


class Journal(JsonLinesJournal[tuple[Asking, Ranking]]):
    """An append-only file of rankings; `finished` has those of earlier calls."""

    def __init__(self, path: str | Path, fingerprint: Mapping[str, str]) -> None:
        super().__init__(path, _FORMAT, fingerprint, _read)
        self.finished: dict[Asking, Ranking] = dict(self.rows)

    def record(self, asking: Asking, ranking: Ranking) -> None:
        self.write(_row(asking, ranking))


def read_finished(path: Path) -> set[Asking]:
    finished = set()
    for row in read_rows(path):
        with suppress(*UNREADABLE):
            finished.add(_read(row)[0])
    return finished


def _row(asking: Asking, ranking: Ranking) -> dict[str, Any]:
    return {**ranking_record(*asking, ranking), "concurrency": ranking.concurrency}


def _read(row: Mapping[str, Any]) -> tuple[Asking, Ranking]:
    place = Place("journal", is_ours=True)
    asking = Asking(row["query_id"], read_repeat(row, place))
    ranking = replace(read_ranking(row, place), concurrency=row["concurrency"])
    again = _row(asking, ranking)
    for call, kept in zip(again.get(CALLS, ()), row.get(CALLS, ()), strict=True):
        if type(kept.get("error")) is str:  # masked anew, by what is a secret now
            call["error"] = kept["error"]
    if type(asking.query_id) is not str or again != row:  # which no journal has written
        raise ValueError(row)
    return asking, ranking
