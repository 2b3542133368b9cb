"""Checks of numbers and choices that callers pass; errors name the argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from numbers import Integral, Real

from llama_index_rag_metrics.runtime.errors import InvalidInput

WORKERS = 8
"""How many questions or requests are under way at once, by default."""


def check_integer(argument: str, value: object, least: float = 1, expected: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidInput(argument, value, expected or f"a whole number of at least {least}")


def check_amount(
    argument: str, value: object, expected: str, is_allowed: Callable[[float], bool]
) -> None:
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number beyond all floats
            number = float(value)
    if not is_allowed(number):
        raise InvalidInput(argument, value, expected)


def check_share(argument: str, value: object) -> None:
    check_amount(argument, value, "a number above 0, up to 1", lambda share: 0 < share <= 1)
