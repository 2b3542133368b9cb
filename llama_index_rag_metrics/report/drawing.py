"""What drawings of figures go by: colours, ticks, and names made short."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress, pairwise
from typing import Any

from llama_index_rag_metrics.report.excerpts import shared_start
from llama_index_rag_metrics.report.figure import MOST_ABREAST, Series

# violet, orange and teal first: told apart in grey and by colour-blind eyes, on white and on black;
# red and green mean worse and better, and no system
COLOURS = ("#7c4dea", "#e07b00", "#0d9488", "#3b82c4", "#b08d1f", "#b5479f", "#7d8590")

# what a series has of each point
_COLUMNS = ("x", "y", "low", "high", "remarks", "hollow", "labels")
_FINE_TICK_DECADES = 4
_TICKS = 5
_SHORTEST_PREFIX = 4
_NAME = re.compile(r"[^\W\d_]")  # a letter


def colour_of(series: Series) -> str:
    return COLOURS[series.number % len(COLOURS)]


def with_known_points(series: Series) -> Series:
    places: Iterable[tuple[Any, Any]] = zip(series.x, series.y, strict=True)
    is_known = [all(isinstance(at, str) or math.isfinite(at) for at in both) for both in places]
    columns: dict[str, Any] = {
        name: [*compress(column, is_known)]
        for name in _COLUMNS
        if (column := getattr(series, name))
    }
    return replace(series, **columns)


def without_prefix(names: Sequence[str]) -> tuple[str, list[str]]:
    """What all names begin with, up to a sign between words, and the names without it.

    >>> without_prefix(["e5-large-k5", "e5-large-k10"])
    ('e5-large-', ['k5', 'k10'])
    >>> without_prefix(["bm25", "lsa"])
    ('', ['bm25', 'lsa'])
    >>> without_prefix(["call 1", "call 2"])  # a number is no name, but where it has one: k=1
    ('', ['call 1', 'call 2'])
    """
    prefix = re.sub(r"[^\W_]*$", "", shared_start(names))
    short = [name.removeprefix(prefix) for name in names]
    is_named = all(short) if prefix.endswith("=") else all(map(_NAME.search, short))
    if len(prefix) < _SHORTEST_PREFIX or len(names) < 2 or not is_named:
        return "", list(names)
    return prefix, short


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Each name as a sentence has it: of many, without what all begin with."""
    prefix, short = without_prefix(names)
    is_short = len(names) > MOST_ABREAST and not prefix.endswith("=")
    return dict(zip(names, short if is_short else names, strict=True))


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Names of at most this many characters, or of as many as tell them apart.

    >>> shortened(["chunk512-rerank6", "chunk512-rerank12"], 12)
    ['chunk5…rank6', 'chunk5…ank12']
    """
    while True:
        half = most // 2
        short = [
            name if len(name) <= most else f"{name[:half]}…{name[half + 1 - most :]}"
            for name in names
        ]
        if len({*short}) == len({*names}):
            return short
        most += 4


def spread(places: Sequence[float], gap: float, end: float) -> list[float]:
    """Places moved as little as it takes for them to be a gap apart and at most at the end.

    >>> spread([10, 12, 50], 10, 100), spread([98, 99], 10, 100)
    ([10, 20, 50], [90, 100])
    """
    order = sorted(range(len(places)), key=lambda number: places[number])
    moved = list(places)
    for before, number in pairwise(order):
        moved[number] = max(moved[number], moved[before] + gap)
    for number in reversed(order):
        moved[number] = min(moved[number], end)
        end = moved[number] - gap
    return moved


def ticks(low: float, high: float, least: float = 0) -> list[float]:
    """A few round numbers from one to the other, so far apart at least."""
    width = max(least, (high - low) / _TICKS)
    power = math.floor(math.log10(width))
    step = next(step for step in (1, 2, 5, 10) if step * 10.0**power >= width * 0.99)
    size = step * 10.0**power
    numbers = range(math.ceil(low / size - 1e-9), math.floor(high / size + 1e-9) + 1)
    return [float(f"{number * step}e{power}") for number in numbers]
