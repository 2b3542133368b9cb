"""The keys of the cache: a hash of all that a value depends on, and of no secret."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from llama_index_rag_metrics.runtime.digests import (
    code_of,
    code_of_class,
    content,
    scalar,
    short_hash,
)

_SECRETS = ("key", "token", "secret", "password", "credential", "header", "authorization")
_WITHOUT_EFFECT = (
    *("embed_batch_size", "num_workers", "timeout", "max_retries", "reuse_client", "verbose"),
    *("show_progress_bar", "top_n"),
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
    """The settings of a LlamaIndex component that bear on its answers: JSON, without secrets.

    With its class, the code of a class that isn't LlamaIndex's, the components and prompts in it,
    and private attributes that are texts; not other private ones, or lists of others' classes.
    """
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
    texts = {name: value for name, value in private.items() if isinstance(value, str)}
    return described | _settings(texts)


def _settings(values: Mapping[Any, Any]) -> dict[str, Any]:
    """The settings that can be written as JSON, without secrets."""
    settings = {}
    for name, value in values.items():
        is_kept = isinstance(value, int) or not _is_secret(str(name))
        if is_kept and (setting := _setting(value)) is not None:
            settings[str(name)] = setting
    return settings


def _setting(value: Any) -> Any:
    """A setting as JSON; None where it is none, or LlamaIndex's own default."""
    from llama_index.core.schema import BaseComponent

    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, (bool, int, float)):
        return value if math.isfinite(value) else None
    if isinstance(value, BaseComponent):
        return identity(value)
    if callable(getattr(value, "get_template", None)):
        return sha256(repr(value).encode("utf-8", "replace")).hexdigest()
    if isinstance(value, Mapping):
        return _settings(value) or None
    if isinstance(value, (list, tuple)):
        return [_setting(item) for item in value] or None
    if isinstance(value, partial):
        return [_setting(value.func), _setting(value.args), _settings(value.keywords)]
    if inspect.isroutine(value) and not _is_llama_index(value):
        function = inspect.unwrap(getattr(value, "__func__", value))
        cells = [content(cell) for cell in getattr(function, "__closure__", None) or ()]
        # what changes as it runs, such as a list, isn't part of it
        held = [scalar(part) for part in (*cells, *(getattr(function, "__defaults__", ()) or ()))]
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
    return any(word in name.lower() for word in _SECRETS)
