"""Digests of texts, the same in every process."""

from __future__ import annotations

from hashlib import sha256


def short_hash(text: str, digits: int = 12) -> str:
    """The first hexadecimal digits of a text's hash."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
