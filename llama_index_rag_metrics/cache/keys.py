"""The keys of the cache: a hash of all that a value depends on, and of no secret."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from llama_index.core.schema import BaseComponent

_SECRETS = ("key", "token", "secret", "password", "credential", "header", "authorization")
_WITHOUT_EFFECT = (
    "embed_batch_size",
    "num_workers",
    "timeout",
    "max_retries",
    "reuse_client",
    "verbose",
    "show_progress_bar",
    "top_n",
)


@dataclass(frozen=True)
class Request:
    """All that a cached value depends on.

    Attributes:
        kind: what is asked, such as "rerank".
        model: the model that is asked.
        endpoint: where it is asked; a user and a password in it aren't part of the key.
        parameters: what else bears on the answer; JSON, without secrets.
        query: the query, or "".
        text: the text, or the texts.
    """

    kind: str
    model: str
    endpoint: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    query: str = ""
    text: str | Sequence[str] = ""

    @cached_property
    def key(self) -> str:
        """The hash under which the value is kept."""
        text = self.text if isinstance(self.text, str) else list(self.text)
        endpoint = without_credentials(self.endpoint)
        parts = [self.kind, self.model, endpoint, dict(self.parameters), self.query, text]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def identity(component: object) -> dict[str, Any]:
    """What of a LlamaIndex component bears on its answers: JSON, for a key, without secrets.

    Its class and its plain settings, also those in kwargs, and those of the components and prompts
    in it. Functions and private attributes can't be told apart.
    """
    kind = type(component)
    described: dict[str, Any] = {"class": f"{kind.__module__}.{kind.__qualname__}"}
    for name in getattr(kind, "model_fields", {}):
        if name in _WITHOUT_EFFECT or _is_secret(name):
            continue
        value = getattr(component, name)
        if isinstance(value, str):
            described[name] = without_credentials(value)
        elif isinstance(value, (bool, int, float)) and math.isfinite(value):
            described[name] = value
        elif isinstance(value, Mapping) and value and name.endswith("kwargs"):
            described[name] = _settings(value)
        elif isinstance(value, BaseComponent):
            described[name] = identity(value)
        elif callable(getattr(value, "get_template", None)):
            described[name] = sha256(repr(value).encode("utf-8", "replace")).hexdigest()
    return described


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


def _settings(value: object) -> Any:
    """Settings in a mapping as JSON, without secrets; of an object, its class."""
    if isinstance(value, Mapping):
        plain = {str(name): member for name, member in value.items()}
        return {name: _settings(plain[name]) for name in plain if not _is_secret(name)}
    if isinstance(value, (list, tuple)):
        return [_settings(member) for member in value]
    if isinstance(value, str):
        return without_credentials(value)
    return value if isinstance(value, (bool, int, float)) else type(value).__qualname__
