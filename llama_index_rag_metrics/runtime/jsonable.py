"""Values as JSON holds them: plain numbers for numpy's, ISO texts for dates, null for NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, time
from typing import Any

import numpy as np

from llama_index_rag_metrics.runtime.errors import InvalidInput

_MISSING = {"NAType", "NaTType"}
"""Types of pandas' missing values, by name, since pandas may not be installed."""


def jsonable(value: Any, *path: object, strict: bool = True) -> Any:
    """The value as JSON holds it, the rest as it is, or an error at `path`, if `strict`."""
    is_number = type(value) is float and math.isfinite(value)
    if is_number or value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, Mapping):
        return {
            _key(key, path, strict): jsonable(member, *path, key, strict=strict)
            for key, member in value.items()
        }
    if isinstance(value, np.ndarray):
        return jsonable(list(value) if value.ndim else value[()], *path, strict=strict)
    if isinstance(value, (list, tuple)):
        return [jsonable(member, *path, index, strict=strict) for index, member in enumerate(value)]
    plain = _plain(value)
    return _refuse(value, path) if strict and plain is value else plain


def _plain(value: Any) -> Any:
    if type(value).__name__ in _MISSING:
        return None
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, (float, np.floating)) and not math.isinf(value):
        return None if math.isnan(value) else float(value)
    if isinstance(value, (np.bool_, np.integer)) and not isinstance(value, np.timedelta64):
        return value.item()
    return value


def _key(key: Any, path: tuple[object, ...], strict: bool) -> Any:
    plain = jsonable(key, *path, key, strict=strict)
    if isinstance(plain, list):
        return _refuse(key, (*path, key)) if strict else key
    return plain


def _refuse(value: object, path: tuple[object, ...]) -> None:
    argument, *keys = path or ("value",)
    place = f"{argument}{''.join(f'[{key!r}]' for key in keys)}"
    remedy = "Make it a text or a number, or leave it out."
    raise InvalidInput(place, value, "what JSON can hold", remedy)
