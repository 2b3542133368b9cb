"""The journal of question generation: what an LLM answered, so that nothing is paid for twice.

A file of JSON lines: first what the answers are of, then one line a node, handed to the operating
system before the next is written: a killed process loses no finished node. A last line that a kill
tore is cut off when the journal is opened again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from llama_index_rag_metrics.errors import FileFormatError, JournalDamaged, JournalMismatch
from llama_index_rag_metrics.formats.lines import Place, from_json, to_json

_FORMAT = "llama-index-rag-metrics questions, version 1"


class AnswerJournal:
    """An append-only file of answers by node id, open as long as the run goes on.

    Args:
        path: the file; it and its folder are made where they don't exist.
        fingerprint: what the answers are of, by aspect.

    Attributes:
        answers: node id to answer, of the nodes that were finished before.

    Raises:
        JournalMismatch: the file is the journal of another run; says in which aspects.
        JournalDamaged: a line before the last can't be read.
    """

    def __init__(self, path: Path, fingerprint: Mapping[str, str]) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = path.open("a+b")
        try:
            self.answers = self._read(fingerprint)
        except BaseException:
            self._file.close()
            raise

    def record(self, node_id: str, answer: str) -> None:
        """Keep the answer on a node."""
        self._write({"node_id": node_id, "answer": answer})

    def close(self) -> None:
        self._file.close()

    def _read(self, fingerprint: Mapping[str, str]) -> dict[str, str]:
        self._file.seek(0)
        whole, torn = self._whole_lines(self._file.readlines())
        if torn:
            self._file.truncate(sum(map(len, whole)))
        rows = [self._parse(number, line) for number, line in enumerate(whole, 1)]
        if not rows:
            self._write({"format": _FORMAT, "fingerprint": dict(fingerprint)})
            return {}
        header, *answers = rows
        theirs = header.get("fingerprint")
        if header.get("format") != _FORMAT or not isinstance(theirs, dict):
            raise JournalDamaged(str(self.path), 1)
        differing = {
            aspect: (str(theirs.get(aspect)), now)
            for aspect, now in fingerprint.items()
            if theirs.get(aspect) != now
        }
        if differing:
            raise JournalMismatch(str(self.path), differing)
        return {row["node_id"]: row["answer"] for row in answers}

    @staticmethod
    def _whole_lines(lines: list[bytes]) -> tuple[list[bytes], bool]:
        torn = bool(lines) and not lines[-1].endswith(b"\n")
        return (lines[:-1] if torn else lines), torn

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = from_json(line.decode("utf-8"), Place(str(self.path), number))
        except (UnicodeDecodeError, FileFormatError) as error:
            raise JournalDamaged(str(self.path), number) from error
        if not isinstance(row, dict) or not ("format" in row or {"node_id", "answer"} <= set(row)):
            raise JournalDamaged(str(self.path), number)
        return row

    def _write(self, row: Mapping[str, object]) -> None:
        self._file.write(f"{to_json(row)}\n".encode())
        self._file.flush()
