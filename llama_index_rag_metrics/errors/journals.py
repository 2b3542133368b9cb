"""Journals and caches that belong to another run, are damaged, or are in use."""

from __future__ import annotations

from collections.abc import Mapping

from llama_index_rag_metrics.errors.base import RagMetricsError
from llama_index_rag_metrics.wording import first_of


class JournalMismatch(RagMetricsError, ValueError):
    """The journal belongs to another run."""

    def __init__(
        self,
        path: str,
        differing: Mapping[str, tuple[str, str]],
        remedy: str = "Give this run a journal of its own.",
    ) -> None:
        super().__init__(path, dict(differing), remedy)

    def __str__(self) -> str:
        path, differing, remedy = self.args
        aspects = "; ".join(
            f"{aspect} is {now!r}, but the journal has {then!r}"
            for aspect, (then, now) in differing.items()
        )
        return f"journal {path!r} is of another run: {aspects}. {remedy}"


class JournalDamaged(RagMetricsError, ValueError):
    """The journal can't be read."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__(path, line)

    def __str__(self) -> str:
        path, line = self.args
        return (
            f"{path}, line {line}: expected the first line of a journal written by this package. "
            "Give the run another journal."
        )


class JournalBusy(RagMetricsError):
    """Another process is writing the journal: its path, and which process."""

    def __str__(self) -> str:
        path, holder = self.args
        return f"journal {path!r} is in use by {holder}: wait, or use another path."


class RowsDropped(UserWarning):
    """Rows of a journal were damaged: its path, and their lines."""

    def __str__(self) -> str:
        path, lines = self.args
        which = f"{len(lines):,} of its rows can't be read (line {first_of([*map(str, lines)])})"
        return f"{path}: {which}; they are dropped, and their contents are asked for again."


class CacheWarning(UserWarning):
    """The cache can't be read or written; the run continues without it."""
