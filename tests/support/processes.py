"""Child processes for tests that send signals."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence


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
