"""Digests of texts and requests, the same in every process, for journals and caches."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from llama_index_rag_metrics.runtime.masking import names_secret


def short_hash(text: str, digits: int = 12) -> str:
    """The first hexadecimal digits of a text's hash."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


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


def settings_of(component: object) -> dict[str, Any]:
    """The class of a LlamaIndex component and its fields that JSON can hold, without secrets."""
    kind = type(component)
    settings = {}
    for name in getattr(kind, "model_fields", {}):
        value = getattr(component, name)
        # in a list a component may note what it did
        if name not in _WITHOUT_EFFECT and not isinstance(value, list):
            settings[name] = value
    return {"class": f"{kind.__module__}.{kind.__qualname__}", **_plain_fields(settings)}


def _plain_fields(values: Mapping[Any, Any]) -> dict[str, Any]:
    plain = {}
    for name, value in values.items():
        is_safe = isinstance(value, int) or not _is_secret(str(name))
        if is_safe and (setting := _plain(value)) is not None:
            plain[str(name)] = setting
    return plain


def _plain(value: Any) -> Any:
    """A setting as JSON; None for anything else."""
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value
    if isinstance(value, Mapping):
        return _plain_fields(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None


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
