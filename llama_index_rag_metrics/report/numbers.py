"""Numbers as people read them: every digit of a table, a sentence or a figure is chosen here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from llama_index_rag_metrics.statistics.resampling import NOISE

from .model import Cell, Form

NO_VALUE = "–"
MINUS = "−"
DIGITS = 4
_FEWEST_DIGITS, _MOST_DIGITS = 2, 9


def shown(cell: Cell, *, interval: bool = True) -> str:
    if cell.value is None and cell.form not in ("range", "bounds"):
        return NO_VALUE
    text = _FORMS[cell.form](cell.value, cell)
    if interval:
        text += interval_of(cell)
    return text


def interval_of(cell: Cell) -> str:
    """The interval of a score or a difference in brackets, after a space; "" for none."""
    if cell.form not in ("score", "signed"):
        return ""
    if cell.low is None or cell.high is None or math.isnan(cell.low):
        return ""
    return f" ({_bounds(cell.form, cell._replace(limit=None))})"


def digits_of(n: int) -> int:
    """How many decimals a mean carries: the last is at most a fifth of 0.5 / √n, its error."""
    return min(DIGITS, max(_FEWEST_DIGITS, 1 + math.ceil(math.log10(max(n, 1)) / 2)))


def digits_for(n: int, low: float | None, high: float | None) -> int:
    """How many decimals a difference over n questions carries: as many as show that it isn't 0."""
    if low is None or high is None or low <= 0 <= high:
        return digits_of(n)
    return max(digits_of(n), decimals_of(low, high))


def digits_agreeing(now: float, before: float, digits: int) -> int:
    for decimals in range(digits, DIGITS):
        gap = round(now, decimals) - round(before, decimals)
        if math.isclose(gap, round(now - before, decimals), abs_tol=NOISE):
            return decimals
    return DIGITS


def mean_of(cell: Cell, n: int, digits: int = 0) -> Cell:
    limit = None
    if isinstance(cell.value, float) and 0 <= cell.value <= 1:
        limit = round(cell.value)
    return cell._replace(digits=max(digits_of(n), digits), limit=limit)


def score(value: float, limit: float | None = None, digits: int = DIGITS) -> str:
    """A score to four decimals, or to as many as tell it from a limit, up to nine."""
    if math.isnan(value):
        return NO_VALUE
    text = f"{abs(value):.{_decimals(value, limit, digits)}f}"
    if value < 0 and float(text):
        return MINUS + text
    return text


def estimate(name: str, value: float, low: float | None, high: float | None, n: int) -> str:
    cell = mean_of(Cell(value, "score", low=low, high=high), n)
    interval = interval_of(cell).replace(")", " with 95 % confidence)")
    return f"{name} is {shown(cell, interval=False)}{interval}"


def signed(value: float, limit: float | None = None, digits: int = DIGITS) -> str:
    """A difference with its sign, which one that looks like 0 doesn't have."""
    if limit and limit * value < 0:  # a limit on the other side of 0 is told apart by the sign
        limit = None
    text = score(abs(value), limit and abs(limit), digits)
    if text == NO_VALUE or not float(text):
        return text
    if value > 0:
        return f"+{text}"
    return MINUS + text


def between(low: float | None, high: float | None, digits: int = DIGITS) -> str:
    """The interval of a difference; an end next to 0 is above or below it, however close."""
    if low is None or high is None:
        return NO_VALUE
    return " to ".join(_beside_0(signed(end, 0.0, digits), end) for end in (low, high))


def ends(low: float, high: float) -> str:
    decimals = decimals_of(low, high)
    return " to ".join(_beside_0(score(end, 0.0, decimals), end) for end in (low, high))


def decimals_of(low: float, high: float) -> int:
    """How many decimals the ends of an interval carry: rounding moves none by a fifth of it."""
    half = (high - low) / 2
    if half <= 0:
        return _MOST_DIGITS
    decimals = max(0, math.ceil(-math.log10(half / 2.5)))
    if half < 1:
        decimals = max(decimals, _FEWEST_DIGITS)
    return min(_MOST_DIGITS, decimals)


def rounded_up(value: float, decimals: int) -> str:
    unit = 10.0**decimals
    return score(math.ceil(round(value * unit, 6)) / unit, digits=decimals)


def seconds(value: float) -> str:
    number, unit = value, "s"
    if value < 1:
        number, unit = value * 1e3, "ms"
    decimals = int(number < 10) + int(number < 100)
    return f"{number:.{decimals}f} {unit}"


def count(value: float) -> str:
    if isinstance(value, int) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percent(share: float) -> str:
    digits = f"{share * 100:.4g}"
    if digits == "100":
        digits = f"{share * 100:.10g}"
    return f"{digits} %"


def whole_percent(share: float) -> str:
    return f"{share:.0%}"


def two_digits_up(n: float) -> str:
    """About how many, rounded up: 299,639 is 300,000."""
    unit = int(10 ** max(0, len(str(math.ceil(n))) - 2))
    return f"{math.ceil(n / unit) * unit:,}"


def given(value: float) -> str:
    return f"{value:,.10g}".replace("-", MINUS)


def counted(n: int, noun: str, plural: str) -> str:
    if n == 1:
        return f"1 {noun}"
    return f"{n:,} {plural}"


def questions(n: int) -> str:
    return counted(n, "question", "questions")


def _decimals(value: float, limit: float | None, digits: int) -> int:
    if limit is None:
        return digits
    choices = range(digits, _MOST_DIGITS + 1)
    for decimals in choices:
        if round(value, decimals) != round(limit, decimals):
            return decimals
    for decimals in choices:  # a value that is the limit has its digits
        if round(limit, decimals) == limit:
            return decimals
    return digits


def _beside_0(text: str, value: float) -> str:
    if float(text.replace(MINUS, "-")) or abs(value) < NOISE:
        return text
    if value > 0:
        return "above 0"
    return "below 0"


def _bounds(value: object, cell: Cell) -> str:
    if cell.low is None and cell.high is None:
        return NO_VALUE
    show = score
    if value == "signed":
        show = signed
    texts = []
    for end in (cell.low, cell.high):
        texts.append(NO_VALUE if end is None else show(end, cell.limit, cell.digits))
    return " to ".join(texts)


_FORMS: Mapping[Form, Callable[[Any, Cell], str]] = {
    "text": lambda value, _: str(value),
    "outcome": lambda value, _: str(value),
    "score": lambda value, cell: score(value, cell.limit, cell.digits),
    "signed": lambda value, cell: signed(value, cell.limit, cell.digits),
    "range": lambda _, cell: between(cell.low, cell.high, cell.digits),
    "bounds": _bounds,
    "count": lambda value, _: count(value),
    "tally": lambda value, _: " / ".join(f"{part:,}" for part in value),
    "seconds": lambda value, _: seconds(value),
}
