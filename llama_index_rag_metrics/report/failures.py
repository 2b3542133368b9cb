"""Failures in lines: the same error of many questions is one line with a count."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import Failure
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.masking import join_first, truncated

_LISTED = 10
_NAMED_QUESTIONS = 3


class FailureLine(NamedTuple):
    system: str
    text: str

    def __str__(self) -> str:
        return ": ".join(filter(None, self))


def failures_title(failures: Sequence[Failure]) -> str:
    return f"Failed: {len(failures):,}"


def failure_lines(failures: Iterable[Failure]) -> list[FailureLine]:
    """One line for each error of each system, the most frequent first; at most eleven in all."""
    query_ids: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for system, query_id, error in failures:
        query_ids[system, error].append(query_id)
    most_first = sorted(query_ids.items(), key=lambda group: -len(group[1]))
    lines = []
    for (system, error), ids in most_first[:_LISTED]:
        named = [*map(plain, ids)]
        text = f"{named[0]}: {plain(error)}"
        if len(named) > 1:
            text = f"{len(named):,} × {plain(error)} ({join_first(named, _NAMED_QUESTIONS)})"
        lines.append(FailureLine(plain(system), text))
    n_unlisted = len(most_first) - _LISTED
    if n_unlisted > 0:
        lines.append(FailureLine("", f"and {n_unlisted:,} other errors"))
    return lines


def errors_in_words(errors: Sequence[str]) -> str:
    """The most frequent error, and how many others there are."""
    counts = Counter(errors).most_common()
    if not counts:
        return ""
    error, n = counts[0]
    frequent = truncated(plain(error))
    if len(counts) == 1:
        return frequent
    if n > 1:
        frequent = f"{n:,} × {frequent}"
    return f"{frequent}, and {counted(len(counts) - 1, 'other error', 'other errors')}"
