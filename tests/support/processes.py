"""Child processes for tests that send signals."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO


def start(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a process that Ctrl-C ends, also where the tests themselves run in the background."""
    return subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=_restore_interrupts,  # noqa: PLW1509 - no threads run here yet
    )


def _restore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Forked:
    """A process that runs a program, forked from one that has imported the package already.

    It answers signals as any process does; only how an interpreter ends isn't what it shows.

    Attributes:
        stdout: what it prints, while it runs.
    """

    def __init__(self, program: str, *arguments: str, folder: str = ".") -> None:
        self._folder = tempfile.TemporaryDirectory()
        out, self._errors = (Path(self._folder.name) / name for name in ("out", "errors"))
        os.mkfifo(out)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["llama_index_rag_metrics"])
        given = (textwrap.dedent(program), arguments, folder, sys.path, str(out), str(self._errors))
        self._process: ForkServerProcess = context.Process(target=_run, args=given, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.stdout: IO[str] = out.open()

    @property
    def runs(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> None:
        self._process.kill()

    def wait(self, seconds: float = 60) -> int:
        """The exit code, negative after a signal."""
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"runs on after {seconds} s"
        return self._process.exitcode

    def communicate(self) -> tuple[str, str]:
        """What it printed since the last line that was read, and its errors."""
        printed = self.stdout.read()
        self.wait()
        return printed, self._errors.read_text()


def _run(
    program: str, arguments: Sequence[str], folder: str, path: list[str], out: str, errors: str
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path[:] = path
    sys.argv[1:] = arguments
    os.chdir(folder)
    for file, stream in ((out, sys.stdout), (errors, sys.stderr)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), stream.fileno())
    exec(compile(program, "program", "exec"), {"__name__": "__main__"})
