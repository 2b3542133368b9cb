"""The file under every journal: rows survive, and no other file is ever written to."""

from __future__ import annotations

import json
import os
import random
import stat
import warnings
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from support.processes import Forked

from llama_index_rag_metrics.runtime.errors import (
    InvalidInput,
    JournalBusy,
    JournalDamaged,
    JournalMismatch,
    RowsDropped,
)
from llama_index_rag_metrics.runtime.journal import JsonLinesJournal

FORM = "rows, version 1"


def line(content: str) -> bytes:
    """A row as it stands in the file: the CRC-32 of its JSON is its last field."""
    check = b'"crc32": "%08x"}\n' % crc32(content.encode())
    return content[:-1].encode() + (b", " if content != "{}" else b"") + check


HEADER = line('{"format": "rows, version 1", "fingerprint": {"a": "b"}}')
ONE, TWO, THREE = (line(f'{{"n": {n}}}') for n in (1, 2, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "rows.jsonl"


def opened(
    path: Path, fingerprint: dict[str, str] | None = None
) -> JsonLinesJournal[dict[str, Any]]:
    return JsonLinesJournal(path, FORM, fingerprint or {"a": "b"}, dict)


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
        assert path.read_bytes() == HEADER + ONE


def test_a_torn_last_line_is_cut_off(path: Path) -> None:
    with opened(existing(path, HEADER + ONE + TWO[:-1])) as journal:
        assert journal.rows == [{"n": 1}]
        journal.write({"n": 3})
    assert path.read_bytes() == HEADER + ONE + THREE


@pytest.mark.parametrize("length", [0, 1, 12, 30, len(HEADER) - 2, len(HEADER) - 1])
def test_a_torn_header_is_written_anew(path: Path, length: int) -> None:
    opened(existing(path, HEADER[:length])).close()
    assert path.read_bytes() == HEADER


@pytest.mark.parametrize(
    "content",
    [
        b"my thesis",
        b"my thesis\n",
        b"my thesis\nits second line",
        b'{\n  "format": 1\n}',
        b"\x00\xff\n",
        b"[]\n",
        b"[" * 100_000 + b"\n",
        HEADER.replace(b"rows", b"other rows"),
        HEADER.replace(b"rows", b"other rows")[:-1],
        HEADER.replace(b"version 1", b"version 12")[:-1],
        HEADER.replace(b'"b"', b'"c"'),
        line('{"format": "rows, version 1"}'),
        line('{"format": "rows, version 1", "fingerprint": "a"}'),
        b'{"other": "format"}\nnot json\n{"torn',
    ],
)
def test_what_is_no_journal_is_named_and_left_alone(path: Path, content: bytes) -> None:
    with pytest.raises(JournalDamaged) as caught:
        opened(existing(path, content))
    assert f"{path}, line 1:" in str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("damaged", "number"),
    [
        (b"not json\n" + TWO, 2),
        (TWO + b"not json\n", 3),
        (TWO + b"\n", 3),
        (TWO + line("[1]") + b'{"torn', 3),
        (TWO + b"[" * 100_000 + b"\n", 3),
        (TWO + b'{"n": 7}\n', 3),  # a row that somebody wrote by hand has no checksum
        (TWO + line('{"n": 7}').replace(b"7", b"9"), 3),
        (TWO + line('{"n": 7}').replace(b'"n"', b'"N"'), 3),
    ],
)
def test_a_damaged_row_is_named_and_dropped(path: Path, damaged: bytes, number: int) -> None:
    existing(path, HEADER + damaged)
    with pytest.warns(RowsDropped, match=rf"rows\.jsonl: 1 of its rows .*\(line {number}\)"):
        journal = opened(path)
    with journal:
        assert journal.rows == [{"n": 2}]
        journal.write({"n": 3})
    assert path.read_bytes() == HEADER + TWO + THREE


@pytest.mark.slow
def test_no_flipped_byte_is_taken_for_a_row(path: Path) -> None:
    rows = [{"query_id": f"q{n}", "ids": ["a", "b"], "latency": n / 7} for n in range(20)]
    with opened(path) as journal:
        for row in rows:
            journal.write(row)
    content = path.read_bytes()
    rng = random.Random(4)
    for _ in range(400):
        flipped = bytearray(content)
        flipped[rng.randrange(len(HEADER), len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RowsDropped)
            with opened(path) as journal:
                assert len(journal.rows) < len(rows)  # the damaged one is asked for again
                assert all(row in rows for row in journal.rows)


def test_a_flipped_byte_of_the_header_is_refused(path: Path) -> None:
    opened(path).close()
    for position in range(len(HEADER) - 1):
        flipped = bytearray(HEADER)
        flipped[position] ^= 1
        path.write_bytes(flipped)
        with pytest.raises((JournalDamaged, JournalMismatch)):
            opened(path)
        assert path.read_bytes() == bytes(flipped)


def test_the_journal_of_an_older_version_is_refused(path: Path) -> None:
    content = b'{"format": "rows, version 0", "fingerprint": {"a": "b"}}\n{"n": 1}\n'
    with pytest.raises(JournalMismatch, match="but the journal has 'rows, version 0'"):
        opened(existing(path, content))
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
    content = HEADER + ONE + b'{"torn'
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
    with pytest.raises(InvalidInput, match="Its folder is a file"):
        opened(tmp_path / name)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def square(row: dict[str, Any]) -> float:
    return float(row["n"]) ** 2


def test_rows_are_parsed(path: Path) -> None:
    content = HEADER + TWO + line('{"n": "3"}')
    with JsonLinesJournal(existing(path, content), FORM, {"a": "b"}, square) as journal:
        assert journal.rows == [4, 9]


@pytest.mark.parametrize("row", [{}, {"n": None}, {"n": "two"}])
def test_a_row_that_cant_be_parsed_is_dropped(path: Path, row: dict[str, Any]) -> None:
    existing(path, HEADER + TWO + line(json.dumps(row)))
    with pytest.warns(RowsDropped, match="line 3"):
        journal = JsonLinesJournal(path, FORM, {"a": "b"}, square)
    journal.close()
    assert journal.rows == [4]


def test_one_at_a_time_within_a_process(path: Path) -> None:
    with opened(path), pytest.raises(JournalBusy, match="in use by this process"):
        opened(path)
    opened(path).close()


OPEN = """
    import sys, time
    from llama_index_rag_metrics.runtime.journal import JsonLinesJournal

    with JsonLinesJournal(sys.argv[1], "rows, version 1", {"a": "b"}, dict):
        print("open", flush=True)
        time.sleep(60)
"""


def test_one_process_at_a_time(path: Path) -> None:
    other = Forked(OPEN, str(path))
    assert other.stdout.readline() == "open\n"
    with pytest.raises(JournalBusy, match="in use by another process"):
        opened(path)
    other.kill()
    other.wait()
    opened(path).close()


def test_a_refused_journal_isnt_kept_locked(path: Path) -> None:
    opened(path).close()
    with pytest.raises(JournalMismatch) as caught:
        opened(path, {"a": "c"})
    assert caught.value is not None
    opened(path).close()


@pytest.mark.skipif(os.name != "posix", reason="modes as POSIX has them")
def test_only_its_owner_may_read_it(path: Path) -> None:
    with opened(path) as journal:
        journal.write({"n": 1})
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


@pytest.mark.skipif(os.name != "posix", reason="limits as POSIX has them")
def test_a_full_disk_is_named_and_leaves_whole_rows(path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(path) as journal:
        journal.write({"n": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, before[1]))
        try:
            with pytest.raises(OSError, match=r"rows\.jsonl"):
                journal.write({"n": 2})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        journal.write({"n": 3})
    assert path.read_bytes() == HEADER + ONE + THREE
