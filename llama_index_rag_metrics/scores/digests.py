"""A digest of a ranking, by which the gate tells an unchanged system."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

_DIGITS = 12


def ranking_digest(ids: Sequence[str]) -> str:
    """A short digest of the ids and their order: two rankings that share it are identical."""
    return sha256(_json(ids).encode("ascii")).hexdigest()[:_DIGITS]


def _json(ids: Sequence[str]) -> str:
    """The ids as JSON; where nothing has to be escaped, in a third of the time."""
    texts = list(map(str, ids))
    joined = '","'.join(texts)
    plain = joined.isascii() and joined.isprintable() and "\\" not in joined
    if texts and plain and joined.count('"') == 2 * (len(texts) - 1):
        return f'["{joined}"]'
    return json.dumps(texts, separators=(",", ":"))
