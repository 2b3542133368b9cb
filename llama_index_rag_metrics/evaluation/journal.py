"""The journal: a Run on disk, query by query, so that what was retrieved is never asked for again.

A file of JSON lines: first what the run is of (its fingerprint), then a line a finished query,
handed to the operating system before the next one is written. So a killed process loses no
finished query; a power cut may lose the last ones, since lines aren't forced to the disk singly.
A line that was torn by a kill is cut off when the journal is opened again. Failed queries aren't
kept: the next call tries them again. One process at a time, where the system has file locks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from llama_index_rag_metrics.errors import JournalBusy, JournalDamaged, JournalMismatch
from llama_index_rag_metrics.run import Ranking, Span

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

_FORMAT = "llama-index-rag-metrics journal, version 1"

Fingerprint = Mapping[str, str]


class Journal:
    """An append-only file of rankings, open as long as the run goes on.

    Args:
        path: the file; it and its folder are made where they don't exist.
        fingerprint: what the run is of, by aspect.

    Raises:
        JournalMismatch: the file is the journal of another run; says in which aspects.
        JournalDamaged: a line before the last can't be read.
        JournalBusy: another process is writing it.
    """

    def __init__(self, path: str | Path, fingerprint: Fingerprint) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = self.path.open("a+b")
        try:
            self._lock()
            self.finished: dict[str, Ranking] = self._read(fingerprint)
        except BaseException:
            self._file.close()
            raise

    def record(self, query_id: str, ranking: Ranking) -> None:
        """Keep a finished query."""
        self._write(
            {
                "query_id": query_id,
                "ids": list(ranking.ids),
                "scores": None if ranking.scores is None else list(ranking.scores),
                "texts": None if ranking.texts is None else list(ranking.texts),
                "latency": ranking.latency,
                "spans": ranking.spans and list(ranking.spans),
            }
        )

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JournalBusy(str(self.path)) from error

    def _read(self, fingerprint: Fingerprint) -> dict[str, Ranking]:
        self._file.seek(0)
        lines = self._file.readlines()
        rows: list[dict[str, Any]] = []
        end = 0
        for number, line in enumerate(lines, 1):
            row = _parse(line)
            if (row is None and number < len(lines)) or (number == 1 and not _is_header(line)):
                raise JournalDamaged(str(self.path), number)
            if row is None:
                self._file.truncate(end)
                break
            rows.append(row)
            end += len(line)
        if not rows:
            self._write({"format": _FORMAT, "fingerprint": dict(fingerprint)})
            return {}
        self._check(rows[0]["fingerprint"], fingerprint)
        return {row["query_id"]: _ranking(row) for row in rows[1:]}

    def _check(self, theirs: Fingerprint, fingerprint: Fingerprint) -> None:
        differing = {
            aspect: (theirs.get(aspect, ""), fingerprint.get(aspect, ""))
            for aspect in {**theirs, **fingerprint}
            if theirs.get(aspect) != fingerprint.get(aspect)
        }
        if differing:
            raise JournalMismatch(str(self.path), differing)

    def _write(self, row: Mapping[str, Any]) -> None:
        self._file.write(
            json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        )
        self._file.flush()


def _is_header(line: bytes) -> bool:
    """Whether a first line is ours, or what a kill left of it; other files are left alone."""
    begin = json.dumps({"format": _FORMAT}).encode()[:-1]
    return line.startswith(begin) or begin.startswith(line)


def _ranking(row: Mapping[str, Any]) -> Ranking:
    spans = row.get("spans")
    return Ranking(
        row["ids"],
        row["scores"],
        row["texts"],
        row["latency"],
        spans=spans and [span and Span(*span) for span in spans],
    )


def _parse(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
