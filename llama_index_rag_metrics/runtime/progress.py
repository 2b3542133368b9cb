"""A progress bar on standard error, or in a notebook."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Called for every query that is done, and now and then with `done=0`."""

    def __call__(self, *, failed: bool = False, done: int = 1) -> None: ...


@contextmanager
def progress(
    description: str, total: int, done: int, show: bool, waiting: Callable[[], str] = str
) -> Iterator[Advance]:
    """Show how many queries of `total` are done, `done` of them earlier, and what is waited for."""
    if not show:
        yield lambda *, failed=False, done=1: None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without ipywidgets has a bar of text
        from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
    n_failed = 0
    with tqdm(desc=description, total=total, initial=done) as bar:

        def advance(*, failed: bool = False, done: int = 1) -> None:
            nonlocal n_failed
            n_failed += failed
            failures = f"{n_failed} failed" if n_failed else ""
            bar.set_postfix_str("; ".join(filter(None, [failures, waiting()])), refresh=not done)
            bar.update(done)

        yield advance
