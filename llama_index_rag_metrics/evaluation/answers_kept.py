"""The journal of an evaluation: a row for each answered question, which its text finds again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.lines import Location
from llama_index_rag_metrics.files.records import ranking_record, read_ranking, read_repeat
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.atomic_files import short_hash
from llama_index_rag_metrics.runtime.journal import JsonLinesJournal, read_journal

from .question import Context, Question

_RESUMED = "{kept:,} of {all:,} answers come from {path}, of {day}; {new}"
_FORMAT = "llama-index-rag-metrics journal, version 1"


class Attempt(NamedTuple):
    """One time that a query is asked, numbered from 1 on."""

    query_id: str
    repeat: int = 1


class Row(NamedTuple):
    """A row of a journal: the ranking, and a digest of the question that it answers."""

    attempt: Attempt
    question: str
    context: Context | None
    ranking: Ranking


class Journal(JsonLinesJournal[Row]):
    """An append-only file of answers, under a header that says what can be known exactly."""

    def __init__(self, path: str | Path, header: Mapping[str, str]) -> None:
        super().__init__(path, {"format": _FORMAT, **header}, _read)

    def record(
        self, attempt: Attempt, question: Question, context: Context | None, ranking: Ranking
    ) -> None:
        row = ranking_record(*attempt, ranking)
        row["concurrency"] = ranking.concurrency
        row["question"] = _digest(question.query_str, question.metadata, context)
        if context is not None:
            row["told"] = context
        self.write(row)

    def resumed(self, n_kept: int, n_asked: int) -> str:
        """The sentence on how many answers came from the file, and from when they are."""
        written = self.written
        day = f"{written.day} {written:%B}"
        if written.year != date.today().year:
            day = f"{day} {written.year}"
        new = {0: "none was asked", 1: "1 was asked"}.get(n_asked, f"{n_asked:,} were asked")
        n_all = n_kept + n_asked
        return _RESUMED.format(kept=n_kept, all=n_all, path=self.path, day=day, new=new)


def answers_to(dataset: RetrievalDataset, rows: Sequence[Row]) -> dict[Attempt, Ranking]:
    """The rankings of those questions that are still what was asked."""
    rankings = {}
    for row in rows:
        query_id = row.attempt.query_id
        if query_id not in dataset.queries:
            continue
        metadata = dataset.metadata.get(query_id, {})
        if row.question == _digest(dataset.queries[query_id], metadata, row.context):
            rankings[row.attempt] = row.ranking
    return rankings


def read_answers(path: Path) -> tuple[dict[str, str], list[Row]]:
    """Read the header and the answers of a journal, which isn't opened."""
    return read_journal(path, _read)


def _digest(text: str, metadata: Mapping[str, Any], context: Context | None) -> str:
    """Digest what was asked: the text, and what else was said, where the source takes it."""
    parts: list[Any] = [text]
    if context == "metadata":
        parts.append(dict(metadata))
    elif context == "history":
        parts.append(metadata.get(HISTORY))
    return short_hash(json.dumps(parts, sort_keys=True, default=str), 16)


def _read(row: Mapping[str, Any]) -> Row:
    location = Location("journal")
    query_id, question, context = row["query_id"], row["question"], row.get("told")
    if type(query_id) is not str or type(question) is not str:
        raise ValueError(row)
    if context not in (None, "history", "metadata"):
        raise ValueError(row)
    ranking = replace(read_ranking(row, location), concurrency=row["concurrency"])
    return Row(Attempt(query_id, read_repeat(row, location)), question, context, ranking)
