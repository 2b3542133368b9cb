"""Numbers as people read them: every digit of a table, a sentence or a figure is chosen here.

A bare `g` elsewhere writes a number that somebody gave, such as a limit or a grade.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from llama_index_rag_metrics.report.model import Cell, Form
from llama_index_rag_metrics.statistics.resampling import NOISE

NO_VALUE = "–"
MINUS = "−"

DIGITS = 4
_SMALLEST_P = 0.0001

PLOTLY: Mapping[str, str] = {
    "score": f".{DIGITS}f",
    "signed": f"+.{DIGITS}f",
    "level": ".1f",
    "share": ".0%",
    "milliseconds": ".3~g",
}
"""Formats for plotly, which rounds while it draws."""


def shown(cell: Cell, *, interval: bool = True) -> str:
    """A cell as text; a score with its interval, unless `interval` is False.

    >>> shown(Cell(0.52523, "score", low=0.43101, high=0.6194))
    '0.5252 [0.4310, 0.6194]'
    >>> shown(Cell(-0.25, "signed")), shown(Cell((2, 7), "share")), shown(Cell(None, "score"))
    ('−0.2500', '2 of 7 (29%)', '–')
    """
    if cell.value is None and cell.form != "range":
        return NO_VALUE
    text = _FORMS[cell.form](cell.value, cell)
    if interval and cell.form == "score" and cell.low is not None and cell.high is not None:
        return f"{text} [{score(cell.low)}, {score(cell.high)}]"
    return text


def score(value: float, limit: float | None = None) -> str:
    """A score to four decimals, or to as many as tell it from a limit, up to nine.

    >>> score(0.5), score(0.50001, limit=0.5), score(0.5 + 1e-12, limit=0.5), score(math.nan)
    ('0.5000', '0.500010', '0.5000', '–')
    """
    if math.isnan(value):
        return NO_VALUE
    text = f"{abs(value):.{_decimals(value, limit)}f}"
    return f"{MINUS}{text}" if value < 0 and float(text) else text


def signed(value: float, limit: float | None = None) -> str:
    """A difference with its sign, which one that looks like 0 doesn't have.

    >>> signed(0.00006), signed(-0.25), signed(-0.00004), signed(math.nan)
    ('+0.0001', '−0.2500', '0.0000', '–')
    """
    text = score(abs(value), None if limit is None else abs(limit))
    if text == NO_VALUE or not float(text):
        return text
    return f"{'+' if value > 0 else MINUS}{text}"


def between(low: float | None, high: float | None) -> str:
    """The interval of a difference; an end next to 0 is above or below it, however close.

    >>> between(-0.1, 0.2), between(0.00003, 0.2), between(0.0, 0.2), between(1e-12, 0.2)
    ('−0.1000 to +0.2000', '+0.000030 to +0.2000', '0.0000 to +0.2000', 'above 0 to +0.2000')
    """
    return NO_VALUE if low is None or high is None else f"{_end(low)} to {_end(high)}"


def p_value(p: float) -> str:
    """A p value in two digits.

    >>> p_value(0.0123), p_value(0.00001)
    ('0.012', '< 0.0001')
    """
    return f"< {_SMALLEST_P:.4f}" if p < _SMALLEST_P else f"{p:.2g}"


def seconds(value: float) -> str:
    """Seconds in three digits.

    >>> seconds(0.0124), seconds(2.5)
    ('12.4 ms', '2.50 s')
    """
    number, unit = (value, "s") if value >= 1 else (value * 1e3, "ms")
    return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f} {unit}"


def count(value: float) -> str:
    """How many; of a mean, three digits or all before the point.

    >>> count(2000), count(0.5), count(2710.08)
    ('2,000', '0.5', '2,710')
    """
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(share: float) -> str:
    """A level of confidence, in four digits; more where these would make it certain.

    >>> percent(0.95), percent(1 - 0.05 / 3), percent(0.999999)
    ('95 %', '98.33 %', '99.9999 %')
    """
    digits = f"{share * 100:.4g}"
    return f"{share * 100:.10g} %" if digits == "100" else f"{digits} %"


def whole_percent(share: float) -> str:
    return f"{share:.0%}"


def hundredths(share: float) -> str:
    return f"{share:.2f}"


def hundredths_up(share: float) -> str:
    """A share in two decimals, rounded up.

    >>> hundredths_up(0.0512)
    '0.06'
    """
    return hundredths(math.ceil(round(share * 100, 9)) / 100)


def whole_seconds(value: float) -> str:
    return f"{value:.0f} s"


def given(value: float) -> str:
    """A number that somebody gave, without the noise of binary fractions.

    >>> given(1 - 0.9)
    '0.1'
    """
    return f"{value:.12g}"


def span_of_bar(low: float, high: float) -> str:
    return f"{low:+.3f} to {high:+.3f}"


def hover(axis: str, form: str = "score") -> str:
    """A number on an axis of a figure, in plotly's words.

    >>> hover("x"), hover("y", "share")
    ('%{x:.4f}', '%{y:.0%}')
    """
    return f"%{{{axis}:{PLOTLY[form]}}}"


def kept_score(value: float | None) -> float | None:
    """A score as a page keeps it: to the digits that it shows."""
    return None if value is None else round(value, DIGITS)


def kept_seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def counted(n: int, noun: str = "query", plural: str = "queries") -> str:
    """How many of something, in words.

    >>> counted(1), counted(2000)
    ('1 query', '2,000 queries')
    """
    return f"{n:,} {noun if n == 1 else plural}"


def _decimals(value: float, limit: float | None) -> int:
    if limit is None:
        return DIGITS
    return next((n for n in (DIGITS, 6, 9) if round(value, n) != round(limit, n)), DIGITS)


def _end(value: float) -> str:
    text = signed(value, 0.0)
    if float(text.replace(MINUS, "-")) or abs(value) < NOISE:
        return text
    return "above 0" if value > 0 else "below 0"


def _share(counts: tuple[int, int], _: Cell) -> str:
    part, whole = counts
    return f"{part:,} of {whole:,} ({whole_percent(part / whole if whole else 0)})"


def _bounds(show: Callable[[float, float | None], str], cell: Cell) -> str:
    if cell.low is None and cell.high is None:
        return NO_VALUE
    ends = (cell.low, cell.high)
    return " … ".join(NO_VALUE if end is None else show(end, cell.limit) for end in ends)


_FORMS: Mapping[Form, Callable[[Any, Cell], str]] = {
    "text": lambda value, _: str(value),
    "score": lambda value, cell: score(value, cell.limit),
    "signed": lambda value, cell: signed(value, cell.limit),
    "range": lambda _, cell: between(cell.low, cell.high),
    "bounds": lambda value, cell: _bounds(signed if value == "signed" else score, cell),
    "change": lambda value, _: " → ".join(map(score, value)),
    "p": lambda value, _: p_value(value),
    "effect": lambda value, _: f"{value:+.2f}".replace("-", MINUS),
    "count": lambda value, _: count(value),
    "tally": lambda value, _: " / ".join(map(str, value)),
    "share": _share,
    "seconds": lambda value, _: seconds(value),
    "outcome": lambda value, _: str(value),
}
