"""A progress bar on standard error, or in a notebook."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Called for every query that is done."""

    def __call__(self, *, failed: bool = False) -> None: ...


@contextmanager
def progress(description: str, total: int, done: int, show: bool) -> Iterator[Advance]:
    """Show how many queries of `total` are done, `done` of them earlier."""
    if not show:
        yield lambda *, failed=False: None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without ipywidgets has a bar of text
        from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
    n_failed = 0
    with tqdm(desc=description, total=total, initial=done) as bar:

        def advance(*, failed: bool = False) -> None:
            nonlocal n_failed
            n_failed += failed
            if failed:
                bar.set_postfix_str(f"{n_failed} failed", refresh=False)
            bar.update()

        yield advance
