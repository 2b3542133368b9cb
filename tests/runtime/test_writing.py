"""Files appear whole or not at all: writers at the same time, links, a full disk, pipes."""

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.paths import TESTS
from support.processes import Forked

from llama_index_rag_metrics import Cache, compare, score_rankings, write_qrels, write_run
from llama_index_rag_metrics.decisions.comparison.comparison import Comparison
from llama_index_rag_metrics.runtime.atomic_files import open_private, whole_file, write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.journal import JsonLinesJournal
from llama_index_rag_metrics.scores.scores import Scores

posix = pytest.mark.skipif(os.name != "posix", reason="links, limits and modes as POSIX has them")

RUN = {f"q{number}": ["a", "b"] for number in range(200)}
QRELS = {query_id: {"a": 1} for query_id in RUN}


def scores() -> Scores:
    return score_rankings(QRELS, RUN, ["mrr"], name="one")


def comparison() -> Comparison:
    other = score_rankings(QRELS, {query_id: ["b", "a"] for query_id in RUN}, ["mrr"], name="other")
    return compare({"one": scores(), "other": other}, "one")


OUTPUTS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "run, TREC": ("out.run", lambda path: write_run(RUN, path)),
    "run, JSONL.gz": ("out.jsonl.gz", lambda path: write_run(RUN, path)),
    "run, Parquet": ("out.parquet", lambda path: write_run(RUN, path)),
    "qrels, TREC": ("out.qrels", lambda path: write_qrels(QRELS, path)),
    "scores, JSON": ("out.json", lambda path: scores().to_json(path)),
    "comparison, JSON": ("out.json", lambda path: comparison().to_json(path)),
    "report, HTML": ("out.html", lambda path: comparison().to_html(path)),
}
each_output = pytest.mark.parametrize(("name", "write"), OUTPUTS.values(), ids=OUTPUTS)


@posix
@each_output
def test_link_where_the_file_goes_is_replaced_and_not_followed(
    name: str, write: Callable[[Path], Any], tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"untouched")
    (tmp_path / name).symlink_to(precious)
    write(tmp_path / name)
    assert precious.read_bytes() == b"untouched"
    assert not (tmp_path / name).is_symlink()
    assert (tmp_path / name).stat().st_size > 0


@each_output
def test_folder_holds_nothing_else(name: str, write: Callable[[Path], Any], tmp_path: Path) -> None:
    write(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} <= {name, "run.trec"}


FULL_DISK = """
    import resource, sys
    from pathlib import Path
    sys.path[:0] = sys.argv[2:]
    import test_writing as here

    paths = {}
    for output, (name, write) in here.OUTPUTS.items():
        folder = Path(sys.argv[1], output.replace(" ", "-"))
        folder.mkdir()
        paths[output] = folder / name
        write(folder / name)
    older = {output: path.read_bytes() for output, path in paths.items()}
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
    for output, (_, write) in here.OUTPUTS.items():
        path = paths[output]
        try:
            write(path)
        except OSError as error:
            assert error.filename == str(path), (output, error)
        else:
            raise AssertionError(output)
        assert path.read_bytes() == older[output], output
        assert not list(path.parent.glob(".partial*")), output
"""


@pytest.mark.slow
@posix
def test_full_disk_leaves_the_older_file_and_an_error_that_names_it(tmp_path: Path) -> None:
    # a limit on the size of files is a disk on which 64 bytes are left
    process = Forked(FULL_DISK, str(tmp_path), str(TESTS), str(TESTS / "runtime"))
    _, errors = process.communicate()
    assert process.wait() == 0, errors


def test_readers_never_see_half_of_what_writers_at_the_same_time_write(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    texts = [letter * 400_000 for letter in "abcd"]
    write_text(path, texts[0])
    ends = threading.Event()

    def work(text: str) -> None:
        while not ends.is_set():
            write_text(path, text)

    writers = [threading.Thread(target=work, args=(text,)) for text in texts]
    for writer in writers:
        writer.start()
    try:
        seen = {path.read_text() for _ in range(300)}
    finally:
        ends.set()
        for writer in writers:
            writer.join()
    assert seen <= set(texts)
    assert [file.name for file in tmp_path.iterdir()] == ["scores.json"]


def test_error_of_the_writer_leaves_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "older")

    def write() -> None:
        with whole_file(path) as partial:
            partial.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert path.read_text() == "older"
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def test_folder_of_that_name_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken") as caught:
        write_text(tmp_path / "taken", "text")
    assert caught.value.filename == str(tmp_path / "taken")
    with pytest.raises(IsADirectoryError, match="expected a file, not a folder"):
        write_text(".", "text")


def test_error_of_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="input"), whole_file(tmp_path / "output"):
        (tmp_path / "input").read_bytes()


@posix
def test_permissions_are_those_of_the_older_file_or_of_any_new_one(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert stat.S_IMODE(write_text(tmp_path / "new", "").stat().st_mode) == 0o640
    finally:
        os.umask(before)
    (tmp_path / "new").chmod(0o600)
    assert stat.S_IMODE(write_text(tmp_path / "new", "again").stat().st_mode) == 0o600


@posix
def test_path_that_is_no_file_is_written_to_instead_of_replaced(tmp_path: Path) -> None:
    write_text("/dev/null", "nothing")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through a pipe")
    reader.join()
    assert heard == ["through a pipe"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_full_device_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="/dev/full") as caught:
        write_text("/dev/full", "text")
    assert caught.value.errno == errno.ENOSPC


def open_journal(path: Path) -> None:
    JsonLinesJournal(path, {"format": "a format, version 1"}, lambda row: row).close()


def open_cache(path: Path) -> None:
    with Cache(path) as cache:
        cache.put({"a": 1})


private = pytest.mark.parametrize("open_file", [open_journal, open_cache])


@posix
@private
@pytest.mark.parametrize("target", ["absent", "empty", "full"])
def test_journals_and_caches_follow_no_link(
    open_file: Callable[[Path], None], target: str, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    if target != "absent":
        precious.write_text("" if target == "empty" else "mine")
    (tmp_path / "link").symlink_to(precious)
    with pytest.raises(InvalidInput, match=r"link'. It .*is a link. Give the path of the file"):
        open_file(tmp_path / "link")
    assert precious.exists() == (target != "absent")
    assert target == "absent" or precious.read_text() == ("mine" if target == "full" else "")
    # nor one that is laid there later
    with pytest.raises(OSError, match="it is a link, which isn't followed"):
        open_private(tmp_path / "link", os.O_RDWR)


@posix
def test_journal_follows_no_link_in_the_place_of_its_lock(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".run.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(InvalidInput, match=r"\.run\.lock is a link"):
        open_journal(tmp_path / "run")
    assert (tmp_path / "precious").read_text() == "mine"


@posix
@private
def test_journals_and_caches_in_an_empty_file_become_private(
    open_file: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.touch(0o644)
    open_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)  # as its owner wants it
    open_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
