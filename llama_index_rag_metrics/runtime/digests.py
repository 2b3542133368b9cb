"""Digests of values, the same in every process, for journals and caches.

The name of a class doesn't tell two values apart: by it alone, a journal or a cache would bring
back the results of another one.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cached_property, partial
from hashlib import sha256
from pathlib import PurePath
from reprlib import recursive_repr
from types import CodeType
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from pydantic import BaseModel

from llama_index_rag_metrics.runtime.masking import names_secret

_SCALARS = (bool, int, float, complex, str, bytes)
_PACKAGES = frozenset({"site-packages", "dist-packages"})


def short_hash(text: str, digits: int = 12) -> str:
    """The first hexadecimal digits of a text's hash."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def scalar(value: object) -> str | None:
    """A number or a text, written so that its type shows; None for anything else."""
    kind = next((kind for kind in _SCALARS if isinstance(value, kind)), None)
    if kind is not None:
        return str(kind.__repr__(value))
    return repr(value) if value is None or value is ... else None


def function_of(member: Any) -> Any:
    """What a method, a property or a cached one calls; anything else as it is."""
    inner = member.func if isinstance(member, cached_property) else member
    return getattr(inner, "__func__", None) or getattr(inner, "fget", None) or inner


def code_of(function: Any) -> str:
    """The code of a function and of the user's decorators around it; "" without Python's."""
    *decorators, innermost = _layers(function_of(function))
    # those of packages change with their versions alone
    by_user = [
        each
        for each in decorators
        if is_by_the_user(getattr(each, "__globals__", {}).get("__name__", ""))
    ]
    codes = [getattr(each, "__code__", None) for each in (*by_user, innermost)]
    return " ".join(_code(code) for code in codes if isinstance(code, CodeType))


def _layers(function: Any) -> Iterator[Any]:
    """A function and what it is wrapped around, the innermost last."""
    innermost = inspect.unwrap(function)
    while function is not innermost:
        yield function
        function = function.__wrapped__
    yield innermost


def code_of_class(kind: type) -> str:
    """The code of a class and its bases, in the same module or by the user, as a text."""
    members = {
        f"{base.__qualname__}.{name}": code_of(member)
        or ("" if name.startswith("__") else scalar(member) or "")
        for base in bases_by_the_user(kind)
        for name, member in vars(base).items()
    }
    does = {name: text for name, text in members.items() if text}
    return f"{kind.__module__}.{kind.__qualname__} {does}"


def bases_by_the_user(kind: type) -> list[type]:
    """A class and its bases in the same module, and those of other modules that a user wrote."""
    module = kind.__module__
    return [
        base
        for base in kind.__mro__
        if base.__module__ == module != "builtins" or is_by_the_user(base.__module__)
    ]


def is_by_the_user(module: str) -> bool:
    """Whether a module is neither Python's own nor that of an installed package."""
    if module.partition(".")[0] in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return not _PACKAGES.intersection(PurePath(file).parts)


def _code(code: CodeType) -> str:
    return f"{code.co_code.hex()} {code.co_names} [{', '.join(map(_constant, code.co_consts))}]"


def _constant(constant: object) -> str:
    if isinstance(constant, CodeType):
        return _code(constant)
    if isinstance(constant, frozenset):
        return f"{{{', '.join(sorted(map(_constant, constant)))}}}"
    if isinstance(constant, tuple):
        return f"({', '.join(map(_constant, constant))})"
    return repr(constant)


def content(cell: Any) -> Any:
    """What a cell of a closure holds; None for a name that isn't assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


_KEY_OR_HEADERS = re.compile(r"(^|[-_])key$|header", re.I)
_WITHOUT_EFFECT = (
    *("embed_batch_size", "num_workers", "timeout", "max_retries", "reuse_client", "verbose"),
    *("show_progress_bar", "top_n", "rate_limiter"),
)


@dataclass(frozen=True)
class Request:
    """All that a cached value depends on; `parameters` are JSON, without secrets."""

    kind: str
    model: str
    endpoint: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    query: str = ""
    text: str | Sequence[str] = ""

    @cached_property
    def key(self) -> str:
        text = self.text if isinstance(self.text, str) else list(self.text)
        endpoint = without_credentials(self.endpoint)
        parts = [self.kind, self.model, endpoint, dict(self.parameters), self.query, text]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def identity(component: object) -> dict[str, Any]:
    """The settings of a LlamaIndex component that bear on its answers: JSON, without secrets."""
    kind = type(component)
    described: dict[str, Any] = {"class": f"{kind.__module__}.{kind.__qualname__}"}
    if not _is_llama_index(kind):
        described["code"] = short_hash(code_of_class(kind))
    fields = {name: getattr(component, name) for name in getattr(kind, "model_fields", {})}
    described |= _settings(
        {
            name: value
            for name, value in fields.items()
            # in a list, another's component may note what it did
            if name not in _WITHOUT_EFFECT and not ("code" in described and isinstance(value, list))
        }
    )
    private = getattr(component, "__pydantic_private__", None) or {}
    # the rest may change as it is used
    kept = {
        name: held for name, held in private.items() if isinstance(held, str) or "config" in name
    }
    return described | _settings(kept)


def _settings(values: Mapping[Any, Any]) -> dict[str, Any]:
    """The settings that can be written as JSON, without secrets."""
    settings = {}
    for name, value in values.items():
        is_kept = isinstance(value, int) or not _is_secret(str(name))
        # template_vars of a prompt are in another order in every process
        if is_kept and name != "template_vars" and (setting := _setting(value)) is not None:
            settings[str(name)] = setting
    return settings


@recursive_repr("a circle")
def _setting(value: Any) -> Any:
    """A setting as JSON; None where it is none, or LlamaIndex's own default."""
    from llama_index.core.schema import BaseComponent

    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value
    if isinstance(value, BaseComponent):
        return identity(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, BaseModel):
        value = {**vars(value), **(value.__pydantic_extra__ or {})}
    elif is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name, None) for each in fields(value)}
    if isinstance(value, Mapping):
        return _settings(value) or None
    if isinstance(value, (list, tuple)):
        return [_setting(item) for item in value] or None
    if isinstance(value, partial):
        return [_setting(value.func), _setting(value.args), _settings(value.keywords)]
    if inspect.isroutine(value) and not _is_llama_index(value):
        function = getattr(value, "__func__", value)
        layers = [*_layers(function)]  # with what decorators were made with
        cells = [
            content(cell) for each in layers for cell in getattr(each, "__closure__", ()) or ()
        ]
        defaults = getattr(layers[-1], "__defaults__", ()) or ()
        # what changes as it runs, such as a list, isn't part of it
        held = [scalar(part) for part in (*cells, *defaults)]
        return f"{function.__qualname__} {short_hash(f'{code_of(function)} {held}')}"
    return None


def _is_llama_index(named: Any) -> bool:
    return str(getattr(named, "__module__", "")).partition(".")[0] == "llama_index"


def without_credentials(url: str) -> str:
    """The URL without a user, a password, keys in its query and a fragment; other texts as is."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    asked = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode([(name, value) for name, value in asked if not _is_secret(name)])
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query=query, fragment="").geturl()


def _is_secret(name: str) -> bool:
    return names_secret(name) or _KEY_OR_HEADERS.search(name) is not None
