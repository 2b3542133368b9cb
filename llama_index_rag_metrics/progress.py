"""Progress bars on standard error, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Called once for every query that is done."""

    def __call__(self, *, failed: bool = False) -> None: ...


@contextmanager
def progress(description: str, total: int, done: int, show: bool) -> Iterator[Advance]:
    """Show how many queries of `total` are done; `done` of them were so before."""
    if not show:
        yield lambda *, failed=False: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("[red]{task.fields[failed]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, completed=done, failed="")
        n_failed = 0

        def advance(*, failed: bool = False) -> None:
            nonlocal n_failed
            n_failed += failed
            bar.update(task, advance=1, failed=f"{n_failed} failed" if n_failed else "")

        yield advance


@contextmanager
def byte_progress(description: str, total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Show how many bytes of `total` have been read, as it is told."""
    if not show:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.update(task, completed=done)
