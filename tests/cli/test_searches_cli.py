"""`rag-metrics evaluate` of retrievers that aren't Python: real servers and programs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from support.command_line import run
from support.processes import start

from llama_index_rag_metrics.cli.searches import COMMAND, search_of

SEARCH = """\
import json, sys
asked = sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read()
print(json.dumps({"results": [{"id": "n17", "text": "1240", "score": 0.5}, {"id": 2}]}
                 if "hot" in asked else ["2"]))
"""


class Answers(BaseHTTPRequestHandler):
    """The first id is the question itself, the second n17; "down" is an error."""

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        [question] = asked["q"]
        self.send_response(503 if "down" in question else 200)
        self.end_headers()
        self.wfile.write(json.dumps([question, "n17"][: int(asked["k"][0])]).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/search?q={{query}}&k={{top_k}}"
    server.shutdown()


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "dataset.jsonl"
    lines = [
        {"query_id": "q1", "query": "How hot?", "expected_ids": ["n17"]},
        {"query_id": "q2", "query": "Who & why, 100 %?", "expected_ids": ["2"]},
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def scored(dataset: Path, *retriever: str) -> list[list[float]]:
    """The mrr of both questions, of each retriever."""
    path = dataset.with_name("scores.json")
    ended = run("evaluate", "-d", str(dataset), *retriever, "-m", "mrr", "--json", str(path))
    assert ended.exit_code == 0, ended.output
    return [
        system["scores"]["mrr"] for system in json.loads(path.read_text("utf-8"))["result"].values()
    ]


def refused(dataset: Path, *retriever: str) -> str:
    ended = run("evaluate", "-d", str(dataset), *retriever, "-m", "mrr", "--no-progress")
    assert ended.exit_code == 2, ended.output
    return ended.stderr


def test_an_address_and_programs_are_asked(dataset: Path, address: str) -> None:
    """The server has n17 at rank 2 of q1 alone; the program n17 for "hot", else 2, at rank 1."""
    program = dataset.with_name("search.py")
    program.write_text(SEARCH, encoding="utf-8")
    command = f"{sys.executable} {program}"
    asked = ["-r", address, "--retriever-command", f"{command} {{query}}"]
    assert scored(dataset, *asked) == [[0.5, 0.0], [1.0, 1.0]]
    assert scored(dataset, "--retriever-command", command) == [[1.0, 1.0]]  # reads the question


def test_a_score_of_nan_is_none_and_noted(dataset: Path) -> None:
    program = dataset.with_name("search.py")
    program.write_text('print(\'[{"id": "2", "score": NaN}]\')', encoding="utf-8")
    ended = run(
        *("evaluate", "-d", str(dataset), "-m", "mrr"),
        *("--retriever-command", f"{sys.executable} {program}"),
    )
    assert ended.exit_code == 0, ended.output
    assert "scores of some passages are NaN" in " ".join(ended.output.split())


def test_the_question_arrives_as_it_is(dataset: Path, address: str) -> None:
    """q2 has an ampersand, a comma and a percent sign; its own text is the first id there is."""
    line = {"query_id": "q2", "query": "Who & why, 100 %?", "expected_ids": ["Who & why, 100 %?"]}
    dataset.write_text(json.dumps(line), encoding="utf-8")
    assert scored(dataset, "-r", address) == [[1.0]]


def test_as_many_passages_are_asked_for_as_metrics_need(dataset: Path, address: str) -> None:
    line = {"query_id": "q1", "query": "How hot?", "expected_ids": ["n17"]}
    dataset.write_text(json.dumps(line), encoding="utf-8")
    assert scored(dataset, "-r", address, "--top-k", "1") == [[0.0]]


def test_an_error_is_a_failed_question(dataset: Path, address: str) -> None:
    lines = dataset.read_text("utf-8").replace("How hot?", "How is it down there?")
    dataset.write_text(lines, encoding="utf-8")
    ended = run("evaluate", "-d", str(dataset), "-r", address, "-m", "mrr", "--no-progress")
    assert ended.exit_code == 1
    assert "the address answered 503" in " ".join(ended.output.split())
    command = f"{sys.executable} -c 'import sys; sys.exit(\"no index\")'"
    ended = run("evaluate", "-d", str(dataset), "--retriever-command", command, "-m", "mrr")
    assert ended.exit_code == 1
    assert "the program ended with 1: no index" in " ".join(ended.output.split())


@pytest.mark.parametrize("turns", range(2, 8))
def test_a_program_can_be_given_up_as_it_ends(turns: int) -> None:
    """The program has ended; so many turns of the loop later, its answer may not be read yet."""
    factory = search_of(f"{COMMAND}sh -c 'sleep 0.1; echo []'")
    assert factory is not None

    async def give_up() -> None:
        asked = asyncio.ensure_future(factory(10)("How hot?"))
        await asyncio.sleep(0.05)
        time.sleep(0.2)
        for _ in range(turns):
            await asyncio.sleep(0)
        asked.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            assert await asked == []

    asyncio.run(give_up())


@pytest.mark.parametrize("child", ["sleep 5", "setsid sleep 5"])
def test_a_program_is_given_up_whose_own_child_holds_its_pipes(child: str) -> None:
    factory = search_of(f"{COMMAND}sh -c '{child} & wait'")
    assert factory is not None
    start = time.perf_counter()
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(asyncio.wait_for(factory(10)("How hot?"), 0.3))
    gc.collect()  # a transport that is left open complains of a closed loop
    assert time.perf_counter() - start < 4


def test_a_program_that_is_given_up_leaves_no_child(tmp_path: Path) -> None:
    late = tmp_path / "late"
    factory = search_of(f"{COMMAND}sh -c '(sleep 1; touch {late}) & wait'")
    assert factory is not None
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(asyncio.wait_for(factory(10)("How hot?"), 0.3))
    time.sleep(1.2)
    assert not late.exists()


def test_a_program_that_is_given_up_as_it_starts_leaves_no_child(tmp_path: Path) -> None:
    """So many turns of the loop after it was asked; it has begun to run by then."""

    async def give_up(turns: int) -> None:
        factory = search_of(f"{COMMAND}sh -c '(sleep 1; touch {tmp_path}/{turns}) & wait'")
        assert factory is not None
        asked = asyncio.ensure_future(factory(10)("How hot?"))
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(0.1)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    for turns in range(6):
        asyncio.run(give_up(turns))
    time.sleep(1.2)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
def test_ctrl_c_leaves_no_child_of_a_program(dataset: Path) -> None:
    begun, beats = dataset.with_name("begun"), dataset.with_name("beats")
    begun.touch()
    child = f"for beat in $(seq 300); do echo >> {beats}; sleep 0.1; done"
    program = f"sh -c '({child}) & echo >> {begun}; wait'"
    called = ["evaluate", "-d", str(dataset), "--retriever-command", program, "-m", "mrr"]
    with start([sys.executable, "-m", "llama_index_rag_metrics", *called]) as process:
        while len(begun.read_text()) < 2 or not beats.exists():  # a line for each question
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate()
    assert process.returncode == 130, complaint
    heard = beats.read_text()
    time.sleep(0.5)
    assert beats.read_text() == heard


@pytest.mark.parametrize(
    "printed", ["hi", "{}", '{"results": 3}', "[[]]", '[{"text": "x"}]', '[{"id": ""}]', "[true]"]
)
def test_another_shape_is_refused_with_the_right_one(dataset: Path, printed: str) -> None:
    program = dataset.with_name("search.py")
    program.write_text(f"print({printed!r})", encoding="utf-8")
    said = refused(dataset, "--retriever-command", f"{sys.executable} {program}")
    assert "--retriever-command: expected" in said
    assert '{"id": …, "text": …, "score": …, "metadata": {…}}' in said


@pytest.mark.parametrize(
    ("retriever", "said"),
    [
        (["-r", "http://127.0.0.1/search"], "an address with {query}"),
        (["--retriever-command", "search 'x"], "a command line"),
        (["--retriever-command", " "], "a program, and its arguments"),
        (["--retriever-command", "no-such-program {query}"], "got 'no-such-program'"),
        (["--retriever-command", "/no/such/program"], "a program that is here and may be run"),
        ([], "at least one retriever, or program"),
    ],
)
def test_what_cannot_be_asked_is_refused(dataset: Path, retriever: list[str], said: str) -> None:
    assert said in refused(dataset, *retriever)


def test_credentials_are_written_nowhere(dataset: Path, address: str) -> None:
    """Two addresses that differ in their keys alone, and a program that gets one."""
    signed = address.replace("//", "//me:hunter22@")
    program = dataset.with_name("search.py")
    program.write_text("import sys; sys.exit(' '.join(sys.argv))", encoding="utf-8")
    folder = dataset.with_name("written")
    folder.mkdir()
    ended = run(
        *("evaluate", "-d", str(dataset), "-m", "mrr", "--no-progress", "--worst", "9"),
        *("-r", f"{signed}&token=s3kret-one", "-r", f"{signed}&token=s3kret-two"),
        *("--retriever-command", f"{sys.executable} {program} --api-token s3kret-three"),
        *("--json", str(folder / "s.json"), "--html", str(folder / "s.html")),
        *("--output", str(folder / "run.jsonl"), "--journal", str(folder)),
    )
    assert ended.exit_code == 1  # the program fails
    files = [path for path in folder.iterdir() if path.is_file()]
    written = {path.name: path.read_text("utf-8") for path in files} | {"printed": ended.output}
    assert len([name for name in written if name.endswith(".jsonl")]) == 6  # runs and journals
    for name, text in written.items():
        assert not {"hunter22", "s3kret"} & {*re.findall("hunter22|s3kret", name + text)}, name


def test_a_new_key_continues_the_journal(dataset: Path, address: str) -> None:
    signed = address.replace("//", "//me:hunter22@")
    asked = ["evaluate", "-d", str(dataset), "-m", "mrr", "--no-progress", "--journal"]
    for key in ("hunter22", "hunter33"):
        again = [str(dataset.with_name("j")), "-r", signed.replace("hunter22", key)]
        assert run(*asked, *again).exit_code == 0
