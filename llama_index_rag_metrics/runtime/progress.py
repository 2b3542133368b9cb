"""Progress bars on standard error or in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from io import StringIO
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

_NOTEBOOK_WIDTH = 100
"""Characters of a bar in a notebook, which has no width of its own."""

_NOTEBOOK_INTERVAL = 0.1
"""Seconds between two messages to a notebook's page, which keeps every one it gets."""

_NOTEBOOK_HTML = '<pre style="line-height:normal;background:transparent">{code}</pre>'


class Advance(Protocol):
    """Called for every query that is done, and now and then with `done=0`."""

    def __call__(self, *, failed: bool = False, done: int = 1) -> None: ...


@contextmanager
def progress(
    description: str, total: int, done: int, show: bool, waiting: Callable[[], str] = str
) -> Iterator[Advance]:
    """Show how many queries of `total` are done, `done` of them earlier."""
    if not show:
        yield lambda *, failed=False, done=1: None
        return
    from rich.progress import MofNCompleteColumn

    n_done, n_failed = done, 0
    with _bar(description, total, done, [MofNCompleteColumn()]) as draw:

        def advance(*, failed: bool = False, done: int = 1) -> None:
            nonlocal n_done, n_failed
            n_done += done
            n_failed += failed
            failures = f"{n_failed} failed" if n_failed else ""
            draw(n_done, "; ".join(filter(None, [failures, waiting()])))

        yield advance


@contextmanager
def byte_progress(description: str, total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    if not show:
        yield lambda done: None
        return
    from rich.progress import DownloadColumn, TransferSpeedColumn

    columns = [DownloadColumn(), TransferSpeedColumn()]
    with _bar(description, total, 0, columns, transient=True) as draw:
        yield lambda done: draw(done, "")


@contextmanager
def _bar(
    description: str,
    total: int,
    done: int,
    amounts: list[ProgressColumn],
    *,
    transient: bool = False,
) -> Iterator[Callable[[int, str], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *amounts,
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[note]}", style="red", markup=False),
        console=console,
        transient=transient,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    task = bar.add_task(description, total=total, completed=done, note="")

    with _in_notebook(bar, transient) if console.is_jupyter else _in_terminal(bar) as refresh:

        def draw(done: int, note: str) -> None:
            bar.update(task, completed=done, note=note)
            refresh()

        yield draw


@contextmanager
def _in_terminal(bar: Progress) -> Iterator[Callable[[], None]]:
    with bar:
        yield lambda: None


@contextmanager
def _in_notebook(bar: Progress, transient: bool) -> Iterator[Callable[[], None]]:
    """The bar as an output of the cell, updated in place; rich's own widget needs ipywidgets."""
    output: Any = import_module("IPython.display")
    display_id = output.display(_as_output(bar), raw=True, display_id=True).display_id
    due = monotonic() + _NOTEBOOK_INTERVAL

    def refresh() -> None:
        nonlocal due
        if monotonic() >= due:
            output.update_display(_as_output(bar), raw=True, display_id=display_id)
            due = monotonic() + _NOTEBOOK_INTERVAL

    try:
        yield refresh
    finally:
        last = {"text/plain": ""} if transient else _as_output(bar)
        output.update_display(last, raw=True, display_id=display_id)


def _as_output(bar: Progress) -> dict[str, str]:
    from rich.console import Console

    console = Console(
        file=StringIO(),
        record=True,
        width=_NOTEBOOK_WIDTH,
        color_system="truecolor",
        force_jupyter=False,
        legacy_windows=False,
    )
    console.print(bar.get_renderable())
    return {
        "text/plain": console.export_text(clear=False).strip(),
        "text/html": console.export_html(inline_styles=True, code_format=_NOTEBOOK_HTML),
    }
