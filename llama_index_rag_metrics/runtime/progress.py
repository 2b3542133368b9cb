"""Progress bars on standard error or in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from io import StringIO
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from llama_index_rag_metrics.runtime.lazy import Lazy

if TYPE_CHECKING:
    from rich import console as consoles
    from rich import progress as bars
else:
    consoles, bars = Lazy("rich.console"), Lazy("rich.progress")

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
    n_done, n_failed = done, 0
    with _bar(description, total, done, [bars.MofNCompleteColumn()]) as draw:

        def advance(*, failed: bool = False, done: int = 1) -> None:
            nonlocal n_done, n_failed
            n_done += done
            n_failed += failed
            failures = f"{n_failed} failed" if n_failed else ""
            draw(n_done, "; ".join(filter(None, [failures, waiting()])))

        yield advance


@contextmanager
def _bar(
    description: str,
    total: int,
    done: int,
    amounts: list[bars.ProgressColumn],
    *,
    transient: bool = False,
) -> Iterator[Callable[[int, str], None]]:
    console = consoles.Console(stderr=True)
    bar = bars.Progress(
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        *amounts,
        bars.TimeRemainingColumn(elapsed_when_finished=True),
        bars.TextColumn("{task.fields[note]}", style="red", markup=False),
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
def _in_terminal(bar: bars.Progress) -> Iterator[Callable[[], None]]:
    with bar:
        yield lambda: None


@contextmanager
def _in_notebook(bar: bars.Progress, transient: bool) -> Iterator[Callable[[], None]]:
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


def _as_output(bar: bars.Progress) -> dict[str, str]:
    console = consoles.Console(
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
