"""What drawings of figures go by: ticks, places, and names made short."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from .excerpts import shared_start
from .figure import MOST_ABREAST

_TICKS = 5
_SHORTEST_PREFIX = 4
_LETTER = re.compile(r"[^\W\d_]")


def without_prefix(names: Sequence[str]) -> tuple[str, list[str]]:
    """What all names begin with, up to a sign between words, and the names without it.

    >>> without_prefix(["e5-large-k5", "e5-large-k10"])
    ('e5-large-', ['k5', 'k10'])
    >>> without_prefix(["call 1", "call 2"])  # a number is no name, but where it has one: k=1
    ('', ['call 1', 'call 2'])
    """
    prefix = re.sub(r"[^\W_]*$", "", shared_start(names))
    short = [name.removeprefix(prefix) for name in names]
    is_named = all(short) if prefix.endswith("=") else all(map(_LETTER.search, short))
    if len(prefix) < _SHORTEST_PREFIX or len(names) < 2 or not is_named:
        return "", list(names)
    return prefix, short


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Each name as a sentence has it: of many, without what all begin with."""
    prefix, short = without_prefix(names)
    if len(names) <= MOST_ABREAST or prefix.endswith("="):
        short = list(names)
    return dict(zip(names, short, strict=True))


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Names of at most this many characters, or of as many as tell them apart.

    >>> shortened(["chunk512-rerank6", "chunk512-rerank12"], 12)
    ['chunk5…rank6', 'chunk5…ank12']
    """
    short = [_cut(name, most) for name in names]
    if len({*short}) == len({*names}):
        return short
    return shortened(names, most + 4)


def _cut(name: str, most: int) -> str:
    half = most // 2
    return name if len(name) <= most else f"{name[:half]}…{name[half + 1 - most :]}"


def spread(places: Sequence[float], gap: float, end: float) -> list[float]:
    """Places moved as little as it takes for them to be a gap apart and at most at the end.

    >>> spread([10, 12, 50], 10, 100), spread([98, 99], 10, 100)
    ([10, 20, 50], [90, 100])
    """
    order = sorted(range(len(places)), key=lambda number: places[number])
    moved = list(places)
    for previous, number in pairwise(order):
        moved[number] = max(moved[number], moved[previous] + gap)
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
