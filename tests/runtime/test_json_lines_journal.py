"""The file under every journal: rows survive, and no other file is ever written to."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from support.processes import Forked

from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, JournalMismatch
from llama_index_rag_metrics.runtime.journal import JsonLinesJournal

FORM = "rows, version 1"


def line(content: str) -> bytes:
    return content.encode() + b"\n"


HEADER = line('{"format": "rows, version 1", "a": "b"}')
ONE, TWO, THREE = (line(f'{{"n": {n}}}') for n in (1, 2, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "rows.jsonl"


def opened(path: Path, **header: str) -> JsonLinesJournal[dict[str, Any]]:
    return JsonLinesJournal(path, {"format": FORM, **(header or {"a": "b"})}, dict)


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


def test_row_is_on_disk_before_the_next(path: Path) -> None:
    with opened(path) as journal:
        journal.write({"n": 1})
        assert path.read_bytes() == HEADER + ONE


def test_torn_last_line_is_cut_off(path: Path) -> None:
    with opened(existing(path, HEADER + ONE + TWO[:-1])) as journal:
        assert journal.rows == [{"n": 1}]
        journal.write({"n": 3})
    assert path.read_bytes() == HEADER + ONE + THREE


@pytest.mark.parametrize("length", [0, 1, 12, 30, len(HEADER) - 2, len(HEADER) - 1])
def test_torn_header_is_written_anew(path: Path, length: int) -> None:
    opened(existing(path, HEADER[:length])).close()
    assert path.read_bytes() == HEADER


@pytest.mark.parametrize(
    "content",
    [
        *(b"my thesis", b"my thesis\n", b"my thesis\nits second line", b"\x00\xff\n", b"[]\n"),
        b'{\n  "format": 1\n}',
        b"[" * 100_000 + b"\n",
        HEADER.replace(b"rows", b"other rows")[:-1],
        b'{"other": "format"}\nnot json\n{"torn',
    ],
)
def test_file_that_is_no_journal_is_named_and_not_changed(path: Path, content: bytes) -> None:
    with pytest.raises(FileFormatError) as caught:
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
    ],
)
def test_damaged_row_is_named_and_its_file_not_changed(
    path: Path, damaged: bytes, number: int
) -> None:
    existing(path, HEADER + damaged)
    with pytest.raises(FileFormatError, match=rf"rows\.jsonl, line {number}: .* Delete the line"):
        opened(path)
    assert path.read_bytes() == HEADER + damaged


@pytest.mark.parametrize(
    ("header", "wording"),
    [
        ({"a": "c"}, "a is 'c', but the journal has 'b'"),
        ({"a": "b", "new": "x"}, "new is 'x', but the journal has ''"),
        ({"new": "b"}, "a is '', but the journal has 'b'; new is 'b', but the journal has ''"),
        ({"format": "others", "a": "b"}, "format is 'others', but the journal has 'rows, version"),
    ],
)
def test_journal_of_another_run(path: Path, header: dict[str, str], wording: str) -> None:
    content = HEADER + ONE + b'{"torn'
    with pytest.raises(JournalMismatch) as caught:
        opened(existing(path, content), **header)
    assert wording in str(caught.value)
    assert path.read_bytes() == content


def test_folder_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="journal: expected the path of a file") as caught:
        opened(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["notes.txt/rows.jsonl", "notes.txt/deeper/rows.jsonl"])
def test_file_is_no_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="Its folder is a file"):
        opened(tmp_path / name)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def square(row: dict[str, Any]) -> float:
    return float(row["n"]) ** 2


def test_rows_are_parsed(path: Path) -> None:
    content = HEADER + TWO + line('{"n": "3"}')
    header = {"format": FORM, "a": "b"}
    with JsonLinesJournal(existing(path, content), header, square) as journal:
        assert journal.rows == [4, 9]


@pytest.mark.parametrize("row", [{}, {"n": None}, {"n": "two"}])
def test_row_that_cant_be_parsed_is_named(path: Path, row: dict[str, Any]) -> None:
    existing(path, HEADER + TWO + line(json.dumps(row)))
    with pytest.raises(FileFormatError, match="line 3"):
        JsonLinesJournal(path, {"format": FORM, "a": "b"}, square)


def test_writers_come_one_at_a_time_within_a_process(path: Path) -> None:
    with opened(path), pytest.raises(JournalMismatch, match="in use by another run"):
        opened(path)
    opened(path).close()


OPEN = """
    import sys, time
    from llama_index_rag_metrics.runtime.journal import JsonLinesJournal

    with JsonLinesJournal(sys.argv[1], {"format": "rows, version 1", "a": "b"}, dict):
        print("open", flush=True)
        time.sleep(60)
"""


def test_processes_come_one_at_a_time(path: Path) -> None:
    other = Forked(OPEN, str(path))
    assert other.stdout.readline() == "open\n"
    with pytest.raises(JournalMismatch, match="in use by another run"):
        opened(path)
    other.kill()
    other.wait()
    opened(path).close()


def test_refused_journal_isnt_kept_locked(path: Path) -> None:
    opened(path).close()
    with pytest.raises(JournalMismatch) as caught:
        opened(path, a="c")
    assert caught.value is not None
    opened(path).close()


@pytest.mark.skipif(os.name != "posix", reason="modes as POSIX has them")
def test_file_is_its_owners_alone(path: Path) -> None:
    with opened(path) as journal:
        journal.write({"n": 1})
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


@pytest.mark.skipif(os.name != "posix", reason="limits as POSIX has them")
def test_full_disk_is_named_and_leaves_whole_rows(path: Path) -> None:
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
