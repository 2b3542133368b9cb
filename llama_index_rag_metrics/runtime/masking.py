"""Errors and values in messages: short, and without secrets."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any
from urllib.parse import quote

from pydantic import SecretStr

MASK = "***"
MOST_CHARACTERS = 1_000  # of a recorded error

_SHORTEST_SECRET = 6  # shorter ones are placeholders, and would be found in any text
_WINDOW = 50_000  # characters of a text that are looked through: nothing behind them is shown
_NOTICE = 40  # characters at most of the notice that a text was cut, so that it isn't cut again

_DEEPEST = 4
_MOST_OBJECTS = 300  # that are searched for secrets: a store may hold millions of nodes

_SECRET_NAME = re.compile(
    r"(access|account|api|auth|private|subscription)[-_]?key"
    r"|secret|passw(or)?d|credential|authorization|token$",
    re.I,
)
_HOLDER_NAME = re.compile(r"header|kwargs|auth|^keywords$", re.I)
_VALUE = r"[^\s\"',;&)\\]{6,}"
_CREDENTIALS = (
    re.compile(
        r"(?P<kept>\b(?:bearer|authorization[\"']?\s?[:=]\s?[\"']?(?:basic|apikey|token))\s)"
        r"[\w.~+/=*:-]{8,}",
        re.I,
    ),
    re.compile(r"(?P<kept>://)[^/\s@]{1,500}(?=@)"),
    # in an address: ?token=, &key=, ?code=, &sig=, ?subscription-key=, &X-Amz-Signature=
    re.compile(
        r"(?P<kept>[?&][\w.-]{0,40}(?:token|key|secret|signature|password|code|sig)=)[^\s\"'&#]+",
        re.I,
    ),
    re.compile(
        r"(?P<kept>(?:(?:api|access|account)[-_]?key|(?:access|auth|private)[-_]?token"
        r"|shared[-_]?access[-_]?signature|\bsig|secret|\bpwd|passw(?:or)?d|authorization)"
        r"[\"']?\s?(?:=\s?|:\s?(?=[\"']|\S{0,200}\d))[\"']?)(?!bearer\b)" + _VALUE,
        re.I,
    ),
    re.compile(
        r"(?P<kept>)\b(?:sk|pk|rk|gsk|xai|hf|gh[pousr]|github_pat|glpat|pplx|r8|nvapi|pcsk|jina"
        r"|xox[abps])[-_][\w*-]{12,}"
    ),
    re.compile(r"(?P<kept>)\bAIza[\w-]{30,}|\bAKIA[0-9A-Z]{16}\b"),
    re.compile(r"(?P<kept>)\beyJ[\w-]{10,2000}\.[\w-]{10,2000}\.[\w-]{0,2000}"),
)

_lock = threading.Lock()
_registered: set[str] = set()


def register_secret(secret: str | SecretStr | None) -> None:
    """Have a secret masked in all errors that this process records from now on."""
    plain = secret.get_secret_value() if isinstance(secret, SecretStr) else secret
    if isinstance(plain, str) and len(plain.strip()) >= _SHORTEST_SECRET:
        with _lock:
            _registered.update(_spellings(plain.strip()))


def register_secrets_of(*components: object) -> None:
    """Register what components, and what is in them or read by them, name as secrets."""
    level = list(components)
    looked_at: set[int] = set()
    for _ in range(_DEEPEST):
        below: list[object] = []
        for component in level:
            if id(component) in looked_at or len(looked_at) > _MOST_OBJECTS:
                continue
            looked_at.add(id(component))
            for name, value in _fields(component):
                if _is_secret(name, value):
                    register_secret(value)
                elif not isinstance(value, str) and _may_hold_secrets(name, value):
                    below.append(value)
        level = below


def _is_secret(name: str, value: object) -> bool:
    if isinstance(value, str):
        return names_secret(name) and not re.search(r"\s", value)
    return isinstance(value, SecretStr)


def _may_hold_secrets(name: str, value: object) -> bool:
    if isinstance(value, Mapping):
        return _HOLDER_NAME.search(name) is not None
    return hasattr(value, "__dict__") or isinstance(value, MethodType)


def _fields(component: object) -> Iterator[tuple[str, Any]]:
    """What an object holds, by name, read without running its code."""
    if isinstance(component, type):
        return
    if isinstance(component, partial):
        yield "func", component.func
        yield from component.keywords.items()
    if isinstance(component, MethodType):
        yield "self", component.__self__
        component = component.__func__
    if isinstance(component, FunctionType):
        yield from _fields_of_function(component)
    holders: list[object] = [component]
    for attribute in ("__dict__", "__pydantic_private__"):
        with suppress(AttributeError):
            holders.append(object.__getattribute__(component, attribute))
    for holder in holders:
        if isinstance(holder, Mapping):
            for name, value in list(holder.items())[:100]:
                yield str(name), value


def _fields_of_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        with suppress(ValueError):  # it has no value yet
            yield name, cell.cell_contents
    positional = code.co_varnames[: code.co_argcount]
    yield from zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False)
    yield from (function.__kwdefaults__ or {}).items()
    for name in code.co_names:
        value = function.__globals__.get(name)
        if not isinstance(value, (ModuleType, FunctionType, type)):
            yield name, value


def names_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def without_secrets(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping with *** for what its names call secrets, in mappings within it, too."""
    masked: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            masked[name] = without_secrets(value)
        elif isinstance(value, str) and len(value) >= _SHORTEST_SECRET and names_secret(str(name)):
            masked[name] = MASK
    return {**values, **masked} if masked else values


def mask(text: str) -> str:
    """The text without any registered secret, key of the environment, or likely credential."""
    with _lock:
        secrets = set(_registered)
    for name, value in list(os.environ.items()):
        if names_secret(name) and len(value.strip()) >= _SHORTEST_SECRET:
            secrets.update(_spellings(value.strip()))
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    for pattern in _CREDENTIALS:
        text = pattern.sub(rf"\g<kept>{MASK}", text)
    return text


def mask_and_cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """The masked text, cut with a notice where it is much longer than `most` characters."""
    masked = mask(text[:_WINDOW])
    if len(masked) <= most + _NOTICE and len(text) <= _WINDOW:
        return masked
    return f"{masked[:most]}… (cut: {len(text):,} characters)"


def describe_error(error: BaseException | str) -> str:
    """The class and the message of an error, or its description, masked, then cut."""
    if isinstance(error, BaseException):
        try:
            message = str(error)
        except BaseException as broken:  # noqa: BLE001 - whatever an exception's own __str__ does
            message = f"(its message can't be read: {type(broken).__name__})"
        error = f"{type(error).__name__}: {message}".removesuffix(": ")
        error = error.removeprefix("RagMetricsError: ")  # the base class's name says nothing
    return mask_and_cut(error)


def _spellings(secret: str) -> set[str]:
    return {secret, quote(secret, safe=""), json.dumps(secret)[1:-1]}


def truncated(text: str, limit: int = 120) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shorten(value: object) -> str:
    """The `repr` of a value, masked, then shortened."""
    return truncated(mask(repr(value)[:_WINDOW]))


def join_first(parts: Sequence[str], most: int = 5) -> str:
    """The first few of many parts, each shortened, and how many more there are."""
    listed = ", ".join(map(truncated, parts[:most]))
    if len(parts) <= most:
        return listed
    return f"{listed} and {len(parts) - most:,} more"
