"""How long things take: in one process, in rounds in which the contestants take turns.

Machines are noisy and differ, so only ratios within one round mean anything: a figure is the median
of the rounds' ratios, with the least and the greatest beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

Seconds = Mapping[str, Sequence[float]]
"""Contestant to the seconds of each round."""


@dataclass(frozen=True)
class Spread:
    """One figure, a value a round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        least, median, greatest = (
            f"{value:.0f}"
            if self.median >= 10
            else f"{value:.2f}"
            if self.median < 3
            else f"{value:.1f}"
            for value in (min(self.values), self.median, max(self.values))
        )
        return median if least == greatest else f"{median} ({least} to {greatest})"


@dataclass(frozen=True)
class Row:
    """One line of a table: what was done, by whom or against what, and how it compares."""

    task: str
    against: str
    times: Spread


def rounds_of(contestants: Mapping[str, Callable[[], object]], rounds: int = 5) -> Seconds:
    """Seconds of each contestant in each round."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def times(seconds: Seconds, contestant: str, ours: str) -> Spread:
    """How many times as long as ours the contestant took, round by round."""
    pairs = zip(seconds[contestant], seconds[ours], strict=True)
    return Spread(tuple(theirs / own for theirs, own in pairs))


def console_table(title: str, rows: Sequence[Row]) -> Table:
    """The rows as they are shown on a console."""
    table = Table(title=title, title_justify="left")
    for heading in ("", "", "times, median (range)"):
        table.add_column(heading)
    for row in rows:
        table.add_row(row.task, row.against, str(row.times))
    return table


def markdown_table(headings: Sequence[str], rows: Sequence[Row]) -> str:
    """The rows as a table of a page; a task is written once."""
    lines = [f"| {' | '.join(headings)} |", "|---|---|---|"]
    before = ""
    for row in rows:
        task = "" if row.task == before else row.task
        lines.append(f"| {task} | {row.against} | {row.times} |")
        before = row.task
    return "\n".join(lines)
