"""The journal of an evaluation: a row for each answered question, which its text finds again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.lines import Location
from llama_index_rag_metrics.files.records import ranking_record, read_ranking, read_repeat
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.atomic_files import short_hash
from llama_index_rag_metrics.runtime.journal import JsonLinesJournal, read_journal

from .as_ask import Question

_RESUMED = "{kept:,} of {all:,} answers come from {path}, of {day}; {new}"
CONTEXT = "told"
"""The aspect of the header that names what the source is told beside the question."""

_FORMAT = "llama-index-rag-metrics journal, version 1"


class Attempt(NamedTuple):
    """One time that a query is asked, numbered from 1 on."""

    query_id: str
    repeat: int = 1


class Row(NamedTuple):
    """A row of a journal: the ranking, and a digest of the question that it answers."""

    attempt: Attempt
    question: str
    ranking: Ranking


class Journal(JsonLinesJournal[Row]):
    """An append-only file of answers, under a header that says what can be known exactly."""

    def __init__(self, path: str | Path, header: Mapping[str, str]) -> None:
        super().__init__(path, {"format": _FORMAT, **header}, _read)
        self._context = header.get(CONTEXT, "")

    def record(self, attempt: Attempt, question: Question, ranking: Ranking) -> None:
        row = ranking_record(*attempt, ranking)
        row["concurrency"] = ranking.concurrency
        row["question"] = _digest(question.query_str, question.metadata, self._context)
        self.write(row)

    def resumed(self, n_kept: int, n_asked: int) -> str:
        """The sentence on how many answers came from the file, and from when they are."""
        new = {0: "none was asked", 1: "1 was asked"}.get(n_asked, f"{n_asked:,} were asked")
        day, n_all = f"{self.written.day} {self.written:%B %Y}", n_kept + n_asked
        return _RESUMED.format(kept=n_kept, all=n_all, path=self.path, day=day, new=new)


def answers_to(
    dataset: RetrievalDataset, header: Mapping[str, str], rows: Sequence[Row]
) -> dict[Attempt, Ranking]:
    """The rankings of those questions that are still what was asked."""
    context = header.get(CONTEXT, "")
    rankings = {}
    for attempt, question, ranking in rows:
        text = dataset.queries.get(attempt.query_id)
        metadata = dataset.metadata.get(attempt.query_id, {})
        if text is not None and question == _digest(text, metadata, context):
            rankings[attempt] = ranking
    return rankings


def read_answers(path: Path) -> tuple[dict[str, str], list[Row]]:
    """Read the header and the answers of a journal, which isn't opened."""
    return read_journal(path, _read)


def _digest(text: str, metadata: Mapping[str, Any], context: str) -> str:
    """Digest what was asked: the text, and what else was said, where the source takes it."""
    parts: list[Any] = [text]
    if context == "metadata":
        parts.append(dict(metadata))
    elif context == "history":
        parts.append(metadata.get(HISTORY))
    return short_hash(json.dumps(parts, sort_keys=True, default=str), 16)


def _read(row: Mapping[str, Any]) -> Row:
    location = Location("journal")
    query_id, question = row["query_id"], row["question"]
    if type(query_id) is not str or type(question) is not str:
        raise ValueError(row)
    ranking = replace(read_ranking(row, location), concurrency=row["concurrency"])
    return Row(Attempt(query_id, read_repeat(row, location)), question, ranking)
