"""The file under every journal: rows survive, and no other file is ever written to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics.errors import (
    InvalidInput,
    JournalBusy,
    JournalDamaged,
    JournalMismatch,
)
from llama_index_rag_metrics.journal import JsonLinesJournal

FORM = "rows, version 1"
HEADER = b'{"format": "rows, version 1", "fingerprint": {"a": "b"}}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "rows.jsonl"


def opened(path: Path, fingerprint: dict[str, str] | None = None) -> JsonLinesJournal:
    return JsonLinesJournal(path, FORM, fingerprint or {"a": "b"})


def existing(path: Path, content: bytes) -> Path:
    path.parent.mkdir()
    path.write_bytes(content)
    return path


def test_rows_survive_whatever_they_hold(path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"text": "é\u2028\n\r中文\x00"},
        {"half a pair": "\ud800", "scores": [1.5, None, float("inf")]},
        {},
    ]
    with opened(path) as journal:
        assert journal.rows == []
        for row in rows:
            journal.write(row)
    with opened(path) as journal:
        assert journal.rows == rows


def test_a_row_is_on_disk_before_the_next(path: Path) -> None:
    with opened(path) as journal:
        journal.write({"n": 1})
        assert path.read_bytes() == HEADER + b'{"n": 1}\n'


def test_a_torn_last_line_is_cut_off(path: Path) -> None:
    with opened(existing(path, HEADER + b'{"n": 1}\n{"n": 2}')) as journal:
        assert journal.rows == [{"n": 1}]
        journal.write({"n": 3})
    assert path.read_bytes() == HEADER + b'{"n": 1}\n{"n": 3}\n'


@pytest.mark.parametrize("length", [0, 1, 12, 30, len(HEADER) - 1])
def test_a_torn_header_is_written_anew(path: Path, length: int) -> None:
    opened(existing(path, HEADER[:length])).close()
    assert path.read_bytes() == HEADER


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"my thesis", 1),
        (b"my thesis\n", 1),
        (b"my thesis\nits second line", 1),
        (b"{\n  \"format\": 1\n}", 1),
        (b"\x00\xff\n", 1),
        (b"[]\n", 1),
        (HEADER.replace(b"rows", b"other rows"), 1),
        (HEADER.replace(b"rows", b"other rows")[:-1], 1),
        (HEADER.replace(b"version 1", b"version 12")[:-1], 1),
        (b'{"format": "rows, version 1"}\n', 1),
        (b'{"format": "rows, version 1", "fingerprint": "a"}\n', 1),
        (b'{"other": "format"}\nnot json\n{"torn', 1),
        (HEADER + b"not json\n{}\n", 2),
        (HEADER + b"{}\nnot json\n", 3),
        (HEADER + b"{}\n\n{}\n", 3),
        (HEADER + b"{}\n[1]\n{\"torn", 3),
        (HEADER + b"{}\n" + b"[" * 100_000 + b"\n", 3),
    ],
)  # fmt: skip
def test_what_cant_be_read_is_named_and_left_alone(path: Path, content: bytes, line: int) -> None:
    with pytest.raises(JournalDamaged) as caught:
        opened(existing(path, content))
    assert f"{path}, line {line}:" in str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("fingerprint", "wording"),
    [
        ({"a": "c"}, "a is 'c', but the journal has 'b'"),
        ({"a": "b", "new": "x"}, "new is 'x', but the journal has ''"),
        ({"new": "b"}, "a is '', but the journal has 'b'; new is 'b', but the journal has ''"),
    ],
)
def test_the_journal_of_another_run_is_refused(
    path: Path, fingerprint: dict[str, str], wording: str
) -> None:
    content = HEADER + b'{"n": 1}\n{"torn'
    with pytest.raises(JournalMismatch) as caught:
        opened(existing(path, content), fingerprint)
    assert wording in str(caught.value)
    assert path.read_bytes() == content


def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="journal: expected the path of a file") as caught:
        opened(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["notes.txt/rows.jsonl", "notes.txt/deeper/rows.jsonl"])
def test_a_file_is_no_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="its folder is a file"):
        opened(tmp_path / name)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def square(row: dict[str, Any]) -> float:
    return float(row["n"]) ** 2


def test_rows_are_parsed(path: Path) -> None:
    with opened(existing(path, HEADER + b'{"n": 2}\n{"n": "3"}\n')) as journal:
        assert journal.parsed(square) == [4, 9]


@pytest.mark.parametrize("row", [{}, {"n": None}, {"n": "two"}])
def test_a_row_that_cant_be_parsed_is_named(path: Path, row: dict[str, Any]) -> None:
    existing(path, HEADER + b'{"n": 2}\n' + json.dumps(row).encode() + b"\n")
    journal = opened(path)
    with pytest.raises(JournalDamaged, match="line 3"):
        journal.parsed(square)
    opened(path).close()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no POSIX file locks")
def test_one_process_at_a_time(path: Path) -> None:
    with opened(path), pytest.raises(JournalBusy, match="another process"):
        opened(path)
    opened(path).close()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no POSIX file locks")
def test_a_refused_journal_isnt_kept_locked(path: Path) -> None:
    opened(path).close()
    with pytest.raises(JournalMismatch) as caught:
        opened(path, {"a": "c"})
    assert caught.value is not None
    opened(path).close()
